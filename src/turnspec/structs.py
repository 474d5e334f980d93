"""The immutable messages and blocks that `turnspec.loads` gives: msgspec structs, the fast twins of the models.

Same field names as the pydantic models; `role` and `type` are class attributes. `Message.model_validate(s.to_wire())`
makes a model of one.
"""

from turnspec_generated.structs import *  # noqa: F403 - the classes follow the schema
from turnspec_generated.structs import Block, Message

__all__ = ["Block", "Message"]

"""`turnspec flatten`: each conversation as one list of text and image blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from turnspec.cli.choices import key_of
from turnspec.cli.commands.transform import Made, Transformation
from turnspec.cli.session import carry_out


class Flattening(Transformation):
    """The job: flatten. Nothing is lost that a report names."""

    def __init__(self, args: Any) -> None:
        super().__init__(key_of(args.key), "warn", False)

    def maker(self) -> Callable[[list[Any]], Made]:
        from turnspec.conversion import flatten_messages

        return lambda messages: Made(flatten_messages(messages), ())


def run(args: Any) -> int:
    """Flatten the inputs: one line for each conversation."""
    return carry_out(args, Flattening(args), writes=True)

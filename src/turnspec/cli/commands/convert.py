"""`turnspec convert`: each conversation as the request of a provider's format."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from turnspec.cli.choices import format_of, key_of, purpose_of
from turnspec.cli.commands.transform import Made, Transformation
from turnspec.cli.session import carry_out


class Conversion(Transformation):
    """The job: convert to a format, for a purpose."""

    def __init__(self, args: Any, format: str | None, purpose: str) -> None:
        super().__init__(key_of(args.key), args.on_loss, args.verbose or args.output == "json")
        self.format = format
        self.purpose = purpose

    def maker(self) -> Callable[[list[Any]], Made]:
        from turnspec.conversion import convert_with_report

        def make(messages: list[Any]) -> Made:
            done = convert_with_report(messages, self.format, purpose=self.purpose)
            return Made(done.payload, done.losses)

        return make


def run(args: Any) -> int:
    """Convert the inputs: one line for each conversation."""
    format = format_of(args.to, "--to")
    return carry_out(args, Conversion(args, format, purpose_of(args.purpose)), writes=True)

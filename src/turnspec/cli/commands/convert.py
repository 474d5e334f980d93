"""`turnspec convert`: each conversation in a provider's format, as payload or as arguments of its client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from turnspec.cli.choices import format_of, key_of, purpose_of
from turnspec.cli.commands.transform import Made, Transformation
from turnspec.cli.failures import UsageError
from turnspec.cli.session import carry_out


class Conversion(Transformation):
    """The job: convert to a format, for a purpose.

    `unsigned_calls`: None for payloads, else how arguments of the client treat calls without signature.
    """

    def __init__(self, args: Any, format: str, purpose: str, unsigned_calls: str | None) -> None:
        super().__init__(key_of(args.key), args.on_loss, args.verbose or args.output == "json")
        self.format = format
        self.purpose = purpose
        self.unsigned_calls = unsigned_calls

    def maker(self) -> Callable[[list[Any]], Made]:
        from turnspec.conversion import convert_with_report, request_arguments

        def make(messages: list[Any]) -> Made:
            done = convert_with_report(messages, self.format, purpose=self.purpose)
            if self.unsigned_calls is None:
                return Made(done.payload, done.losses)
            arguments = request_arguments(done.payload, self.format, unsigned_calls=self.unsigned_calls)
            return Made(arguments, done.losses)

        return make


def run(args: Any) -> int:
    """Convert the inputs: one line for each conversation."""
    format = format_of(args.to, "--to")
    unsigned_calls = args.unsigned_calls
    if args.arguments:
        unsigned_calls = unsigned_calls or "as_is"
    elif unsigned_calls:
        raise UsageError("--unsigned-calls says how --arguments are written: give both (see turnspec convert --help)")
    return carry_out(args, Conversion(args, format, purpose_of(args.purpose), unsigned_calls), writes=True)

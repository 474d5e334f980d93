"""`turnspec downgrade`: each conversation with the blocks of an older set only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from turnspec.cli.choices import key_of
from turnspec.cli.commands.transform import Made, Transformation
from turnspec.cli.documents import Conversation, with_conversation
from turnspec.cli.failures import choose
from turnspec.cli.session import carry_out


class Downgrading(Transformation):
    """The job: render what the set `to` does not have as text; `keep_task`: inside the task, where it is one."""

    def __init__(self, args: Any, to: str, keep_task: bool) -> None:
        super().__init__(key_of(args.key), args.on_loss, args.verbose or args.output == "json")
        self.to = to
        self.keep_task = keep_task

    def maker(self) -> Callable[[list[Any]], Made]:
        from turnspec.conversion import downgrade_messages

        def make(messages: list[Any]) -> Made:
            done = downgrade_messages(messages, to=self.to)
            return Made(done.messages, done.losses)

        return make

    def line(self, value: Any, conversation: Conversation) -> str:
        line = super().line(value, conversation)
        if not self.keep_task or conversation.task is None:
            return line
        return with_conversation(conversation.task, self.key, line.encode()).decode() + "\n"


def run(args: Any) -> int:
    """Downgrade the inputs: one line for each conversation."""
    from turnspec_generated.names import RELEASED, UNADVERTISED

    to = UNADVERTISED if args.to is None else choose(args.to, RELEASED, "--to")
    return carry_out(args, Downgrading(args, to, args.keep_task), writes=True)

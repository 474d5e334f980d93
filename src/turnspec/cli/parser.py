"""The command line: commands, options and their help. Nothing of the schema is imported for it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple, NoReturn

from turnspec.cli.text import terminal_width

Run = Callable[[argparse.Namespace], int]

_EXITS = "exit codes: 0 fine, 1 findings, 2 usage or input/output"
_FILES = (
    "inputs: .json (a message, a list of messages, a task, or a list of tasks) and .jsonl or\n"
    ".ndjson (one of these a line), each also as .gz; globs such as 'data/**/*.jsonl'; - for\n"
    "stdin. Where no ending tells, a first line that leaves an array or object open means JSON,\n"
    "anything else JSONL; --json and --jsonl decide it by hand."
)
_LINE = (
    "A line is the payload as the reference SDK gives it: for openai and openrouter the list of\n"
    'messages, for anthropic {"system", "messages"}, for google {"system_instruction", "contents"},\n'
    "the first of each null where no system turn leads; a null is refused when it is sent.\n"
    "With --arguments a line is what the official client takes as keyword arguments beside the\n"
    'model: {"messages"}, {"messages", "system"}, {"contents", "config"}; what is null is absent.'
)
_MORE = f"{_FILES}\n\n{_EXITS}"


class _Help(argparse.RawDescriptionHelpFormatter):
    """Help as wide as the terminal, found without the imports of the original."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=terminal_width(sys.stdout) - 2)


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line that names the help.

    `fill` adds its options when they are first asked for: a run needs those of one command only.
    """

    def __init__(self, *, fill: Callable[[Parser], None] | None = None, **options: Any) -> None:
        super().__init__(formatter_class=_Help, allow_abbrev=False, **options)
        self._fill = fill

    def filled(self) -> Parser:
        """The parser with all its options."""
        if self._fill is not None:
            fill, self._fill = self._fill, None
            fill(self)
        return self

    def parse_known_args(self, *args: Any, **options: Any) -> Any:
        self.filled()
        return super().parse_known_args(*args, **options)

    def error(self, message: str) -> NoReturn:
        from turnspec.cli.failures import UsageError

        raise UsageError(f"{message} (see {self.prog} --help)")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """The same words for a choice as for values that come from the schema."""
        if action.choices is not None and value not in action.choices:
            from turnspec.cli.failures import UsageError, choose

            try:
                choose(str(value), action.choices, action.option_strings[-1] if action.option_strings else action.dest)
            except UsageError as error:
                self.error(str(error))

    def _print_message(self, message: str, file: Any = None) -> None:
        """Help goes to stdout; the original keeps quiet when it cannot be written."""
        from turnspec.cli.output import emit

        emit(message)


class _Version(argparse.Action):
    """Prints the version."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from turnspec import __version__

        parser.exit(message=f"turnspec {__version__}\n")


class Command(NamedTuple):
    """A command: what it does, an example, what else its help says, and what adds its options."""

    text: str
    example: str
    more: str
    fill: Callable[[Parser], None]


def build_parser() -> Parser:
    """The parser of the whole command; `args.run` of what it parses is what to call."""
    parser = Parser(
        prog="turnspec",
        description="Validate multi-turn conversation tasks, serve them, and turn them into provider requests.",
        epilog=f"example: turnspec validate data/*.jsonl\n{_EXITS}",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    # with a prog argparse does not lay out a usage line to find one
    choices = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, prog="turnspec")
    for name, (text, example, more, fill) in COMMANDS.items():
        epilog = f"example: {example}" + (f"\n\n{more}" if more else "")
        command = choices.add_parser(name, help=text, description=text, epilog=epilog, fill=fill)
        command.set_defaults(run=_lazily(name))
    return parser


def commands_of(parser: Parser) -> dict[str, Parser]:
    """The parsers of the commands, by name, with all their options."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return {name: command.filled() for name, command in action.choices.items()}
    raise AssertionError("the parser has no commands")


def _lazily(name: str) -> Run:
    def run(args: argparse.Namespace) -> int:
        code: int = import_module(f"turnspec.cli.commands.{name.replace('-', '_')}").run(args)
        return code

    return run


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 0 on")
    return int(text)


def _inputs(command: Parser, report: str, stopped: str = "; -o FILE is then not written") -> None:
    """The options of every command that reads conversations.

    `report` says what --output shapes, `stopped` what --max-errors means for the results.
    """
    add = command.add_argument
    add("files", nargs="+", metavar="FILE", help="a file, a glob, or - for stdin")
    form = command.add_mutually_exclusive_group()
    form.add_argument("--json", dest="form", action="store_const", const="json", help="every input is JSON")
    form.add_argument("--jsonl", dest="form", action="store_const", const="jsonl", help="every input is JSONL")
    add("--key", metavar="A.B", help="where a task holds its conversation (default: conversation)")
    add("-o", metavar="FILE", help="write results to FILE, whole or not at all")
    add("--output", choices=("text", "json"), default="text", help=f"how {report} are written")
    add("--jobs", type=_count, default=1, metavar="N", help="processes, 64 at most (0: one for each processor)")
    add("--max-errors", type=_count, default=0, metavar="N", help=f"stop after N errors (0: never){stopped}")
    add("--color", choices=("auto", "always", "never"), default="auto", help="colour of the text")
    add("-q", "--quiet", action="store_true", help="no summary and no progress")


def _losses(command: Parser) -> None:
    command.add_argument(
        "--on-loss",
        choices=("warn", "raise", "ignore"),
        default="warn",
        help="report losses (default), make warnings findings, or say nothing of them",
    )
    command.add_argument("-v", "--verbose", action="store_true", help="list the losses of severity info too")


def _validate(command: Parser) -> None:
    _inputs(command, "findings", "")
    add = command.add_argument
    add("--rules", action="store_true", help="also check the rules about whole conversations")
    add("--for", dest="for_", metavar="FORMAT", help="also what this provider refuses")
    add("--purpose", metavar="PURPOSE", help="what --for is judged for: request (default) or training")
    add("--strict", action="store_true", help="warnings are findings")
    add("--block-set", metavar="SET", help="the block set to check against (default: the newest)")


def _convert(command: Parser) -> None:
    _inputs(command, "errors and losses")
    add = command.add_argument
    add("--to", required=True, metavar="FORMAT", help="the provider's format")
    add("--purpose", metavar="PURPOSE", help="request (default) or training")
    add("--arguments", action="store_true", help="write the keyword arguments of the official client (see below)")
    add(
        "--unsigned-calls",
        choices=("as_is", "sentinel"),
        help="with --arguments, for google: leave calls without signature as they are (default), or mark the first "
        "of a turn with the value that Gemini takes for calls it did not make",
    )
    _losses(command)


def _flatten(command: Parser) -> None:
    _inputs(command, "errors")


def _downgrade(command: Parser) -> None:
    _inputs(command, "errors and losses")
    command.add_argument("--to", metavar="SET", help="the block set of the result (default: the oldest)")
    command.add_argument(
        "--keep-task",
        action="store_true",
        help="where the document is a task, write the whole task around its new conversation",
    )
    _losses(command)


def _schema(command: Parser) -> None:
    add = command.add_argument
    add("block_set", nargs="?", metavar="SET", help="the block set (default: the newest)")
    add("--bundle", choices=("types", "validate"), default="validate", help="which bundle")
    add("-o", metavar="FILE", help="write to FILE, whole or not at all")


def _explain(command: Parser) -> None:
    command.add_argument("code", nargs="?", metavar="CODE", help="a code of an error, a loss or a rule")


def _diff(command: Parser) -> None:
    add = command.add_argument
    add("old", metavar="SET", help="the set to start from")
    add("new", metavar="SET", help="the set to compare with it")
    add("--output", choices=("text", "json"), default="text", help="how it is written")


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")
    return value


def _port(text: str) -> int:
    value = _count(text)
    if value > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port")
    return value


def _serve(command: Parser) -> None:
    add = command.add_argument
    add("files", nargs="+", metavar="FILE", help="a file of tasks, a glob, or - for stdin")
    add("--host", default="127.0.0.1", help="the address to listen at (default: this machine only)")
    add("--port", type=_port, default=8080, metavar="N", help="the port (default: 8080; 0: any free one)")
    add("--split", metavar="NAME", help="one split of this name; else each file is one, a single one 'train'")
    add("--skip-invalid", action="store_true", help="leave tasks with errors out instead of stopping")
    add("--record", metavar="FILE", help="append every answer to FILE, one line of JSON each")
    add("--key", metavar="A.B", help="where a task holds its conversation (default: conversation)")
    add("--token-env", metavar="VAR", help="ask clients for the token in this environment variable")


def _check_server(command: Parser) -> None:
    add = command.add_argument
    add("url", metavar="URL", help="where the server is, such as http://127.0.0.1:8080")
    add("--env", metavar="NAME", help="check this environment only (default: all)")
    add("--output", choices=("text", "json"), default="text", help="how findings are written")
    add("--timeout", type=_seconds, default=10.0, metavar="S", help="seconds for one answer (default: 10)")
    add("--token-env", metavar="VAR", help="send the token in this environment variable")
    add("--color", choices=("auto", "always", "never"), default="auto", help="colour of the text")
    add("-q", "--quiet", action="store_true", help="no summary")


def _completion(command: Parser) -> None:
    command.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell")


COMMANDS = {
    "validate": Command(
        "check documents against the schema, and with --rules what the schema cannot say",
        "turnspec validate --for anthropic data/*.jsonl",
        _MORE,
        _validate,
    ),
    "convert": Command(
        "write each conversation in the format of a provider, one line each",
        "turnspec convert --to openai tasks.jsonl -o requests.jsonl",
        f"{_LINE}\nA conversation that cannot be converted is reported, the others are written.\n\n{_MORE}",
        _convert,
    ),
    "flatten": Command(
        "write each conversation as one list of text and image blocks, one line each",
        "turnspec flatten task.json",
        _MORE,
        _flatten,
    ),
    "downgrade": Command(
        "write each conversation with the blocks of an older set, one line each",
        "turnspec downgrade --to v1 tasks.jsonl -o old.jsonl",
        _MORE,
        _downgrade,
    ),
    "serve": Command(
        "serve tasks as an environment that harnesses can talk to",
        "turnspec serve tasks.jsonl --record answers.jsonl",
        "A session gets the conversation of its task; the tool `submit` takes the next assistant turn\n"
        "and ends the episode. Every task is checked before the server starts; Ctrl-C ends it.\n"
        "inputs: .jsonl or .ndjson (a task a line) and .json (a list of tasks), each also as .gz\n\n"
        "exit codes: 0 or 130 ended by a signal, 1 a task has errors, 2 usage or input/output",
        _serve,
    ),
    "check-server": Command(
        "check an environment server against the specification, as a client would use it",
        "turnspec check-server http://127.0.0.1:8080",
        "It opens sessions, calls tools with small inputs, and ends the sessions again.\n\n"
        "exit codes: 0 fine (warnings too), 1 the server departs, 2 usage, or no server there",
        _check_server,
    ),
    "schema": Command(
        "print the JSON Schema of a block set",
        "turnspec schema v2 --bundle types",
        "bundles: validate gives a validator the one real error, types suits generators of types",
        _schema,
    ),
    "explain": Command(
        "say what a code means and how to mend it; without a code, list them all",
        "turnspec explain block_placement",
        "",
        _explain,
    ),
    "diff": Command(
        "say what one block set has that another has not",
        "turnspec diff v1 v2",
        "",
        _diff,
    ),
    "completion": Command(
        "print a script that completes commands and options in a shell",
        "source <(turnspec completion bash)",
        "",
        _completion,
    ),
}

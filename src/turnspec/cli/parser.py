"""The command line: commands, options and their help. Nothing of the schema is imported for it."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib import import_module
from typing import Any, NoReturn

Run = Callable[[argparse.Namespace], int]

_EXITS = "exit codes: 0 fine, 1 findings, 2 usage or input/output"
_FILES = (
    "inputs: .json (a message, a list of messages, a task, or a list of tasks) and .jsonl or\n"
    ".ndjson (one of these a line), each also as .gz; globs such as 'data/**/*.jsonl'; - for\n"
    "stdin. Where no ending tells, a first line that leaves an array or object open means JSON,\n"
    "anything else JSONL; --json and --jsonl decide it by hand."
)


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line that names the help."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        from turnspec.cli.failures import UsageError

        raise UsageError(f"{message} (see {self.prog} --help)")

    def _print_message(self, message: str, file: Any = None) -> None:
        """Help goes to stdout; the original keeps quiet when it cannot be written."""
        from turnspec.cli.output import emit

        emit(message)


class _Version(argparse.Action):
    """Prints the version."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from turnspec import __version__

        parser.exit(message=f"turnspec {__version__}\n")


def build_parser() -> Parser:
    """The parser of the whole command; `args.run` of what it parses is what to call."""
    parser = Parser(
        prog="turnspec",
        description="Validate multi-turn conversation tasks, and turn them into provider requests.",
        epilog=f"example: turnspec validate data/*.jsonl\n{_EXITS}",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    _validate(commands)
    _convert(commands)
    _flatten(commands)
    _downgrade(commands)
    _schema(commands)
    _explain(commands)
    _diff(commands)
    _completion(commands)
    return parser


def commands_of(parser: Parser) -> dict[str, argparse.ArgumentParser]:
    """The parsers of the commands, by name."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    raise AssertionError("the parser has no commands")


def _command(commands: Any, name: str, text: str, example: str, more: str = "") -> Parser:
    epilog = f"example: {example}" + (f"\n\n{more}" if more else "")
    command: Parser = commands.add_parser(name, help=text, description=text, epilog=epilog)
    command.set_defaults(run=_lazily(name))
    return command


def _lazily(name: str) -> Run:
    def run(args: argparse.Namespace) -> int:
        code: int = import_module(f"turnspec.cli.commands.{name}").run(args)
        return code

    return run


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 0 on")
    return int(text)


def _inputs(command: Parser, report: str) -> None:
    """The options of every command that reads conversations; `report` says what --output shapes."""
    command.add_argument("files", nargs="+", metavar="FILE", help="a file, a glob, or - for stdin")
    form = command.add_mutually_exclusive_group()
    form.add_argument("--json", dest="form", action="store_const", const="json", help="every input is JSON")
    form.add_argument(
        "--jsonl", dest="form", action="store_const", const="jsonl", help="every input is JSONL"
    )
    command.add_argument(
        "--key", metavar="A.B", help="where a task holds its conversation (default: conversation)"
    )
    command.add_argument("-o", metavar="FILE", help="write results to FILE, whole or not at all")
    command.add_argument(
        "--output", choices=("text", "json"), default="text", help=f"how {report} are written"
    )
    command.add_argument(
        "--jobs", type=_count, default=1, metavar="N", help="processes (0: one per processor)"
    )
    command.add_argument(
        "--color", choices=("auto", "always", "never"), default="auto", help="colour of the text"
    )
    command.add_argument("-q", "--quiet", action="store_true", help="no summary and no progress")


def _losses(command: Parser) -> None:
    command.add_argument(
        "--on-loss",
        choices=("warn", "raise", "ignore"),
        default="warn",
        help="report losses (default), make warnings findings, or say nothing of them",
    )
    command.add_argument("-v", "--verbose", action="store_true", help="list the losses of severity info too")


def _validate(commands: Any) -> None:
    command = _command(
        commands,
        "validate",
        "check documents against the schema, and with --rules what the schema cannot say",
        "turnspec validate --for anthropic data/*.jsonl",
        f"{_FILES}\n\n{_EXITS}",
    )
    _inputs(command, "findings")
    command.add_argument(
        "--rules", action="store_true", help="also check the rules about whole conversations"
    )
    command.add_argument("--for", dest="for_", metavar="FORMAT", help="also what this provider refuses")
    command.add_argument("--purpose", metavar="PURPOSE", help="what --for is judged for (default: request)")
    command.add_argument("--strict", action="store_true", help="warnings are findings")
    command.add_argument(
        "--block-set", metavar="SET", help="the block set to check against (default: the newest)"
    )
    command.add_argument(
        "--max-errors", type=_count, default=0, metavar="N", help="stop after N errors (0: never)"
    )


def _convert(commands: Any) -> None:
    command = _command(
        commands,
        "convert",
        "write each conversation as the request of a provider, one line each",
        "turnspec convert --to openai tasks.jsonl -o requests.jsonl",
        f"A conversation that cannot be converted is reported, the others are written.\n{_FILES}\n\n{_EXITS}",
    )
    _inputs(command, "errors and losses")
    command.add_argument("--to", required=True, metavar="FORMAT", help="the provider's format")
    command.add_argument("--purpose", metavar="PURPOSE", help="request (default) or training")
    _losses(command)


def _flatten(commands: Any) -> None:
    command = _command(
        commands,
        "flatten",
        "write each conversation as one list of text and image blocks, one line each",
        "turnspec flatten task.json",
        f"{_FILES}\n\n{_EXITS}",
    )
    _inputs(command, "errors")


def _downgrade(commands: Any) -> None:
    command = _command(
        commands,
        "downgrade",
        "write each conversation with the blocks of an older set, one line each",
        "turnspec downgrade --to v1 tasks.jsonl -o old.jsonl",
        f"{_FILES}\n\n{_EXITS}",
    )
    _inputs(command, "errors and losses")
    command.add_argument("--to", metavar="SET", help="the block set of the result (default: the oldest)")
    _losses(command)


def _schema(commands: Any) -> None:
    command = _command(
        commands,
        "schema",
        "print the JSON Schema of a block set",
        "turnspec schema v2 --bundle types",
        "bundles: validate gives a validator the one real error, types suits generators of types",
    )
    command.add_argument("block_set", nargs="?", metavar="SET", help="the block set (default: the newest)")
    command.add_argument("--bundle", choices=("types", "validate"), default="validate", help="which bundle")
    command.add_argument("-o", metavar="FILE", help="write to FILE, whole or not at all")


def _explain(commands: Any) -> None:
    command = _command(
        commands,
        "explain",
        "say what a code means and how to mend it; without a code, list them all",
        "turnspec explain block_placement",
    )
    command.add_argument("code", nargs="?", metavar="CODE", help="a code of an error, a loss or a rule")


def _diff(commands: Any) -> None:
    command = _command(
        commands, "diff", "say what one block set has that another has not", "turnspec diff v1 v2"
    )
    command.add_argument("old", metavar="SET", help="the set to start from")
    command.add_argument("new", metavar="SET", help="the set to compare with it")
    command.add_argument("--output", choices=("text", "json"), default="text", help="how it is written")


def _completion(commands: Any) -> None:
    command = _command(
        commands,
        "completion",
        "print a script that completes commands and options in a shell",
        "source <(turnspec completion bash)",
    )
    command.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell")

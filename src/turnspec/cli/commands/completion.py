"""`turnspec completion`: a script that completes commands, options and their values in a shell."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from turnspec.cli import OK
from turnspec.cli.output import emit

Commands = Mapping[str, argparse.ArgumentParser]


def run(args: Any) -> int:
    """Print the script for `args.shell`."""
    from turnspec.cli.parser import build_parser, commands_of

    emit({"bash": bash, "zsh": zsh, "fish": fish}[args.shell](commands_of(build_parser())))
    return OK


def _options(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [action for action in parser._actions if action.option_strings]


def values_of(action: argparse.Action) -> list[str]:
    """The words that an option or argument takes; empty when it takes anything."""
    from turnspec_generated import codes, names, server_checks

    if action.choices:
        return [str(choice) for choice in action.choices]
    known = {
        "FORMAT": names.FORMATS,
        "SET": tuple(names.BLOCK_SETS),
        "PURPOSE": names.PURPOSES,
        "CODE": (*codes.CODES, *server_checks.SERVER_CHECKS),
    }
    metavar = action.metavar if isinstance(action.metavar, str) else ""
    return list(known.get(metavar, ()))


def _takes_value(action: argparse.Action) -> bool:
    return action.nargs != 0


def _positional_words(parser: argparse.ArgumentParser) -> list[str]:
    words: list[str] = []
    for action in parser._actions:
        if not action.option_strings:
            words += [word for word in values_of(action) if word not in words]
    return words


def _takes_files(parser: argparse.ArgumentParser) -> bool:
    return any(action.dest == "files" for action in parser._actions)


def bash(commands: Commands) -> str:
    """A completion function for bash."""
    cases = []
    for name, parser in commands.items():
        options = " ".join(word for action in _options(parser) for word in action.option_strings)
        values = []
        for action in _options(parser):
            if _takes_value(action):
                words = " ".join(values_of(action))
                pattern = "|".join(action.option_strings)
                reply = f'COMPREPLY=($(compgen -W "{words}" -- "$word"))' if words else _BASH_FILES
                values.append(f"                {pattern}) {reply}; return ;;")
        words = " ".join(_positional_words(parser))
        last = _BASH_FILES if _takes_files(parser) else f'COMPREPLY=($(compgen -W "{words}" -- "$word"))'
        cases.append(
            f"        {name})\n"
            '            case "$before" in\n' + "\n".join(values) + "\n            esac\n"
            f'            if [[ "$word" == -* ]]; then COMPREPLY=($(compgen -W "{options}" -- "$word"))\n'
            f"            else {last}; fi ;;"
        )
    return (
        "# turnspec for bash: put this into ~/.bashrc:  source <(turnspec completion bash)\n"
        "_turnspec() {\n"
        '    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}"\n'
        "    COMPREPLY=()\n"
        "    if [[ $COMP_CWORD -eq 1 ]]; then\n"
        f'        COMPREPLY=($(compgen -W "{" ".join(commands)} --help --version" -- "$word"))\n'
        "        return\n"
        "    fi\n"
        '    case "${COMP_WORDS[1]}" in\n' + "\n".join(cases) + "\n    esac\n"
        "}\n"
        "complete -o bashdefault -o default -F _turnspec turnspec\n"
    )


_BASH_FILES = ":"  # no words: readline completes file names


def zsh(commands: Commands) -> str:
    """A completion function for zsh."""
    cases = []
    for name, parser in commands.items():
        specs = []
        for action in _options(parser):
            help_ = _zsh_text(action.help or "")
            for option in action.option_strings:
                words = " ".join(values_of(action))
                value = ""
                if _takes_value(action):
                    value = f":value:({words})" if words else ":value:_files"
                specs.append(f"                '{option}[{help_}]{value}'")
        words = " ".join(_positional_words(parser))
        if _takes_files(parser):
            specs.append("                '*:file:_files'")
        elif words:
            specs.append(f"                '*:value:({words})'")
        cases.append(f"        {name})\n            _arguments \\\n" + " \\\n".join(specs) + " ;;")
    described = "\n".join(
        f"        '{name}:{_zsh_text(parser.description or '')}'" for name, parser in commands.items()
    )
    return (
        "#compdef turnspec\n"
        "# turnspec for zsh: put this into ~/.zshrc:  source <(turnspec completion zsh)\n"
        "_turnspec() {\n"
        "    local -a commands\n"
        f"    commands=(\n{described}\n    )\n"
        "    if (( CURRENT == 2 )); then\n"
        "        _describe command commands\n"
        "        return\n"
        "    fi\n"
        "    local command=$words[2]\n"
        "    shift words\n"
        "    (( CURRENT-- ))\n"
        "    case $command in\n" + "\n".join(cases) + "\n    esac\n"
        "}\n"
        "compdef _turnspec turnspec\n"
    )


def _zsh_text(text: str) -> str:
    for char, safe in (("\\", ""), ("'", "'\\''"), ("[", "("), ("]", ")"), (":", " -"), ("%%", "%")):
        text = text.replace(char, safe)
    return text.split("\n", 1)[0]


def fish(commands: Commands) -> str:
    """Completion rules for fish."""
    lines = [
        "# turnspec for fish: save this as ~/.config/fish/completions/turnspec.fish",
        "complete -c turnspec -n __fish_use_subcommand -f -l help -d 'show help'",
        "complete -c turnspec -n __fish_use_subcommand -f -l version -d 'show the version'",
    ]
    for name, parser in commands.items():
        text = _fish_text(parser.description or "")
        lines.append(f"complete -c turnspec -n __fish_use_subcommand -f -a {name} -d '{text}'")
        inside = f"complete -c turnspec -n '__fish_seen_subcommand_from {name}'"
        for action in _options(parser):
            flags = " ".join(
                f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
                for option in action.option_strings
            )
            words = " ".join(values_of(action))
            value = "" if not _takes_value(action) else f" -x -a '{words}'" if words else " -r -F"
            lines.append(f"{inside} {flags}{value} -d '{_fish_text(action.help or '')}'")
        words = " ".join(_positional_words(parser))
        if words and not _takes_files(parser):
            lines.append(f"{inside} -f -a '{words}'")
    return "\n".join(lines) + "\n"


def _fish_text(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'").replace("%%", "%").split("\n", 1)[0]

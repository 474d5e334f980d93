"""The commands that tell about turnspec itself, help, and how quickly the command starts."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from importlib import resources
from pathlib import Path

import pytest
from test_cli_kit import COMMAND, TASK, call, environment, jsonl, run

import turnspec
from turnspec.cli.parser import build_parser, commands_of
from turnspec_generated.codes import CODES
from turnspec_generated.names import BLOCK_SETS, CURRENT, FORMATS
from turnspec_generated.server_checks import SERVER_CHECKS

Capture = pytest.CaptureFixture[str]
COMMANDS = commands_of(build_parser())


@pytest.mark.parametrize("block_set", BLOCK_SETS)
@pytest.mark.parametrize("bundle", ["types", "validate"])
def test_schema_prints_the_published_bundle(capsys: Capture, tmp_path: Path, block_set: str, bundle: str) -> None:
    path = resources.files("turnspec_generated") / "schemas" / block_set / f"{bundle}.schema.json"
    assert call(capsys, "schema", block_set, "--bundle", bundle) == (0, path.read_text("utf-8"), "")
    assert call(capsys, "schema", block_set, "--bundle", bundle, "-o", tmp_path / "x.json").code == 0
    assert (tmp_path / "x.json").read_bytes() == path.read_bytes()


def test_schema_of_the_newest_set_and_of_none(capsys: Capture) -> None:
    assert json.loads(call(capsys, "schema").out)["$id"].startswith(f"urn:turnspec:{CURRENT}:")
    ran = call(capsys, "schema", "../v1")
    assert ran.code == 2
    assert ran.err.startswith("turnspec: block set: '../v1' is not known")


@pytest.mark.parametrize("code", CODES)
def test_explain_tells_the_whole_entry(capsys: Capture, code: str) -> None:
    ran = call(capsys, "explain", code)
    assert ran.code == 0
    said, entry = " ".join(ran.out.split()), CODES[code]
    assert said.startswith(f"{code} ({entry.kind}, {entry.severity}, since {entry.since}) {entry.title}.")
    for part in (entry.explanation, entry.fix):
        assert " ".join(part.split()) in said
    assert f"gives: {code} at {entry.example.get('pointer') or '(root)'}" in said


@pytest.mark.parametrize("code", SERVER_CHECKS)
def test_explain_tells_codes_of_check_server(capsys: Capture, code: str) -> None:
    ran, entry = call(capsys, "explain", code), SERVER_CHECKS[code]
    said = " ".join(ran.out.split())
    assert said == " ".join(
        f"{code} (server, {entry.severity}, since {entry.since}) {entry.title}. {entry.explanation} "
        f"To mend it: {entry.fix} For example: {entry.example}.".split()
    )


def test_explain_lists_all_codes_and_suggests_one(capsys: Capture) -> None:
    ran = call(capsys, "explain")
    assert ran.code == 0
    assert {line.split()[0] for line in ran.lines if line.startswith("  ")} == {*CODES, *SERVER_CHECKS}
    said = "code: 'block_placment' is not known; did you mean block_placement? (turnspec explain lists all codes)"
    assert call(capsys, "explain", "block_placment") == (2, "", f"turnspec: {said}\n")


def test_diff(capsys: Capture) -> None:
    lines = call(capsys, "diff", "v1", "v2").lines
    assert lines[0] == "v1 -> v2"
    assert [line.split(":")[0] for line in lines[1:]] == [
        "+ reasoning (in assistant)",
        "+ tool_call (in assistant)",
        "+ tool_result (in user)",
        "= text, image",
    ]
    assert lines[2] == "+ tool_call (in assistant): id: string, name: string, input: object, detail?: object or null"
    assert [line[0] for line in call(capsys, "diff", "v2", "v1").lines[1:]] == ["-", "-", "-", "="]
    assert "  no difference" in call(capsys, "diff", "v1", "v1").lines
    (record,) = call(capsys, "diff", "v1", "v2", "--output", "json").records
    assert [block["type"] for block in record["added"]] == ["reasoning", "tool_call", "tool_result"]
    assert [block["type"] for block in record["same"]] == ["text", "image"]
    assert call(capsys, "diff", "v1", "v9").code == 2


def test_version_and_help(capsys: Capture) -> None:
    assert call(capsys, "--version") == (0, f"turnspec {turnspec.__version__}\n", "")
    ran = call(capsys, "--help")
    assert ran.code == 0
    assert all(name in ran.out for name in COMMANDS)
    for name in COMMANDS:
        ran = call(capsys, name, "--help")
        assert (ran.code, ran.err) == (0, "")
        assert f"example: {'source <(' if name == 'completion' else ''}turnspec {name}" in ran.out
        assert ran.out.isascii()
        assert max(map(len, ran.lines)) <= 100


def test_usage_errors_are_one_line(capsys: Capture) -> None:
    for args in ((), ("unknown",), ("--nonsense",), ("validate", "--nonsense", "x"), ("validate", "--rul", "x")):
        ran = call(capsys, *args)
        assert (ran.code, ran.out) == (2, "")
        assert len(ran.err.splitlines()) == 1
        assert ran.err.startswith("turnspec: ")


def test_a_misspelt_word_gets_the_nearest_one(capsys: Capture) -> None:
    commands = ", ".join(COMMANDS)
    for args, said in (
        (("valdate", "x"), f"command: 'valdate' is not known; did you mean validate?; allowed: {commands}"),
        (("Convert", "x"), f"command: 'Convert' is not known; did you mean convert?; allowed: {commands}"),
        (("unknown",), f"command: 'unknown' is not known; allowed: {commands}"),
    ):
        assert call(capsys, *args) == (2, "", f"turnspec: {said} (see turnspec --help)\n")
    for args, said in (
        (("--output", "jsn"), "--output: 'jsn' is not known; did you mean json?; allowed: text, json"),
        (("--color", "off"), "--color: 'off' is not known; allowed: auto, always, never"),
    ):
        ran = call(capsys, "validate", "x", *args)
        assert ran == (2, "", f"turnspec: {said} (see turnspec validate --help)\n")


def test_help_of_convert_says_what_a_line_is(capsys: Capture) -> None:
    said = " ".join(call(capsys, "convert", "--help").out.split())
    assert "the first of each null where no system turn leads; a null is refused when it is sent." in said
    assert "With --arguments a line is what the official client takes as keyword arguments" in said


def words(script: Path, *line: str) -> list[str]:
    """What bash would complete."""
    quoted = " ".join(f"'{word}'" for word in line)
    command = f"source '{script}'; COMP_WORDS=({quoted}); COMP_CWORD={len(line) - 1}; _turnspec"
    done = subprocess.run(
        ["bash", "-c", command + '; echo "${COMPREPLY[@]}"'], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completion(capsys: Capture, tmp_path: Path) -> None:
    script = tmp_path / "turnspec.bash"
    script.write_text(call(capsys, "completion", "bash").out)
    assert words(script, "turnspec", "") == [*COMMANDS, "--help", "--version"]
    assert words(script, "turnspec", "v") == ["validate"]
    assert words(script, "turnspec", "convert", "--to", "") == list(FORMATS)
    assert words(script, "turnspec", "validate", "--block-set", "v") == list(BLOCK_SETS)
    assert words(script, "turnspec", "validate", "--max") == ["--max-errors"]
    assert words(script, "turnspec", "explain", "too_") == ["too_deep"]
    assert words(script, "turnspec", "diff", "v1", "") == list(BLOCK_SETS)
    assert words(script, "turnspec", "validate", "") == []  # file names


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_know_every_command_and_option(capsys: Capture, tmp_path: Path, shell: str) -> None:
    script = call(capsys, "completion", shell).out
    for name, parser in COMMANDS.items():
        assert name in script
        for action in parser._actions:
            for option in action.option_strings:
                named = option if shell != "fish" else f"-{'l' if option[1] == '-' else 's'} {option.lstrip('-')}"
                assert named in script
    if shutil.which(shell):
        path = tmp_path / "script"
        path.write_text(script)
        subprocess.run([shell, "-n", path], check=True)


def seconds(command: list[str], env: dict[str, str]) -> float:
    begin = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, env=env)
    return time.perf_counter() - begin


def test_start_up_is_within_twice_that_of_msgspec(tmp_path: Path) -> None:
    """The quickest of interleaved runs, with compiled modules; tried again when other processes get in between."""
    (tmp_path / "a.jsonl").write_text(jsonl(TASK))
    env = environment(PYTHONPYCACHEPREFIX=str(tmp_path / "compiled"), PYTHONDONTWRITEBYTECODE="")
    bare = [sys.executable, "-c", "import msgspec"]
    for args in (["--help"], ["validate", "-q", str(tmp_path / "a.jsonl")]):
        seconds([*COMMAND, *args], env)
        for _ in range(5):
            runs = [(seconds([*COMMAND, *args], env), seconds(bare, env)) for _ in range(6)]
            ours, theirs = (min(times) for times in zip(*runs, strict=True))
            if ours < 2 * theirs:
                break
        else:
            pytest.fail(f"{args} starts too slowly")


def test_what_is_not_needed_is_not_imported(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(jsonl(TASK))
    heavy = {"pydantic", "multiprocessing", "gzip", "json", "glob", "difflib", "turnspec.conversion"}
    script = (
        "import sys; from turnspec.cli import main\n"
        "code = main(sys.argv[2:]); print(*sorted(set(sys.argv[1].split()) & set(sys.modules)), file=sys.stderr)"
    )
    for args in (["--help"], ["validate", "-q", str(tmp_path / "a.jsonl")]):
        done = subprocess.run(
            [sys.executable, "-c", script, " ".join(heavy | {"msgspec"}), *args],
            capture_output=True,
            text=True,
            check=True,
            env=environment(),
        )
        assert done.stderr.split() == ([] if args == ["--help"] else ["msgspec"])


def test_python_m_is_the_command() -> None:
    assert run("--version").out == f"turnspec {turnspec.__version__}\n"

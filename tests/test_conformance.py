"""The Python runner passes all vectors, nothing ends it, and the harness sees what is wrong."""

from __future__ import annotations

import io
import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.vectortools import differences, read_json, same, write_json
from turnspec.conformance import answer, main

HERE = Path(__file__).parent / "conformance"
RUN = HERE / "python" / "run"
HELLO = {"role": "user", "blocks": [{"type": "text", "text": "Hi"}]}
FLATTEN = {"id": "f", "op": "flatten", "messages": [HELLO]}
FLAT = {"id": "f", "result": {"blocks": HELLO["blocks"]}}


def check(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, HERE / "check.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)


def ask(request: Any) -> Any:
    line = request if isinstance(request, bytes) else write_json(request).encode()
    return read_json(answer(line))


def test_python_passes_everything(tmp_path: Path) -> None:
    done = check(RUN)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    assert " 0 wrong" in done.stdout
    assert "protocol" in done.stdout


def test_from_any_folder(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong json')")
    line = json.dumps(FLATTEN) + "\n"
    done = subprocess.run([RUN], cwd=tmp_path, input=line, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == FLAT


def test_builds_itself_when_needed(tmp_path: Path) -> None:
    """Without a working .venv the runner calls `make setup`, whose words go to standard error."""
    copy = tmp_path / "tests" / "conformance" / "python" / "run"
    copy.parent.mkdir(parents=True)
    copy.write_bytes(RUN.read_bytes())
    copy.chmod(0o755)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    make = f"setup:\n\t@echo setting up\n\t@mkdir -p .venv/bin && cp '{python}' .venv/bin/python\n"
    (tmp_path / "Makefile").write_text(make)
    for words in ("setting up\n", ""):
        line = json.dumps(FLATTEN) + "\n"
        done = subprocess.run([copy], cwd="/", input=line, capture_output=True, text=True, check=True)
        assert json.loads(done.stdout) == FLAT
        assert done.stderr == words


def test_runner_is_executable() -> None:
    assert os.stat(RUN).st_mode & stat.S_IXUSR


def test_answers_in_order_and_skips_blank_lines() -> None:
    lines = [b"\n", json.dumps(FLATTEN).encode() + b"\r\n", b"  \n", b"nonsense\n", json.dumps(FLATTEN).encode()]
    target = io.BytesIO()
    assert main(io.BytesIO(b"".join(lines)), target) == 0
    answers = [json.loads(line) for line in target.getvalue().splitlines()]
    assert [item.get("id") for item in answers] == ["f", None, "f"]


def test_each_answer_is_flushed() -> None:
    process = subprocess.Popen([RUN], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    for _ in range(3):
        process.stdin.write(json.dumps(FLATTEN).encode() + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline()) == FLAT
    process.stdin.close()
    assert process.wait(30) == 0
    process.stdout.close()


def test_a_reader_that_goes_away() -> None:
    line = json.dumps(FLATTEN).encode() + b"\n"
    process = subprocess.Popen([RUN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdin.write(line)
    process.stdin.flush()
    process.stdout.readline()
    process.stdout.close()
    try:
        process.stdin.write(line * 10000)
        process.stdin.close()
    except BrokenPipeError:
        pass
    assert process.wait(30) == 0
    assert process.stderr.read() == b""
    process.stderr.close()


BAD_REQUESTS: dict[str, Any] = {
    "bytes": b"\xff\xfe\x00",
    "not-json": b'{"id": 1,',
    "nan": b'{"id": 1, "op": "negotiate", "message_block_types": [NaN]}',
    "byte-order-mark": b'\xef\xbb\xbf{"id": 1, "op": "negotiate"}',
    "deep": b"[" * 200_000,
    "array": b"[]",
    "string": b'"x"',
    "null": b"null",
    "no-op": {"id": 1},
    "op-number": {"id": 1, "op": 3},
    "op-array": {"id": 1, "op": ["validate"]},
    "no-document": {"id": 1, "op": "validate", "entry": "message"},
    "text-number": {"id": 1, "op": "validate", "entry": "message", "text": 3},
    "entry": {"id": 1, "op": "validate", "entry": "book", "document": HELLO},
    "entry-array": {"id": 1, "op": "validate", "entry": [], "document": HELLO},
    "block-set": {"id": 1, "op": "validate", "entry": "message", "block_set": "v0", "document": HELLO},
    "block-set-number": {"id": 1, "op": "validate", "entry": "message", "block_set": 2, "document": HELLO},
    "no-format": {"id": 1, "op": "convert", "messages": []},
    "format": {"id": 1, "op": "convert", "format": "x", "messages": [HELLO]},
    "format-null": {"id": 1, "op": "convert", "format": None, "messages": [HELLO]},
    "format-array": {"id": 1, "op": "convert", "format": [], "messages": [HELLO]},
    "purpose": {"id": 1, "op": "convert", "format": "openai", "purpose": "x", "messages": [HELLO]},
    "purpose-null": {"id": 1, "op": "convert", "format": "openai", "purpose": None, "messages": [HELLO]},
    "no-messages": {"id": 1, "op": "flatten"},
    "messages-object": {"id": 1, "op": "flatten", "messages": HELLO},
    "messages-string": {"id": 1, "op": "flatten", "messages": "[]"},
    "to": {"id": 1, "op": "downgrade", "to": "v0", "messages": []},
    "to-missing": {"id": 1, "op": "downgrade", "messages": []},
    "known-string": {"id": 1, "op": "read", "messages": [HELLO], "known": "text"},
    "known-number": {"id": 1, "op": "read", "messages": [HELLO], "known": 3},
    "known-items": {"id": 1, "op": "read", "messages": [HELLO], "known": [{}]},
    "types-string": {"id": 1, "op": "negotiate", "message_block_types": "text"},
    "types-items": {"id": 1, "op": "negotiate", "message_block_types": [{}]},
}


@pytest.mark.parametrize("request_", BAD_REQUESTS.values(), ids=BAD_REQUESTS)
def test_bad_requests(request_: Any) -> None:
    got = ask(request_)
    assert got["error"].startswith("bad request: ")
    assert got["id"] == (1 if isinstance(request_, dict) else got["id"])


@pytest.mark.parametrize("operation", ["import", "nonsense", ""])
def test_unsupported(operation: str) -> None:
    assert ask({"id": [1], "op": operation}) == {"id": [1], "error": "unsupported"}


def test_half_of_a_surrogate_pair_in_text_is_no_json() -> None:
    line = rb'{"id": 1, "op": "validate", "entry": "message", "text": "{\"role\": \"\ud800\"}"}'
    wanted = {"id": 1, "result": {"valid": False, "errors": [{"code": "invalid_json", "pointer": ""}]}}
    assert ask(line) == wanted


def test_integers_beyond_the_limit_of_digits() -> None:
    call = {"type": "tool_call", "id": "c", "name": "f", "input": {"n": -(10**5000)}}
    asked = [HELLO, {"role": "assistant", "blocks": [call]}]
    request = {"id": 1, "op": "convert", "format": "anthropic", "purpose": "training", "messages": asked}
    got = ask(request)["result"]["payload"]["messages"][1]["content"][0]["input"]
    assert same(got, {"n": -(10**5000)})
    text = ask({**request, "format": "openai"})["result"]["payload"][1]["tool_calls"][0]["function"]["arguments"]
    assert text == '{"n": -1' + "0" * 5000 + "}"


def test_a_document_that_is_a_string_is_no_text() -> None:
    request = {"id": 1, "op": "validate", "entry": "message", "document": write_json(HELLO)}
    assert ask(request)["result"]["errors"] == [{"code": "wrong_type", "pointer": ""}]


# --- the harness ---


def test_comparison_is_exact() -> None:
    assert same({"a": [1, "x", None], "b": 2}, {"b": 2, "a": [1, "x", None]})
    different: list[tuple[Any, Any]] = [
        (1, 1.0), (1, True), (0, False), (0.0, -0.0), (None, False), ("1", 1), ([], {}), ([1, 2], [2, 1]),
        ({"a": 1}, {"a": 1, "b": 2}), (10**30, 1e30), (2**53 + 1, 2**53), ({"a": None}, {}),
    ]  # fmt: skip
    for left, right in different:
        assert not same(left, right)
        assert differences(left, right) != []
        assert differences({"x": [left]}, {"x": [right]})[0].startswith("/x/0")


FAKES = {
    "wrong": ('print(\'{"id": 0, "result": {}}\', flush=True)', 1, "0 of"),
    "unsupported": (
        "import json; print(json.dumps({'id': json.loads(line)['id'], 'error': 'unsupported'}), flush=True)",
        1,
        "error: unsupported",
    ),
    "no-json": ("print('hello', flush=True)", 2, "no JSON line"),
    "ends": ("break", 2, "ended with exit code 0"),
}


@pytest.mark.parametrize("name", FAKES)
def test_the_harness_sees_bad_runners(name: str, tmp_path: Path) -> None:
    body, code, words = FAKES[name]
    fake = tmp_path / "run.py"
    fake.write_text(f"import sys\nfor line in sys.stdin:\n    {body}\n")
    done = check(sys.executable, fake, "--ops", "negotiate")
    assert done.returncode == code
    assert words in done.stdout + done.stderr


def test_the_harness_names_a_runner_that_is_not_there(tmp_path: Path) -> None:
    done = check(tmp_path / "none")
    assert done.returncode == 2
    assert "none" in done.stderr
    assert "Traceback" not in done.stderr

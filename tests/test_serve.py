"""`turnspec serve`: files of tasks as an environment, where each task lies, and how the command begins and ends."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from test_cli_kit import COMMAND, HI, TASK, call, environment, jsonl

import turnspec
from turnspec.check_server import check
from turnspec.cli.failures import CommandError
from turnspec.cli.report import Style
from turnspec.cli.sources import find_sources
from turnspec.serve import loading
from turnspec.serve.dataset import ChangedError, Dataset
from turnspec.serve.loading import Refused, load, stem

Capture = pytest.CaptureFixture[str]
RICH = [
    {"role": "system", "blocks": [{"type": "text", "text": "Be brief."}]},
    {
        "role": "user",
        "blocks": [
            {"type": "text", "text": "Grüße \u2028 😀"},
            {"type": "image", "data": "aGk=", "mimeType": "image/png"},
        ],
    },
    {"role": "assistant", "blocks": [{"type": "tool_call", "id": "c", "name": "f", "input": {"n": 10**30, "x": 1.0}}]},
    {"role": "user", "blocks": [{"type": "tool_result", "tool_call_id": "c", "blocks": [], "is_error": True}]},
]
BAD = {"conversation": [{"role": "user", "blocks": [{"type": "reasoning", "text": "x"}]}]}


def loaded(
    *files: Path, split: str | None = None, key: tuple[str, ...] = ("conversation",), skip: bool = False
) -> Dataset:
    sources = find_sources([str(file) for file in files], None)
    return load(sources, split, key, skip_invalid=skip, style=Style(False, False))


def texts(dataset: Dataset, split: str = "train") -> list[Any]:
    found = dataset.splits[split]
    return [json.loads(found.read(index)) for index in range(len(found))]


class Server(NamedTuple):
    url: str
    process: subprocess.Popen[str]
    said: list[str]


@contextmanager
def serving(*args: str | Path, **env: str) -> Iterator[Server]:
    """The command in a process of its own, once it has said that it serves."""
    command = [*COMMAND, "serve", *map(str, args), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment(**env)) as process:
        assert process.stderr is not None
        said: list[str] = []
        try:
            for line in process.stderr:
                said.append(line.rstrip("\n"))
                if " at http://" in line and line.startswith("serving "):
                    yield Server(line.split(" at ")[1].split()[0], process, said)
                    break
            else:
                raise AssertionError("\n".join(said))
        finally:
            if process.poll() is None:
                process.kill()


class Client:
    """A few requests, as the wire has them."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self.http = httpx.Client(base_url=url, headers={"X-API-Key": token} if token else {}, trust_env=False)

    def post(self, path: str, body: Any = None, sid: str | None = None) -> Any:
        answer = self.http.post(path, json=body, headers={"X-Session-ID": sid} if sid else {})
        answer.raise_for_status()
        return answer.json()

    def start(self, body: dict[str, Any], sid: str) -> None:
        assert self.post("/create", body, sid) == {"sid": sid}

    def get(self, path: str, sid: str) -> Any:
        answer = self.http.get(path, headers={"X-Session-ID": sid})
        answer.raise_for_status()
        return answer.json()

    def submit(self, text: str, sid: str) -> dict[str, Any]:
        body = {"name": "submit", "input": {"text": text}}
        answer = self.http.post("/conversations/call", json=body, headers={"X-Session-ID": sid})
        events = [event.split("\r\ndata: ", 1) for event in answer.text.split("\r\n\r\n") if event.startswith("event")]
        found: dict[str, Any] = json.loads(
            "".join(data for name, data in events if name in ("event: chunk", "event: end"))
        )
        return found


# --- The index ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_tasks_of_jsonl(tmp_path: Path, packed: bool, end: str) -> None:
    """BOM and blank lines are skipped, the last line needs no end."""
    tasks = [{"id": number, "conversation": RICH[: number % 5]} for number in range(7)]
    lines = [json.dumps(task, ensure_ascii=number % 2 == 0) for number, task in enumerate(tasks)]
    data = ("\ufeff" + end + "  \t" + end + (end + end).join(lines)).encode()
    path = tmp_path / ("a.jsonl.gz" if packed else "a.jsonl")
    path.write_bytes(gzip.compress(data) if packed else data)
    dataset = loaded(path)
    assert texts(dataset) == tasks
    assert str(dataset) == "7 tasks of 1 split"
    assert json.loads(dataset.splits["train"].read(-1)) == tasks[-1]
    for index in (7, -8):
        with pytest.raises(IndexError):
            dataset.splits["train"].read(index)
    dataset.close()


def test_a_bom_before_the_first_task(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"\xef\xbb\xbf" + json.dumps(TASK).encode())
    assert texts(loaded(tmp_path / "a.jsonl")) == [TASK]


@pytest.mark.parametrize("packed", [False, True])
def test_tasks_of_json(tmp_path: Path, packed: bool) -> None:
    tasks = [{"id": "a", "conversation": RICH}, {"id": "b", "conversation": []}]
    data = json.dumps(tasks, indent=1).encode()
    path = tmp_path / ("a.json.gz" if packed else "a.json")
    path.write_bytes(gzip.compress(data) if packed else data)
    assert texts(loaded(path)) == tasks
    (tmp_path / "one.json").write_text(json.dumps(TASK, indent=1))
    assert texts(loaded(tmp_path / "one.json")) == [TASK]


def test_splits(tmp_path: Path) -> None:
    for name in ("train.jsonl", "hard.v2.jsonl.gz"):
        data = jsonl(*({"id": f"{name}{number}", "conversation": []} for number in range(3))).encode()
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    files = [tmp_path / "train.jsonl", tmp_path / "hard.v2.jsonl.gz"]
    dataset = loaded(*files)
    assert list(dataset.splits) == ["train", "hard.v2"]
    assert str(dataset) == "6 tasks of 2 splits"
    one = loaded(*files, split="all")
    assert [task["id"] for task in texts(one, "all")] == [
        *(f"train.jsonl{number}" for number in range(3)),
        *(f"hard.v2.jsonl.gz{number}" for number in range(3)),
    ]
    assert list(loaded(files[1]).splits) == ["train"]
    with pytest.raises(CommandError, match="another file is the split 'train' already"):
        loaded(files[0], files[0])


def test_stems() -> None:
    assert [stem(path) for path in ("a/b.jsonl", "b.JSONL.GZ", "b", ".jsonl", "x.gz")] == ["b", "b", "b", ".jsonl", "x"]


def test_a_key_of_another_name(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(jsonl({"meta": {"turns": [HI]}}))
    assert len(loaded(tmp_path / "a.jsonl", key=("meta", "turns"))) == 1
    with pytest.raises(Refused):
        loaded(tmp_path / "a.jsonl")


def test_bad_tasks_stop_the_start(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(jsonl(TASK, BAD, "", "{", [HI], TASK))
    with pytest.raises(Refused, match=r"nothing is served: 3 invalid tasks \(--skip-invalid leaves them out\)"):
        loaded(path)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" ")[0] for line in lines] == [f"{path}:2:47:", f"{path}:4:2:", f"{path}:5:1:"]
    assert [line.split(" ")[1] for line in lines] == ["block_placement", "invalid_json", "wrong_type"]
    dataset = loaded(path, skip=True)
    assert texts(dataset) == [TASK, TASK]
    assert dataset.left_out == 3
    assert capsys.readouterr().err.splitlines() == lines


def test_bad_tasks_of_a_list(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps([TASK, BAD, 5, {"id": 2, "conversation": []}]))
    with pytest.raises(Refused):
        loaded(path)
    assert len(capsys.readouterr().err.splitlines()) == 2
    assert [task["id"] for task in texts(loaded(path, skip=True))] == [1, 2]
    path.write_text("[{}")
    for skip in (False, True):
        with pytest.raises(Refused):
            loaded(path, skip=skip)
    path.write_text('{"conversation": [], "conversation": []}')
    with pytest.raises(Refused):
        loaded(path)


def test_not_everything_is_shown(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(jsonl(*[BAD] * 250, TASK))
    with pytest.raises(Refused, match="at least 100 invalid tasks"):
        loaded(path)
    assert len(capsys.readouterr().err.splitlines()) == 100
    dataset = loaded(path, skip=True)
    assert (len(dataset), dataset.left_out) == (1, 250)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 101
    assert lines[-1] == f"turnspec: more errors are not shown; turnspec validate {path} shows all"


def test_a_file_that_changes_is_not_served(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(jsonl(TASK, TASK))
    dataset = loaded(path)
    with path.open("a") as stream:
        stream.write("\n")
    with pytest.raises(ChangedError, match="was changed after the server had started"):
        dataset.splits["train"].read(0)
    path.write_text(jsonl(TASK))
    dataset = loaded(path)
    path.unlink()
    assert json.loads(dataset.splits["train"].read(0)) == TASK


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("missing.jsonl", None, "no such file"),
        ("a.jsonl.gz", b"{}", "is not gzip"),
        ("a.jsonl.gz", gzip.compress(b"{}" * 9, mtime=0)[:-9], "cut off"),
        ("a.parquet", b"", "is not read"),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, name: str, data: bytes | None, why: str) -> None:
    path = tmp_path / name
    if data is not None:
        path.write_bytes(data)
    before = set(os.listdir("/tmp")) if os.path.isdir("/tmp") else set()
    with pytest.raises(CommandError, match=why) as caught:
        loaded(path)
    assert str(caught.value).startswith(f"{path}: ")
    if before:
        assert not {found for found in set(os.listdir("/tmp")) - before if found.startswith("turnspec-")}


def test_no_copy_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "copies"))
    (tmp_path / "copies").mkdir()
    for name, data in (("a.jsonl.gz", jsonl(TASK, BAD)), ("b.json", json.dumps([TASK]))):
        (tmp_path / name).write_bytes(gzip.compress(data.encode()) if name.endswith("gz") else data.encode())
        dataset = loaded(tmp_path / name, skip=True)
        assert texts(dataset) == [TASK]
        assert list((tmp_path / "copies").iterdir()) == []
        dataset.close()
    with pytest.raises(Refused):
        loaded(tmp_path / "a.jsonl.gz")
    assert list((tmp_path / "copies").iterdir()) == []


def test_memory_is_that_of_the_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """16 bytes a task, whatever the task holds."""
    monkeypatch.setattr("turnspec.cli.engine.cpus", lambda: 1)
    task = {"conversation": [{"role": "user", "blocks": [{"type": "text", "text": "x" * 20_000}]}]}
    (tmp_path / "small.jsonl").write_text(jsonl(task))
    loaded(tmp_path / "small.jsonl").close()  # imports
    with (tmp_path / "big.jsonl").open("w") as stream:
        for _ in range(2000):
            stream.write(jsonl(task))
    tracemalloc.start()
    try:
        dataset = loaded(tmp_path / "big.jsonl")
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(dataset) == 2000
    assert kept < 200_000
    assert peak < 6_000_000 < (tmp_path / "big.jsonl").stat().st_size / 6


def test_a_json_list_has_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "MOST_JSON", 1 << 20)
    (tmp_path / "a.json").write_text(json.dumps([TASK]) + " " * (1 << 20))
    with pytest.raises(CommandError, match="over 1 MB of JSON; write it as JSONL"):
        loaded(tmp_path / "a.json")


# --- The server --------------------------------------------------------------------------------------------


def test_an_episode(tmp_path: Path) -> None:
    tasks = [{"id": "a", "gold": "secret", "conversation": [HI]}, {"conversation": RICH}]
    (tmp_path / "a.jsonl").write_text(jsonl(*tasks))
    with serving(tmp_path / "a.jsonl") as server:
        assert server.said == [f"serving 2 tasks of 1 split at {server.url}"]
        assert server.url.startswith("http://127.0.0.1:")
        client = Client(server.url)
        names = [{"id": "a", "split": "train", "index": 0}, {"split": "train", "index": 1}]
        assert client.post("/conversations/tasks", {"split": "train"}) == {"tasks": names, "env_name": "conversations"}
        assert client.post("/conversations/num_tasks", {"split": "train"}) == {"num_tasks": 2}
        assert client.post("/conversations/task", {"split": "train", "index": -1})["task"] == names[1]
        assert client.post("/conversations/task_range", {"split": "train", "start": -1})["tasks"] == names[1:]
        client.start({"task_spec": names[1]}, "s1")
        served = client.get("/conversations/messages", "s1")
        assert turnspec.loads(json.dumps(served)) == turnspec.loads(json.dumps(RICH))
        assert served[1]["blocks"][0] == {"text": "Grüße \u2028 😀", "detail": None, "type": "text"}
        client.start({"split": "train", "index": 0}, "s2")
        assert client.get("/conversations/prompt", "s2") == [{"text": "hi", "detail": None, "type": "text"}]
        result = client.submit("Hello.", "s2")
        assert result["ok"] is True
        assert result["output"]["finished"] is True
        assert client.submit("Hello again.", "s2")["reason"] == "episode_finished"
        client.start({"task_spec": {"id": 9, "conversation": [HI, HI]}}, "s3")
        assert len(client.get("/conversations/messages", "s3")) == 2
        for wrong in ({"split": "train", "index": 2}, {"split": "x", "index": 0}, {"conversation": [{}]}, {"a": 1}):
            answer = client.http.post("/create", json={"task_spec": wrong}, headers={"X-Session-ID": "s4"})
            assert answer.status_code in (400, 500)
            assert "Traceback" not in answer.text
        assert check(server.url).findings == []
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(10) in (0, 130)
        assert server.process.stderr is not None
        rest = server.process.stderr.read()
        assert "Traceback" not in rest, rest
        said = [line.partition(" failed: ")[2] for line in rest.splitlines()]
        assert said[0] == "ValueError: the split 'train' has the tasks 0 to 1, not 2"
        assert rest.splitlines()[-1] == "turnspec: interrupted"


def test_the_real_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from openreward.api.environments import EnvironmentsAPI

    tasks = [{"id": f"t{number}", "conversation": RICH[: number + 2]} for number in range(3)]
    (tmp_path / "a.jsonl").write_text(jsonl(*tasks[:2]))
    (tmp_path / "b.jsonl").write_text(jsonl(tasks[2]))
    record = tmp_path / "answers.jsonl"
    with serving(tmp_path / "a.jsonl", tmp_path / "b.jsonl", "--record", record) as server:
        env = EnvironmentsAPI(base_url=server.url, api_key=None).get("anything")
        assert env.list_splits() == ["a", "b"]
        listed = env.list_tasks("a")
        assert [task.task_spec["id"] for task in listed] == ["t0", "t1"]
        for task, expected in ((listed[0], tasks[0]), (env.list_tasks("b")[0], tasks[2])):
            with env.session(task=task) as session:
                messages = [asdict(message) for message in session.get_messages()]
                assert turnspec.loads(json.dumps(messages)) == turnspec.loads(json.dumps(expected["conversation"]))
                assert [tool.name for tool in session.list_tools()] == ["submit"]
                output = session.call_tool("submit", {"text": f"Answer to {expected['id']}"})
                assert output.finished
    found = [json.loads(line) for line in record.read_text().splitlines()]
    assert [(line["task"], line["answer"]) for line in found] == [
        ({"id": "t0", "split": "a", "index": 0}, "Answer to t0"),
        ({"id": "t2", "split": "b", "index": 0}, "Answer to t2"),
    ]
    conversation = turnspec.dumps(tasks[0]["conversation"])
    assert found[0]["conversation_sha256"] == hashlib.sha256(wire_text(conversation)).hexdigest()


def wire_text(conversation: str) -> bytes:
    """The text that the sum is of: what `dumps` writes of what `loads` reads."""
    return turnspec.dumps(turnspec.loads(conversation)).encode()


def test_a_token_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(jsonl(TASK))
    with serving(tmp_path / "a.jsonl", "--token-env", "SERVE_TOKEN", SERVE_TOKEN="s3cret") as server:
        assert httpx.get(f"{server.url}/list_environments").status_code == 401
        assert Client(server.url, "s3cret").post("/conversations/num_tasks", {"split": "train"}) == {"num_tasks": 1}


def test_a_file_that_changes_while_it_is_served(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(jsonl(TASK))
    with serving(path) as server:
        client = Client(server.url)
        client.start({"split": "train", "index": 0}, "s1")
        path.write_text(jsonl(BAD, BAD))
        answer = client.http.post("/create", json={"split": "train", "index": 0}, headers={"X-Session-ID": "s2"})
        assert answer.status_code == 500
        assert "was changed after the server had started" in answer.json()["detail"]
        assert client.get("/conversations/messages", "s1")[0]["role"] == "user"


def test_sigterm_ends_in_order(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(jsonl(TASK))
    with serving(tmp_path / "a.jsonl") as server:
        server.process.terminate()
        assert server.process.wait(10) == 143
        assert server.process.stderr is not None
        assert server.process.stderr.read() == "turnspec: terminated\n"


# --- How it does not start ---------------------------------------------------------------------------------


def test_a_bad_line_is_exit_code_1(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "a.jsonl").write_text(jsonl(TASK, BAD))
    ran = call(capsys, "serve", tmp_path / "a.jsonl", "--port", "0")
    assert (ran.code, ran.out) == (1, "")
    lines = ran.err.splitlines()
    assert lines[0].startswith(f"{tmp_path}/a.jsonl:2:47: block_placement at /conversation/0/blocks/0: ")
    assert lines[1:] == ["turnspec: nothing is served: 1 invalid task (--skip-invalid leaves them out)"]
    (tmp_path / "a.jsonl").write_text("\n")
    ran = call(capsys, "serve", tmp_path / "a.jsonl", "--port", "0")
    assert (ran.code, ran.err) == (1, "turnspec: nothing is served: the files hold no valid task\n")


def test_bad_lines_that_are_left_out_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(jsonl(BAD, TASK, BAD))
    with serving(tmp_path / "a.jsonl", "--skip-invalid", "--split", "test") as server:
        assert server.said[-1] == f"serving 1 task of 1 split at {server.url} (2 invalid left out)"
        assert len(server.said) == 3
        client = Client(server.url)
        assert client.http.get("/conversations/splits").json() == [{"name": "test", "type": "test"}]


def test_a_port_in_use(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "a.jsonl").write_text(jsonl(TASK))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = call(capsys, "serve", tmp_path / "a.jsonl", "--port", str(port))
    assert ran.code == 2
    why = "another program listens there; name another port, or --port 0 for any free one"
    assert ran.err == f"turnspec: cannot listen at 127.0.0.1:{port}: {why}\n"


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (["--host", "no such host"], "--host: 'no such host' is no address of this machine"),
        (["--port", "70000"], "argument --port: '70000' is no port"),
        (["--split", ""], "--split: the name of a split is not empty"),
        (["--key", "a..b"], "--key: 'a..b' is no path of fields"),
        (["--token-env", "NO_SUCH_VARIABLE"], "--token-env: the environment variable 'NO_SUCH_VARIABLE' is not set"),
        (["--record", "/"], "cannot write /: is a folder"),
        (["missing.jsonl"], "missing.jsonl: no such file"),
        (["nothing*.jsonl"], "nothing*.jsonl: matches no file"),
    ],
)
def test_usage(tmp_path: Path, capsys: Capture, args: list[str], why: str) -> None:
    (tmp_path / "a.jsonl").write_text(jsonl(TASK))
    port = [] if "--port" in args else ["--port", "0"]
    ran = call(capsys, "serve", tmp_path / "a.jsonl", *args, *port)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"turnspec: {why}")
    assert len(ran.err.splitlines()) == 1


def test_a_missing_extra_is_named(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnspec.cli.extras.find_spec", lambda name: None if name == "uvicorn" else sys)
    ran = call(capsys, "serve", tmp_path / "a.jsonl")
    assert (ran.code, ran.err) == (2, "turnspec: needs uvicorn: pip install 'turnspec[server]'\n")

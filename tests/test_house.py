"""The test of the house: a new block type is a change of schema/ alone.

In a temporary copy, an `audio` block joins a released set v3 by edits of files under `schema/`; then the
generator runs, and `house/audio_checks.py` looks at the result through the package: models, validator,
explainer, flatten, downgrade, every format, rules. Here are the edits, and what they leave untouched.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from codegen import output
from codegen.emitters import bundles
from codegen.reader import load, read

ROOT = Path(__file__).resolve().parent.parent
CHECKS = Path(__file__).with_name("house") / "audio_checks.py"
COPIED = ("schema", "codegen", "generated")
WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA="

AUDIO = {
    "title": "AudioBlock",
    "summary": "a recording as base64 data",
    "placement": {"roles": ["user"], "containers": ["tool_result"]},
    "media": {
        "data": "data",
        "type": "mimeType",
        "aliases": {"audio/x-wav": "audio/wav", "audio/mp3": "audio/mpeg"},
        "magic": {"audio/wav": [["52494646", 0], ["57415645", 8]], "audio/flac": [["664c6143", 0]]},
    },
    "schema": {
        "type": "object",
        "description": "A recording, carried in the message itself.",
        "properties": {
            "type": {"const": "audio", "description": "The tag that marks an audio block.", "examples": ["audio"]},
            "data": {
                "type": "string",
                "description": "The bytes of the recording as base64.",
                "contentEncoding": "base64",
                "examples": [WAV],
            },
            "mimeType": {
                "type": "string",
                "description": "The media type of the recording.",
                "examples": ["audio/wav"],
            },
            "detail": {
                "type": ["object", "null"],
                "description": "Metadata of the canonical side; no provider ever sees it.",
                "examples": [{"seconds": 3}],
            },
        },
        "required": ["type", "data", "mimeType"],
        "additionalProperties": False,
    },
}
BLOCK = {"type": "audio", "data": WAV, "mimeType": "audio/wav"}
TURN = {"role": "user", "blocks": [{"type": "text", "text": "What is said?"}, BLOCK]}
CALL = [
    {"role": "user", "blocks": [{"type": "text", "text": "Go."}]},
    {"role": "assistant", "blocks": [{"type": "tool_call", "id": "c1", "name": "listen", "input": {}}]},
    {"role": "user", "blocks": [{"type": "tool_result", "tool_call_id": "c1", "blocks": [BLOCK]}]},
]


def code(name: str, title: str, format: str, messages: list[Any], pointer: str) -> dict[str, Any]:
    example = {"op": "convert", "format": format, "purpose": "request", "messages": messages, "pointer": pointer}
    return {
        "code": name,
        "kind": "conversion",
        "severity": "error",
        "title": title,
        "explanation": f"{title} by this provider.",
        "fix": "Write down what was said.",
        "since": "0.2.0",
        "example": example,
    }


CODES = [
    code("audio_placement", "A recording that is not taken here", "openai", CALL, "/2/blocks/0/blocks/0"),
    code("audio_unsupported", "A recording that is not taken at all", "anthropic", [TURN], "/0/blocks/1"),
]
RESULTS = {"roles": [], "containers": ["tool_result"], "code": "audio_placement"}
NAMES = {"$map": "mimeType", "values": {"audio/wav": "wav", "audio/mpeg": "mp3"}}
FORMATS: dict[str, dict[str, Any]] = {
    "openai": {
        "slot": "content",
        "as": {"type": "input_audio", "input_audio": {"data": "$data", "format": NAMES}},
        "media_types": ["audio/wav", "audio/mpeg"],
        "refused_in": RESULTS,
    },
    "anthropic": {"raise": "audio_unsupported"},
    "google": {
        "slot": "content",
        "as": {"inline_data": {"mime_type": "$mimeType", "data": "$data"}},
        "media_types": ["audio/wav", "audio/mpeg", "audio/flac"],
        "sniff": True,
        "refused_in": RESULTS,
    },
}


def edit(path: Path, change: Callable[[Any], object]) -> None:
    value = load(path)
    change(value)
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def add_codes(errors: dict[str, Any]) -> None:
    """Put the new codes where they belong: by name, among those of their kind."""
    kinds = ["validation", "conversion", "loss", "rule"]
    known = errors["codes"]
    validation = [item for item in known if item["kind"] == "validation"]
    others = [item for item in known if item["kind"] != "validation"] + CODES
    errors["codes"] = validation + sorted(others, key=lambda item: (kinds.index(item["kind"]), item["code"]))


def add_rule(rule: dict[str, Any], format: dict[str, Any]) -> None:
    format["blocks"]["audio"] = rule


def release(schema: Path) -> None:
    """Record the digests of the newest set: from now on it is frozen."""
    path = schema / "block_sets.json"
    name = load(path)["sets"][-1]["name"]
    edit(path, lambda value: value["sets"][-1].update(status="draft", sha256={}))
    spec = read(schema)
    texts = {kind: bundles.text(bundles.bundle(spec, spec.set(name), kind)) for kind in bundles.KINDS}
    digests = {kind: output.sha256(text) for kind, text in texts.items()}
    edit(path, lambda value: value["sets"][-1].update(status="released", sha256=digests))


def add_audio(schema: Path) -> None:
    """All that a new block takes."""
    (schema / "blocks" / "audio.json").write_text(json.dumps(AUDIO, indent=2) + "\n", encoding="utf-8")
    v3 = {"name": "v3", "status": "draft", "description": "Adds recordings.", "since": "0.2.0", "sha256": {}}
    edit(
        schema / "block_sets.json",
        lambda value: value["sets"].append({**v3, "blocks": [*value["sets"][-1]["blocks"], "audio"]}),
    )
    edit(schema / "errors.json", add_codes)
    edit(schema / "flatten.json", lambda value: value["blocks"].update(audio={"as_is": True}))
    for name, rule in FORMATS.items():
        edit(schema / "formats" / f"{name}.json", partial(add_rule, rule))
    release(schema)


def run(root: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the copy: its generator, its generated package, the repository's own src."""
    paths = [root, root / "generated" / "python", ROOT / "src"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, *command], cwd=root, env=environment, capture_output=True, text=True, timeout=120
    )


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources with the new block, generated anew."""
    root = tmp_path_factory.mktemp("house")
    for name in COPIED:
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__", ".*_cache"))
    add_audio(root / "schema")
    done = run(root, "-m", "codegen", "generate")
    assert done.returncode == 0, done.stderr
    return root


def test_package_knows_the_new_block(house: Path) -> None:
    done = run(house, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(house), str(CHECKS))
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


def test_generator_is_content_with_its_work(house: Path) -> None:
    done = run(house, "-m", "codegen", "check")
    assert (done.returncode, done.stderr) == (0, "")


def test_only_the_schema_was_edited(house: Path) -> None:
    for path in (ROOT / "codegen").rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            assert (house / path.relative_to(ROOT)).read_bytes() == path.read_bytes()


def test_released_bundles_stay_as_they_are(house: Path) -> None:
    before, after = ROOT / "generated" / "schemas", house / "generated" / "schemas"
    names = {path.relative_to(before) for path in before.rglob("*.json")}
    assert {path.relative_to(after) for path in after.rglob("*.json")} - names == {
        Path("v3", f"{kind}.schema.json") for kind in bundles.KINDS
    }
    for name in names:
        assert (after / name).read_bytes() == (before / name).read_bytes()


def test_new_set_is_frozen_too(house: Path, tmp_path: Path) -> None:
    shutil.copytree(house / "schema", tmp_path / "schema")
    edit(tmp_path / "schema" / "blocks" / "audio.json", lambda value: value["schema"].update(description="Sound."))
    done = run(house, "-m", "codegen", "check", "--root", str(tmp_path))
    assert done.returncode == 2
    assert "the released set v3 is frozen" in done.stderr


def test_pages_know_the_new_block(house: Path) -> None:
    pages = {path.stem: path.read_text("utf-8") for path in (house / "generated" / "docs").glob("*.md")}
    assert "## audio\n\n**AudioBlock.** A recording, carried in the message itself." in pages["blocks"]
    assert "| [`audio`](blocks.md#audio) | no | no | yes |" in pages["block-sets"]
    assert "[`audio`](blocks.md#audio)" in pages["messages"]
    assert '"type": "input_audio"' in pages["formats"]
    assert "### anthropic: audio\n\nIt raises [`audio_unsupported`](errors.md#audio_unsupported)." in pages["formats"]
    assert "| [`audio`](blocks.md#audio) | stays as it is | its own |" in pages["flatten"]
    assert "## audio_placement" in pages["errors"]


def test_a_block_that_nobody_converts_is_told(tmp_path: Path) -> None:
    """The author of a block who forgets a format hears which one."""
    shutil.copytree(ROOT / "schema", tmp_path / "schema")
    add_audio(tmp_path / "schema")
    edit(tmp_path / "schema" / "formats" / "google.json", lambda value: value["blocks"].pop("audio"))
    done = run(ROOT, "-m", "codegen", "check", "--root", str(tmp_path))
    assert done.returncode == 2
    assert "google.json: says nothing of the block 'audio'" in done.stderr

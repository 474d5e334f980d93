"""The code generator: generated/ is what the schema says, byte for byte, and nothing else."""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from schematools import ROOT, SCHEMA, SPEC, load

from codegen import emitters, output
from codegen.emitters import bundles, docs
from codegen.reader import SchemaError, read

GENERATED = ROOT / "generated"


def codegen(command: str, root: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the generator of this repository on the schema and the generated files below `root`."""
    return subprocess.run(
        [sys.executable, "-m", "codegen", command, "--root", str(root)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=120,
    )


@pytest.fixture(scope="module")
def rendered() -> output.Files:
    """All files that the schema gives."""
    return output.render(SCHEMA)


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of schema/ and generated/."""
    ignored = shutil.ignore_patterns("__pycache__", ".*_cache")
    shutil.copytree(SCHEMA, tmp_path / "schema")
    shutil.copytree(GENERATED, tmp_path / "generated", ignore=ignored)
    return tmp_path


def edit(path: Path, change: Callable[[Any], object]) -> None:
    """Change a JSON file in place."""
    value = load(path)
    change(value)
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False), encoding="utf-8")


def released_digests(root: Path) -> dict[str, dict[str, str]]:
    """The sha256 of the bundles of each set, as they would be now."""
    spec = read(root / "schema")
    return {
        item.name: {kind: output.sha256(bundles.text(bundles.bundle(spec, item, kind))) for kind in bundles.KINDS}
        for item in spec.sets
    }


# --- What lies there ---------------------------------------------------------------------------------------


def test_generated_files_are_as_the_schema_says(rendered: output.Files) -> None:
    assert output.differences(rendered, GENERATED) == []


def test_generated_text_is_tidy(rendered: output.Files) -> None:
    for name, text in rendered.items():
        assert text == "" or text.endswith("\n"), name
        assert "\r" not in text, name
        assert not re.search(r"[ \t]$", text, re.MULTILINE), name
        assert name.endswith((".json", ".typed")) or "Do not edit" in text[:300], name


def test_check_is_content_with_a_fresh_copy(copied: Path) -> None:
    done = codegen("check", copied)
    assert (done.returncode, done.stderr) == (0, "")


def test_check_names_what_differs_is_missing_or_stray(copied: Path) -> None:
    generated = copied / "generated"
    changed = generated / "docs" / "blocks.md"
    changed.write_bytes(changed.read_bytes().replace(b"\n", b" \n", 1))
    ends = generated / "schemas" / "v1" / "types.schema.json"
    ends.write_bytes(ends.read_bytes().replace(b"\n", b"\r\n"))
    (generated / "schemas" / "v2" / "types.schema.json").unlink()
    (generated / "python" / "turnspec_generated" / "extra.py").write_text("", encoding="utf-8")
    (generated / "old" / "deep").mkdir(parents=True)
    (generated / "old" / "deep" / "file.txt").write_text("", encoding="utf-8")
    done = codegen("check", copied)
    assert done.returncode == 1
    assert done.stderr.splitlines()[:-1] == [
        "generated/docs/blocks.md: differs",
        "generated/old/deep/file.txt: stray file",
        "generated/python/turnspec_generated/extra.py: stray file",
        "generated/schemas/v1/types.schema.json: differs",
        "generated/schemas/v2/types.schema.json: missing",
    ]
    assert "make generate" in done.stderr.splitlines()[-1]


def test_generate_mends_all_of_that(copied: Path, rendered: output.Files) -> None:
    generated = copied / "generated"
    (generated / "docs" / "blocks.md").write_text("x", encoding="utf-8")
    (generated / "schemas" / "v2" / "types.schema.json").unlink()
    (generated / "stray.txt").write_text("", encoding="utf-8")
    assert codegen("generate", copied).returncode == 0
    assert output.differences(rendered, generated) == []


def test_caches_of_tools_are_no_strays(copied: Path, rendered: output.Files) -> None:
    cache = copied / "generated" / "python" / "turnspec_generated" / "__pycache__"
    cache.mkdir()
    (cache / "names.cpython-311.pyc").write_bytes(b"")
    assert output.differences(rendered, copied / "generated") == []


def test_a_schema_that_contradicts_itself_is_told_in_one_line(copied: Path) -> None:
    edit(copied / "schema" / "flatten.json", lambda value: value["blocks"].pop("image"))
    for command in ("generate", "check"):
        done = codegen(command, copied)
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1
        assert "flatten.json" in done.stderr
        assert "'image'" in done.stderr


# --- Emitters ----------------------------------------------------------------------------------------------


def test_output_is_deterministic(tmp_path: Path) -> None:
    """Neither the hash seed nor the folder nor the locale changes a byte."""
    runs = []
    for seed, locale in (("1", "C"), ("2", "C.UTF-8")):
        root = tmp_path / seed
        shutil.copytree(SCHEMA, root / "schema")
        done = codegen("generate", root, PYTHONHASHSEED=seed, LC_ALL=locale, LANG=locale, TZ="Asia/Tokyo")
        assert done.returncode == 0, done.stderr
        files = (path for path in (root / "generated").rglob("*") if path.is_file())
        runs.append({path.relative_to(root).as_posix(): path.read_bytes() for path in files})
    assert runs[0] == runs[1]
    assert runs[0]["generated/docs/blocks.md"] == (GENERATED / "docs" / "blocks.md").read_bytes()


@pytest.mark.parametrize("emit", emitters.ALL, ids=lambda emit: str(emit.__module__.rpartition(".")[2]))
def test_emitters_are_pure_functions(emit: emitters.Emitter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same spec gives the same text, the spec stays as it is, and nothing is written."""
    monkeypatch.chdir(tmp_path)
    before = copy.deepcopy(SPEC)
    first = emit(SPEC)
    assert before == SPEC
    assert emit(before) == first
    assert list(tmp_path.iterdir()) == []
    for name, text in first.items():
        assert isinstance(text, str)
        assert not name.startswith("/")
        assert ".." not in name


def test_emitters_are_sorted_and_write_different_files() -> None:
    names = [emit.__module__ for emit in emitters.ALL]
    assert names == sorted(set(names))
    files = [name for emit in emitters.ALL for name in emit(SPEC)]
    assert len(set(files)) == len(files)


def test_generated_python_imports_nothing_of_the_generator() -> None:
    for path in (GENERATED / "python").rglob("*.py"):
        assert not re.search(r"^\s*(from|import) (codegen|jinja2|jsonschema)\b", path.read_text("utf-8"), re.MULTILINE)


# --- Frozen sets -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("blocks/text.json", lambda value: value["schema"]["properties"]["text"].update(description="The text.")),
        ("blocks/image.json", lambda value: value["placement"].update(roles=["user"])),
        ("message.json", lambda value: value["conversation"].update(description="Turns.")),
        ("block_sets.json", lambda value: value["sets"][0].update(description="The first set.")),
    ],
)
def test_a_released_set_is_frozen(file: str, change: Callable[[Any], object], copied: Path) -> None:
    edit(copied / "schema" / file, change)
    with pytest.raises(SchemaError, match=r"the released set v1 is frozen.*A fix is a new version"):
        output.render(copied / "schema")


def test_nothing_is_written_where_a_released_set_would_change(copied: Path, rendered: output.Files) -> None:
    edit(copied / "schema" / "blocks" / "text.json", lambda value: value["schema"].update(description="Some text."))
    for command in ("generate", "check"):
        done = codegen(command, copied)
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1
        assert "frozen" in done.stderr
    assert output.differences(rendered, copied / "generated") == []


def test_a_removed_digest_is_no_way_out(copied: Path) -> None:
    edit(copied / "schema" / "block_sets.json", lambda value: value["sets"][0].update(sha256={}))
    assert codegen("check", copied).returncode == 2


def test_recorded_digests_are_those_of_the_published_files() -> None:
    for item in SPEC.sets:
        for kind, digest in item.sha256.items():
            text = (GENERATED / "schemas" / item.name / f"{kind}.schema.json").read_text("utf-8")
            assert output.sha256(text) == digest


VIDEO = {
    "title": "VideoBlock",
    "summary": "a video that is not there yet",
    "placement": {"roles": ["user"], "containers": []},
    "schema": {
        "type": "object",
        "description": "A video.",
        "properties": {
            "type": {"const": "video", "description": "The tag.", "examples": ["video"]},
            "link": {"type": "string", "description": "Where it lies.", "examples": ["x"]},
        },
        "required": ["type", "link"],
        "additionalProperties": False,
    },
}


def add_draft(root: Path, *blocks: str) -> None:
    draft = {"name": "v3", "status": "draft", "description": "What comes next.", "since": "0.2.0", "sha256": {}}
    edit(
        root / "schema" / "block_sets.json",
        lambda value: value["sets"].append({**draft, "blocks": [*value["sets"][-1]["blocks"], *blocks]}),
    )


def test_a_draft_gets_bundles_and_changes_nothing_else(copied: Path, rendered: output.Files) -> None:
    """Not even the formats need to know the blocks of a draft."""
    (copied / "schema" / "blocks" / "video.json").write_text(json.dumps(VIDEO), encoding="utf-8")
    add_draft(copied, "video")
    before, after = rendered, output.render(copied / "schema")
    new = {f"schemas/v3/{kind}.schema.json" for kind in bundles.KINDS}
    assert set(after) - set(before) == new | {f"python/turnspec_generated/{name}" for name in new}
    assert {name for name in before if before[name] != after[name]} == set()
    assert "VideoBlock" in after["schemas/v3/types.schema.json"]


def test_a_draft_may_change(copied: Path) -> None:
    add_draft(copied)
    output.check_frozen(read(copied / "schema"))
    edit(copied / "schema" / "block_sets.json", lambda value: value["sets"][-1].update(description="Something else."))
    output.check_frozen(read(copied / "schema"))


def test_a_draft_is_released_by_status_and_digest(copied: Path) -> None:
    add_draft(copied)
    digests = released_digests(copied)["v3"]
    path = copied / "schema" / "block_sets.json"
    edit(path, lambda value: value["sets"][-1].update(status="released", sha256={**digests, "types": "0" * 64}))
    with pytest.raises(SchemaError, match=digests["types"]):  # the message says which digest to record
        output.check_frozen(read(copied / "schema"))
    edit(path, lambda value: value["sets"][-1].update(sha256=digests))
    output.check_frozen(read(copied / "schema"))
    assert read(copied / "schema").current.name == "v3"


def test_unknown_command_and_missing_schema(tmp_path: Path) -> None:
    assert codegen("clean", ROOT).returncode == 2
    done = codegen("check", tmp_path)
    assert done.returncode == 2
    assert "message.json: no such file" in done.stderr


def test_two_emitters_may_not_write_the_same_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emitters, "ALL", (bundles.emit, bundles.emit))
    with pytest.raises((SchemaError, ValueError), match="two emitters write"):
        output.render(SCHEMA)


# --- Reference pages ---------------------------------------------------------------------------------------


def pages() -> dict[str, str]:
    return {Path(name).stem: text for name, text in docs.emit(SPEC).items()}


def test_pages_know_every_block_and_field() -> None:
    blocks, messages, sets = (pages()[name] for name in ("blocks", "messages", "block-sets"))
    for block in SPEC.current.blocks:
        section = blocks.partition(f"\n## {block.type}\n")[2].partition("\n## ")[0]
        assert block.title in section
        assert block.description in section
        for name, item in block.schema["properties"].items():
            assert f"| `{name}` |" in section, (block.type, name)
            assert item["description"] in section
        assert f"[`{block.type}`](blocks.md#{block.type})" in messages
    for item in SPEC.message_fields:
        assert f"| `{item.name}` |" in messages
    for role in SPEC.roles:
        assert f"| `{role.name}` | {role.title} | {role.union} |" in messages
    for block_set in SPEC.sets:
        assert all(digest in sets for digest in block_set.sha256.values())


def test_pages_know_every_code_and_rule() -> None:
    errors, rules = pages()["errors"], pages()["rules"]
    for item in SPEC.errors:
        section = errors.partition(f"\n## {item.code}\n")[2].partition("\n## ")[0]
        assert f"**{item.title}.** {item.explanation}" in section
        assert item.fix in section
        assert f"`{item.example['pointer'] or 'the root'}`".replace("`the root`", "the root") in section
    for rule in SPEC.rules:
        assert f"| [`{rule.code}`](errors.md#{rule.code}) | {rule.severity} |" in rules
        assert rule.description.removesuffix(".") in rules
        assert f"| `{rule.check}` |" in rules


def test_pages_know_every_format_and_what_it_makes_of_each_block() -> None:
    formats, flatten = pages()["formats"], pages()["flatten"]
    for name, (title, description) in SPEC.format_titles.items():
        section = formats.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        assert f"**{title}.** {description}" in section
    for item in SPEC.formats:
        for block in SPEC.current.blocks:
            section = formats.partition(f"\n### {item.name}: {block.type}\n")[2].partition("\n##")[0]
            rule = item.rules[block.type]
            used = [rule.raises, rule.refused.code if rule.refused else None, *(loss.code for loss in rule.losses)]
            for code in filter(None, used):
                assert f"(errors.md#{code})" in section, (item.name, block.type, code)
            assert rule.raises or "```json" in section
    for block in SPEC.current.blocks:
        assert f"| [`{block.type}`](blocks.md#{block.type}) |" in flatten


def test_pages_know_every_operation_of_a_template() -> None:
    definitions = load(SCHEMA / "meta" / "format.schema.json")["$defs"]
    operations = [*definitions["operation"]["propertyNames"]["then"]["enum"], "$or"]
    assert "$or" in definitions["turn_template"]["then"]["properties"]
    for name in operations:
        assert f'| `{{"{name}": ' in pages()["formats"], name


def test_links_between_pages_lead_to_a_heading() -> None:
    texts = pages()
    headings = {page: set(re.findall(r"^#+ (.+)$", text, re.MULTILINE)) for page, text in texts.items()}
    for page, text in texts.items():
        for target, anchor in re.findall(r"\]\(([a-z-]*)(?:\.md)?(?:#([\w-]+))?\)", text):
            known = {heading.lower() for heading in headings[target or page]}
            assert not anchor or anchor in known, (page, target, anchor)


def test_tables_are_whole() -> None:
    for page, text in pages().items():
        for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
            widths = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
            assert len(widths) == 1, (page, table)

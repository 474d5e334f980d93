"""What is built installs with the runtime dependencies alone and works; `import turnspec` stays light."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "docs" / "examples"
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]

# One worker builds and installs, however many there are.
pytestmark = pytest.mark.xdist_group("package")


def run(*command: str | Path, cwd: Path, code: int = 0) -> str:
    """Run a command that must exit with `code`, in an environment that knows nothing of this repository."""
    env = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == code, f"{command} exited {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    return folder


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (built,) = dist.glob("*.whl")
    return built


@pytest.fixture(scope="module", params=["wheel", "editable"])
def installed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts folder of a fresh environment with turnspec and its runtime dependencies, nothing else."""
    folder = tmp_path_factory.mktemp(request.param)
    venv.create(folder, with_pip=True)
    (scripts,) = (path.parent for path in folder.glob("*/python") if path.parent.name in ("bin", "Scripts"))
    what = [request.getfixturevalue("wheel")] if request.param == "wheel" else ["--editable", ROOT]
    pip = (scripts / "python", "-m", "pip", "--quiet", "--disable-pip-version-check")
    run(*pip, "install", *what, cwd=folder)
    return scripts


def test_the_wheel_holds_the_packages_with_their_data_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert tops == {"turnspec", "turnspec_generated", f"turnspec-{VERSION}.dist-info"}
    assert {"turnspec/py.typed", "turnspec_generated/py.typed"} <= set(names)
    for block_set in ("v1", "v2"):
        for kind in ("types", "validate"):
            assert f"turnspec_generated/schemas/{block_set}/{kind}.schema.json" in names
    assert not [name for name in names if "test" in name or "__pycache__" in name]


def test_the_metadata_ask_for_the_runtime_dependencies_only(wheel: Path) -> None:
    info = f"turnspec-{VERSION}.dist-info"
    archive = zipfile.ZipFile(wheel)
    metadata = Parser().parsestr(archive.read(f"{info}/METADATA").decode())
    needed = [need for need in metadata.get_all("Requires-Dist", []) if "extra ==" not in need]
    assert sorted(need.split(">")[0] for need in needed) == ["msgspec", "pydantic"]
    assert metadata["License-Expression"] == "MIT"
    assert metadata["Requires-Python"] == ">=3.11"
    assert f"{info}/licenses/LICENSE" in archive.namelist()


def test_the_sdist_holds_what_a_packager_needs(dist: Path) -> None:
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    expected = {"schema/message.json", "codegen/__main__.py", "tests/test_package.py", "Makefile", "LICENSE"}
    assert expected <= names
    assert not [name for name in names if name.startswith((".venv", ".git/", "dist"))]


def test_installed_it_has_no_test_dependency(installed: Path) -> None:
    listed = json.loads(run(installed / "python", "-m", "pip", "list", "--format=json", cwd=installed))
    names = {package["name"].lower() for package in listed}
    assert {"turnspec", "msgspec", "pydantic"} <= names
    assert not names & {"openreward", "pytest", "jsonschema", "jinja2", "datamodel-code-generator"}


def test_installed_the_command_works(installed: Path, tmp_path: Path) -> None:
    command = installed / "turnspec"
    assert run(command, "--version", cwd=tmp_path).strip() == f"turnspec {VERSION}"
    run(command, "validate", EXAMPLES / "tasks.json", EXAMPLES / "sample-200.jsonl", cwd=tmp_path)
    run(command, "validate", EXAMPLES / "broken" / "misplaced-block.json", cwd=tmp_path, code=1)
    assert "placement" in run(command, "explain", "block_placement", cwd=tmp_path)
    lines = run(command, "convert", "--to", "anthropic", EXAMPLES / "tasks.json", cwd=tmp_path).splitlines()
    assert [list(json.loads(line)) for line in lines] == [["system", "messages"]] * 4


def test_installed_the_bundles_are_there(installed: Path, tmp_path: Path) -> None:
    for block_set in ("v1", "v2"):
        printed = run(installed / "turnspec", "schema", block_set, cwd=tmp_path)
        assert block_set in json.loads(printed)["$id"]


def test_installed_it_is_typed(installed: Path, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "from turnspec import Message, TextBlock, convert_messages, loads, validate\n"
        "turn = Message(role='user', blocks=[TextBlock(text='hi')])\n"
        "validate([turn.model_dump()])\n"
        "print(convert_messages([turn], format='openai'), loads('[]'))\n"
    )
    assert run(installed / "python", program, cwd=tmp_path).strip()
    python = ("--python-executable", installed / "python")
    run(sys.executable, "-m", "mypy", "--strict", *python, program, cwd=tmp_path)


def test_import_is_light() -> None:
    heavy = "pydantic", "pydantic_core", "msgspec", "turnspec_generated.models", "turnspec_generated.structs"
    program = f"import sys, turnspec; print(*[name for name in {heavy!r} if name in sys.modules])"
    assert run(sys.executable, "-c", program, cwd=ROOT).split() == []


def test_every_public_name_is_there() -> None:
    program = "import turnspec as t; print(*[name for name in t.__all__ if getattr(t, name, t) is not t])"
    names = set(run(sys.executable, "-c", program, cwd=ROOT).split())
    assert {
        *("Message", "TextBlock", "ImageBlock", "ReasoningBlock", "ToolCallBlock", "ToolResultBlock"),
        *("MESSAGE_BLOCK_TYPES", "BLOCK_SETS", "validate", "iter_errors", "loads", "dumps"),
        *("convert_messages", "convert_with_report", "request_arguments", "flatten_messages"),
        *("skip_unknown_blocks", "block_set_for", "downgrade_messages"),
        *("ValidationError", "ConversionError", "ConversionWarning", "Loss"),
    } <= names


def test_validation_needs_no_pydantic(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        """
import sys

class NoPydantic:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("pydantic", "pydantic_core"):
            raise ImportError(f"{name} was imported")

sys.meta_path.insert(0, NoPydantic())

import turnspec

conversation = [{"role": "user", "blocks": [{"type": "text", "text": "hi"}]}]
broken = [{"role": "user", "blocks": [{"type": "reasoning", "text": "hi"}]}]
turnspec.validate(conversation)
assert [problem.code for problem in turnspec.iter_errors(broken)] == ["block_placement"]
assert list(turnspec.iter_errors(b'[{"role": "user"}]'))[0].line == 1
text = turnspec.dumps(conversation)
assert turnspec.dumps(turnspec.loads(text)) == text
turnspec.convert_messages(turnspec.loads(text), "openai")
turnspec.flatten_messages(conversation)
print("fine")
"""
    )
    assert run(sys.executable, program, cwd=tmp_path) == "fine\n"

"""pydantic models, written by datamodel-code-generator from the `types` bundle of the newest released set.

The generator gets a copy of that bundle in which the message variants are one object (placement is the
work of `model_base`) and unions say by which key their members are told apart.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from ..ir import Block, Container, Spec
from . import bundles
from .common import HEADER, PACKAGE, template

BASE = "turnspec_generated.model_base"
ANY_BLOCK = "Block"
DOCSTRING = '''"""The messages and blocks of block set {name} as pydantic models: strict, closed, placed.

`type` may be left out in a call (`TextBlock(text="hi")`), but not in data.
"""'''
FLAGS = (
    "--disable-timestamp",
    "--disable-warnings",
    "--enum-field-as-literal=all",
    "--ignore-pyproject",
    "--input-file-type=jsonschema",
    "--no-formatters",
    "--output-model-type=pydantic_v2.BaseModel",
    "--skip-root-model",
    "--strict-nullable",
    "--strict-refs",
    "--target-python-version=3.11",
    "--use-annotated",
    "--use-attribute-docstrings",
    "--use-double-quotes",
    "--use-field-description",
    "--use-one-literal-as-default",
    "--use-schema-description",
    "--use-single-line-docstring",
    "--use-type-alias",
)


def emit(spec: Spec) -> dict[str, str]:
    return {
        f"{PACKAGE}/model_base.py": template("python/model_base.py.j2", header=HEADER),
        f"{PACKAGE}/models.py": _models(spec),
    }


def _models(spec: Spec) -> str:
    bases = {block.title: f"{BASE}.ContainerModel" for block in spec.current.blocks if _holds(block)}
    bases[spec.message["title"]] = f"{BASE}.MessageModel"
    text = _generate(
        _source(spec),
        f"--custom-file-header={HEADER}{DOCSTRING.format(name=spec.current.name)}",
        f"--base-class={BASE}.BlockModel",
        f"--base-class-map={json.dumps(bases)}",
        f"--additional-imports={BASE}.ListOf",
    )
    for union in (ANY_BLOCK, *(box.union for box in _containers(spec))):
        if f"list[{union}]" not in text:
            raise ValueError(f"datamodel-code-generator wrote no list[{union}]; see FLAGS in {__name__}")
        text = text.replace(f"list[{union}]", f"ListOf[{union}]")
    return text


def _generate(source: dict[str, Any], *options: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "bundle.json")
        path.write_text(json.dumps(source), encoding="utf-8")
        command = [sys.executable, "-m", "datamodel_code_generator", *FLAGS, *options, f"--input={path}"]
        done = subprocess.run(command, capture_output=True, encoding="utf-8")
    if done.returncode:
        raise ValueError(f"datamodel-code-generator fails:\n{done.stdout}{done.stderr}")
    return done.stdout


def _source(spec: Spec) -> dict[str, Any]:
    """The bundle as the generator needs it: one message, and tagged unions marked as such."""
    bundle = bundles.bundle(spec, spec.current, "types")
    definitions = bundle["$defs"]
    title = spec.message["title"]
    message = definitions[spec.roles[0].title]
    message |= {"title": title, "description": definitions[title]["description"]}
    message["properties"]["role"] = {
        "enum": [role.name for role in spec.roles],
        "description": spec.message_schema["properties"]["role"]["description"],
    }
    message["properties"]["blocks"]["items"] = {"$ref": f"#/$defs/{ANY_BLOCK}"}
    kept = {block.title: definitions[block.title] for block in spec.current.blocks}
    for box in _containers(spec):
        kept[box.union] = definitions[box.union] | {"discriminator": {"propertyName": "type"}}
    kept[ANY_BLOCK] = {
        "description": "A block of any type.",
        "oneOf": [{"$ref": f"#/$defs/{block.title}"} for block in spec.current.blocks],
        "discriminator": {"propertyName": "type"},
    }
    return {"$schema": bundle["$schema"], "$ref": f"#/$defs/{title}", "$defs": kept | {title: message}}


def _containers(spec: Spec) -> list[Container]:
    """The containers of the blocks in the newest released set."""
    held = {name for block in spec.current.blocks for name in _holds(block)}
    return [box for box in spec.containers if box.name in held]


def _holds(block: Block) -> set[str]:
    """The names of the containers of a block."""
    return {field.container for field in block.fields if field.container}

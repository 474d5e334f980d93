"""Read `schema/` into the IR. Every complaint names the file and what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from . import ir

REF = "#/$defs/"


class SchemaError(Exception):
    """The schema contradicts itself or its meta-schema; the message names file and place."""


def read(root: Path) -> ir.Spec:
    """Read the whole schema below `root`, check it against its meta-schemas, and resolve it."""
    return _Reader(root).spec()


def load(path: Path) -> Any:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise SchemaError(f"{path}: a key comes twice in one object")
        return found

    try:
        return json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=unique)
    except FileNotFoundError:
        raise SchemaError(f"{path}: no such file") from None
    except ValueError as problem:
        raise SchemaError(f"{path}: {problem}") from None


class _Reader:
    def __init__(self, root: Path) -> None:
        self.root = root

    def file(self, name: str, meta: str) -> Any:
        """Load a schema file and check it against its meta-schema."""
        from jsonschema import Draft202012Validator

        path = self.root / name
        value = load(path)
        schema = load(self.root / "meta" / f"{meta}.schema.json")
        found = sorted(Draft202012Validator(schema).iter_errors(value), key=lambda error: list(map(str, error.path)))
        if found:
            place = "/" + "/".join(map(str, found[0].absolute_path))
            raise SchemaError(f"{path}: at {place}: {found[0].message}")
        return value

    def spec(self) -> ir.Spec:
        message = self.file("message.json", "message")
        sets = self.file("block_sets.json", "block_sets")
        self.unions = {item["union"]: name for name, item in message["containers"].items()}
        order: dict[str, None] = dict.fromkeys(kind for item in sets["sets"] for kind in item["blocks"])
        on_disk = {path.stem for path in (self.root / "blocks").glob("*.json")}
        if missing := sorted(on_disk - set(order)):
            raise SchemaError(f"{self.root}/block_sets.json: no set holds the block {missing[0]!r}")
        self.blocks = {kind: self.block(kind, message) for kind in order}
        released = [item for item in sets["sets"] if item["status"] == "released"]
        self.released = tuple(dict.fromkeys(kind for item in released for kind in item["blocks"]))
        errors = tuple(ir.ErrorCode(**item) for item in self.file("errors.json", "errors")["codes"])
        self.codes = {item.code for item in errors}
        if len(self.codes) != len(errors):
            raise SchemaError(f"{self.root}/errors.json: a code stands twice")
        formats, aliases, titles = self.formats()
        return ir.Spec(
            blocks=tuple(self.blocks[kind] for kind in self.released),
            roles=tuple(
                ir.Role(name, item["title"], item["union"], item["description"])
                for name, item in message["roles"].items()
            ),
            containers=tuple(
                ir.Container(name, item["union"], item["description"]) for name, item in message["containers"].items()
            ),
            message=message,
            message_fields=self.fields(message["schema"], skip="role"),
            sets=tuple(
                ir.BlockSet(
                    item["name"],
                    item["status"],
                    item["description"],
                    item["since"],
                    tuple(self.blocks[kind] for kind in item["blocks"]),
                    item["sha256"],
                )
                for item in sets["sets"]
            ),
            unadvertised=sets["unadvertised"],
            errors=errors,
            rules=self.rules(),
            formats=formats,
            aliases=aliases,
            format_titles=titles,
            flatten=self.flatten(),
            wire=self.file("wire.json", "wire"),
            server_checks=self.server_checks(),
        )

    # --- blocks ---

    def block(self, kind: str, message: dict[str, Any]) -> ir.Block:
        name = f"blocks/{kind}.json"
        data = self.file(name, "block")
        schema = data["schema"]
        if schema["properties"]["type"].get("const") != kind:
            raise SchemaError(f"{self.root}/{name}: the const of `type` must be {kind!r}, as the file is named")
        place = data["placement"]
        for role in place["roles"]:
            if role not in message["roles"]:
                raise SchemaError(f"{self.root}/{name}: message.json knows no role {role!r}")
        for container in place["containers"]:
            if container not in message["containers"]:
                raise SchemaError(f"{self.root}/{name}: message.json knows no container {container!r}")
        media = data.get("media")
        return ir.Block(
            type=kind,
            title=data["title"],
            summary=data["summary"],
            description=schema["description"],
            fields=self.fields(schema, skip="type"),
            roles=tuple(place["roles"]),
            containers=tuple(place["containers"]),
            schema=schema,
            media=media
            and ir.Media(
                media["data"],
                media["type"],
                media.get("aliases", {}),
                {kind: tuple((part[0], part[1]) for part in parts) for kind, parts in media.get("magic", {}).items()},
            ),
            text=data.get("text"),
            reasoning=data.get("reasoning"),
            call=data.get("call"),
            result=data.get("result"),
        )

    def fields(self, schema: dict[str, Any], skip: str) -> tuple[ir.Field, ...]:
        found = []
        for name, item in schema["properties"].items():
            if name == skip:
                continue
            types = item["type"] if isinstance(item["type"], list) else [item["type"]]
            ref = item.get("items", {}).get("$ref", "").removeprefix(REF)
            found.append(
                ir.Field(
                    name=name,
                    types=tuple(types),
                    required=name in schema["required"],
                    description=item["description"],
                    examples=tuple(item["examples"]),
                    default=item.get("default"),
                    container=self.unions.get(ref),
                    schema=item,
                )
            )
        return tuple(found)

    # --- formats ---

    def formats(self) -> tuple[tuple[ir.Format, ...], dict[str, str], dict[str, tuple[str, str]]]:
        formats: list[ir.Format] = []
        aliases: dict[str, str] = {}
        titles: dict[str, tuple[str, str]] = {}
        names = self.file("formats/index.json", "formats_index")["formats"]
        on_disk = {path.stem for path in (self.root / "formats").glob("*.json")} - {"index"}
        if on_disk != set(names):
            raise SchemaError(
                f"{self.root}/formats/index.json: lists {sorted(names)}, the folder holds {sorted(on_disk)}"
            )
        for name in names:
            data = self.file(f"formats/{name}.json", "format")
            titles[name] = (data["title"], data["description"])
            if "same_as" in data:
                aliases[name] = data["same_as"]
            else:
                formats.append(self.format(name, data))
        return tuple(formats), aliases, titles

    def format(self, name: str, data: dict[str, Any]) -> ir.Format:
        if unknown := [kind for kind in data["blocks"] if kind not in self.blocks]:
            raise SchemaError(f"{self.root}/formats/{name}.json: no set holds the block {unknown[0]!r}")
        if silent := [kind for kind in self.released if kind not in data["blocks"]]:
            raise SchemaError(
                f"{self.root}/formats/{name}.json: says nothing of the block {silent[0]!r}; "
                'give it a slot and a template, or {"raise": "a code"}'
            )
        ids = data["call_ids"]
        return ir.Format(
            name=name,
            title=data["title"],
            description=data["description"],
            payload=self.template(data["payload"], ir.Slot),
            request=self.template(data["request"], ir.Slot),
            system=ir.System(**data["system"]),
            join_turns=data["pairing"]["join_assistant_turns"],
            results=data["pairing"]["results"],
            call_ids=ir.CallIds(ids.get("pattern"), ids.get("max_length"), ids["unique_in"], ids.get("rewrite")),
            name_pattern=data["tool_names"]["pattern"],
            blank_turn=data["blank_text"]["turn"],
            blank_result=data["blank_text"]["result"],
            refuses=tuple(data["refuses"]),
            slots=tuple(ir.SlotRule(slot, **item) for slot, item in data["slots"].items()),
            order_lost=data.get("order_lost"),
            roles={role: cast(ir.Object, self.template(item, ir.Slot)) for role, item in data["roles"].items()},
            rules={kind: self.block_rule(name, self.blocks[kind], item) for kind, item in data["blocks"].items()},
            unsigned_calls=data.get("unsigned_calls"),
            exact_bytes=data.get("exact_bytes"),
        )

    def block_rule(self, name: str, block: ir.Block, data: dict[str, Any]) -> ir.BlockRule:
        refused = data.get("refused_in")
        codes = [item["code"] for item in data.get("lose", {}).values()]
        codes += [data["raise"]] if "raise" in data else []
        codes += [refused["code"]] if refused else []
        for code in codes:
            if code not in self.codes:
                raise SchemaError(f"{self.root}/formats/{name}.json: errors.json knows no code {code!r}")
        template = data.get("as", data.get("message"))
        return ir.BlockRule(
            block=block,
            slot=data.get("slot"),
            message=cast(ir.Object, self.template(data["message"])) if "message" in data else None,
            raises=data.get("raise"),
            template=None if template is None else self.template(template),
            losses=tuple(ir.FieldLoss(key, item["code"], item["when"]) for key, item in data.get("lose", {}).items()),
            media_types=tuple(data.get("media_types", ())),
            sniff=data.get("sniff", False),
            refused=refused
            and ir.Refusal(
                tuple(refused["roles"]),
                tuple(refused["containers"]),
                refused.get("failed_results", False),
                refused["code"],
            ),
        )

    def template(self, data: Any, named: type[ir.FieldRef] | type[ir.Slot] = ir.FieldRef) -> ir.Template:
        """Read a template: `$name` a field (or slot), `{"$operation": …}` an operation, all else itself."""
        if isinstance(data, str) and data.startswith("$"):
            return named(data[1:])
        if not isinstance(data, dict):
            return ir.Const(data)
        operation = next((key for key in data if key.startswith("$")), None)
        if operation is None:
            return ir.Object(
                tuple(
                    ir.Member(key.removesuffix("?"), self.template(value, named), key.endswith("?"))
                    for key, value in data.items()
                )
            )
        of = data[operation]
        match operation:
            case "$or":
                return ir.Or(of, data["with"], data["then"], data["else"])
            case "$json":
                return ir.JsonText(of)
            case "$data_url":
                return ir.DataUrl(*of)
            case "$map":
                return ir.Lookup(of, data["values"])
            case "$call":
                return ir.CallField(of)
            case "$texts":
                return ir.Texts(of, data["join"], data["joined"])
            case "$parts":
                return ir.Parts(of)
            case "$if":
                return ir.If(of, self.template(data["then"]), self.template(data["else"]))
        raise SchemaError(f"{self.root}/formats: unknown operation {operation!r}")

    # --- the rest ---

    def flatten(self) -> ir.Flatten:
        data = self.file("flatten.json", "flatten")
        if unknown := [kind for kind in data["blocks"] if kind not in self.blocks]:
            raise SchemaError(f"{self.root}/flatten.json: no set holds the block {unknown[0]!r}")
        if silent := [kind for kind in self.released if kind not in data["blocks"]]:
            raise SchemaError(f"{self.root}/flatten.json: says nothing of the block {silent[0]!r}")
        rules = {}
        for kind, item in data["blocks"].items():
            choice = item.get("text_if")
            rules[kind] = ir.FlattenRule(
                block=self.blocks[kind],
                as_is=item.get("as_is", False),
                text=item.get("text", ""),
                text_if=(choice["field"], choice["text"]) if choice else None,
                detail=item.get("detail"),
                then=item.get("then"),
            )
        return ir.Flatten(
            data["description"], data["verbatim_role"], data["header"]["text"], data["header"]["detail"], rules
        )

    def server_checks(self) -> tuple[ir.ServerCheck, ...]:
        found = tuple(ir.ServerCheck(**item) for item in self.file("server_checks.json", "server_checks")["checks"])
        names = [item.code for item in found]
        if twice := sorted({name for name in names if name in self.codes or names.count(name) > 1}):
            raise SchemaError(f"{self.root}/server_checks.json: the code {twice[0]!r} stands twice, or in errors.json")
        return found

    def rules(self) -> tuple[ir.Rule, ...]:
        found = []
        for item in self.file("rules.json", "rules")["rules"]:
            if item["code"] not in self.codes:
                raise SchemaError(f"{self.root}/rules.json: errors.json knows no code {item['code']!r}")
            found.append(
                ir.Rule(
                    item["code"],
                    item["severity"],
                    item["check"],
                    item["description"],
                    item.get("parameters", {}),
                    tuple(item.get("formats", ())),
                )
            )
        return tuple(found)

"""Conversations to test with, from the schema: one grammar, drawn by hypothesis or by a seeded generator.

`wild` conversations are anything that the schema takes. `tidy` ones look like an agent's transcript (calls,
then their results); with `spice` things go wrong in them now and then, as they do in real data.
A new block type needs no line here: its fields, its media and its places come from the schema.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeVar

from hypothesis import strategies as st

from codegen import ir, reader

T = TypeVar("T")
Wire = dict[str, Any]
Draw = Callable[[st.SearchStrategy[Any]], Any]

ROOT = Path(__file__).resolve().parents[1]


@cache
def spec() -> ir.Spec:
    return reader.read(ROOT / "schema")


# --- Where choices come from -------------------------------------------------------------------------------


class Source(Protocol):
    def pick(self, options: Sequence[T]) -> T: ...

    def number(self, low: int, high: int) -> int: ...

    def text(self) -> str: ...


class Seeded:
    """The same choices for the same seed, on any machine."""

    def __init__(self, seed: int | str) -> None:
        self.random = random.Random(seed)

    def pick(self, options: Sequence[T]) -> T:
        return self.random.choice(options)

    def number(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def text(self) -> str:
        return "".join(self.random.choice(LETTERS) for _ in range(self.random.randint(0, 12)))


class Drawn:
    """Choices that hypothesis draws, and shrinks towards the first and the smallest."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw

    def pick(self, options: Sequence[T]) -> T:
        chosen: T = self.draw(st.sampled_from(options))
        return chosen

    def number(self, low: int, high: int) -> int:
        drawn: int = self.draw(st.integers(low, high))
        return drawn

    def text(self) -> str:
        drawn: str = self.draw(st.text(st.characters(exclude_categories=("Cs",)), max_size=12))
        return drawn


# --- What makes trouble ------------------------------------------------------------------------------------

LETTERS = "abc xyz 019 .,:-_\n\té漢😀"
PLAIN_TEXTS = ("Hello.", "Where is it?", "Two lines\nof text", "über 漢字 😀", '{"status": "late"}')
BLANK_TEXTS = ("", " ", "\n\t", "\u00a0", "\u0085", "\u001c", "\u2003\u3000", "\u200b", "\ufeff", "\u180e")
ODD_TEXTS = (
    "ends in space ", "ends in NBSP\u00a0", "\u2028line\u2029", 'quo"te \\ back', "nul \x00 in it",
    "</think>", "[user]", "%s {0} {text}", "data:image/png;base64,AAAA", "\U0001f469\u200d\U0001f4bb",
    "e\u0301", "x" * 300,
)  # fmt: skip
PLAIN_IDS = ("call_1", "toolu_01", "call-2", "c3")
ODD_IDS = (
    "", "x" * 40, "y" * 41, "z" * 90, "a|b", "fc_1:2", "id with space", "call_0", "call_1_", "é", "😀" * 30,
    "a\n", '"quoted"', "-", "__",
)  # fmt: skip
PLAIN_NAMES = ("lookup_order", "bash", "read-file")
ODD_NAMES = (
    "", "get.weather", "ns:tool", "2fast", "-dash", "n" * 64, "n" * 65, "n" * 128, "n" * 129, "naïve", "a b",
    "a\n",
)  # fmt: skip
KEYS = (
    "path", "q", "a/b", "~", "type", "role", "detail", "ключ", "$ref", "__proto__", "0", "input", "text", "",
)  # fmt: skip
SCALARS = (
    "text", "", "é😀", "\x7f\u2028", 0, 1, -1, 2**53 + 1, 2**63, -(2**64), 10**30, True, False, None, 0.5,
    1.0, 1e16, 1e-7, -0.0, 5e-324, 1.7976931348623157e308, 0.1 + 0.2,
)  # fmt: skip

HEADS = {
    "image/png": b"\x89PNG\r\n\x1a\n" + bytes(8),
    "image/jpeg": b"\xff\xd8\xff\xe0\x00\x10JFIF",
    "image/gif": b"GIF89a\x01\x00\x01\x00",
    "image/webp": b"RIFF\x1a\x00\x00\x00WEBPVP8L",
}
GOOD_DATA = {kind: base64.b64encode(head).decode() for kind, head in HEADS.items()}
ODD_DATA = (
    "", "AAAA", "A", "AA", "AAA", "AA=", "AB==", "iVBORw0KGgo", "iVBO Rw0K\nGgo=", "-_-_", "+/+/", "!!!!",
    "AA==AA==", "====", "AAAA=", "data:image/png;base64,AAAA", "é", " ", "\u00a0AAAA", "+_+_", "=AAA",
    GOOD_DATA["image/png"].rstrip("="), GOOD_DATA["image/gif"].replace("+", "-").replace("/", "_"),
    GOOD_DATA["image/jpeg"] + "\r\n",
)  # fmt: skip
ODD_MEDIA = (
    "image/jpg", "IMAGE/PNG", "Image/Jpg", "image/heic", "image/heif", "image/svg+xml", "image/bmp",
    "video/mp4", "", "application/pdf", "image/png ", "image/PNG; charset=utf-8", "png",
)  # fmt: skip


# --- The grammar -------------------------------------------------------------------------------------------


class Grammar:
    """Draws conversations as wire dicts. `spice`: the chance in percent that a single value is an odd one."""

    def __init__(self, source: Source, *, spice: int = 15, block_set: str | None = None) -> None:
        self.source = source
        self.spice = spice
        self.spec = spec()
        self.set = self.spec.set(block_set) if block_set else self.spec.current
        self.ids: list[str] = []
        self.thinks = True

    def conversation(self) -> list[Wire]:
        return self.wild() if self.chance(30) else self.tidy()

    def wild(self) -> list[Wire]:
        roles = [role.name for role in self.spec.roles]
        return [self.message(self.source.pick(roles)) for _ in range(self.source.number(0, 6))]

    def message(self, role: str) -> Wire:
        kinds = self.set.in_role(role)
        return self.turn(role, [self.block(self.source.pick(kinds)) for _ in range(self.source.number(0, 4))])

    def tidy(self) -> list[Wire]:
        """System turns, then exchanges of a user text, assistant turns with calls, and their results."""
        self.thinks = self.chance(50)  # not every format takes reasoning
        leading = self.source.pick((0, 1, 1, 2))
        messages = [self.turn("system", self.prose("system", 1)) for _ in range(leading)]
        for _ in range(self.source.number(1, 3)):
            if not self.odd():
                messages.append(self.turn("user", self.prose("user", 2)))
            for _ in range(self.source.number(0, 2)):
                messages += self.tool_use()
            if not self.odd():
                messages += self.split(self.turn("assistant", self.thoughts() + self.prose("assistant", 1)))
        if not self.chance(20):
            messages.append(self.turn("user", self.prose("user", 1)))
        for role, blocks in ((self.role(), []), ("system", self.prose("system", 1))):
            if self.odd():
                messages.insert(self.source.number(0, len(messages)), self.turn(role, blocks))
        return messages

    # --- turns ---

    def turn(self, role: str, blocks: list[Wire]) -> Wire:
        message: Wire = {"role": role, "blocks": blocks}
        for field in self.spec.message_fields:
            if not field.required and self.odd():
                message[field.name] = self.value(field)
        return message

    def role(self) -> str:
        return self.source.pick([role.name for role in self.spec.roles])

    def prose(self, role: str, most: int) -> list[Wire]:
        """Blocks that are neither calls nor results nor reasoning: a text, sometimes media beside it."""
        content = [block for block in self.set.in_role(role) if "tool_result" in block.containers]
        blocks = [self.block(content[0]) for _ in range(self.source.number(1, most))]
        if (role == "user" and self.chance(20)) or self.odd():
            blocks.insert(self.source.number(0, len(blocks)), self.block(self.source.pick(content)))
        return blocks

    def thoughts(self) -> list[Wire]:
        """Blocks that only the assistant has, calls apart."""
        kinds = [b for b in self.set.in_role("assistant") if b.roles == ("assistant",) and b.call is None]
        count = self.source.pick((0, 0, 1, 2)) if kinds and self.thinks else 0
        return [self.block(self.source.pick(kinds)) for _ in range(count)]

    def tool_use(self) -> list[Wire]:
        """An assistant turn with calls and the user turn that answers them; none without calls."""
        call = next((block for block in self.set.blocks if block.call), None)
        result = next((block for block in self.set.blocks if block.result), None)
        if call is None or result is None:
            return []
        calls = [self.block(call) for _ in range(self.source.number(1, 3))]
        blocks = self.thoughts() + (self.prose("assistant", 1) if self.chance(40) else []) + calls
        if self.odd():
            blocks = self.shuffled(blocks)
        results = [self.block(result) for _ in calls]
        for one, answered in zip(results, calls, strict=True):
            one[result.result["call_id"]] = answered[call.call["id"]]  # type: ignore[index]
        if self.odd():
            results = self.shuffled(results)
        if self.odd():
            del results[self.source.number(0, len(results) - 1)]
        if self.odd():
            results.append(self.block(result))
        if self.chance(15) or self.odd():
            results += self.prose("user", 1)
        if self.odd():
            results = self.shuffled(results)
        return self.split(self.turn("assistant", blocks)) + self.split(self.turn("user", results))

    def split(self, turn: Wire) -> list[Wire]:
        """The turn, sometimes in two."""
        blocks = turn["blocks"]
        if len(blocks) < 2 or not self.odd():
            return [turn]
        cut = self.source.number(1, len(blocks) - 1)
        return [{**turn, "blocks": blocks[:cut]}, {**turn, "blocks": blocks[cut:]}]

    def shuffled(self, items: list[T]) -> list[T]:
        items = list(items)
        for last in range(len(items) - 1, 0, -1):
            other = self.source.number(0, last)
            items[last], items[other] = items[other], items[last]
        return items

    # --- blocks ---

    def block(self, block: ir.Block) -> Wire:
        wire: Wire = {"type": block.type}
        for field in block.fields:
            if field.required or self.chance(30) or self.odd():
                wire[field.name] = self.value(field, block)
        if block.media:
            self.media(wire, block.media)
        return wire if not self.odd() else dict(self.shuffled(list(wire.items())))

    def value(self, field: ir.Field, block: ir.Block | None = None) -> Any:
        if field.container:
            inside = self.set.in_container(field.container)
            if not self.odd():
                inside = inside[:1]
            return [self.block(self.source.pick(inside)) for _ in range(self.source.pick((1, 1, 1, 0, 2)))]
        if field.nullable and self.chance(15):
            return None
        if field.type == "boolean":
            return self.chance(25)
        if field.type == "object":
            return self.object(2)
        if block is not None and block.call and field.name == block.call["id"]:
            return self.new_id()
        if block is not None and block.result and field.name == block.result["call_id"]:
            return self.source.pick(self.ids) if self.ids and not self.odd() else self.new_id()
        if block is not None and block.call and field.name == block.call["name"]:
            return self.source.pick(ODD_NAMES if self.odd() else PLAIN_NAMES)
        return self.text()

    def new_id(self) -> str:
        if self.odd():
            found = self.source.pick((*ODD_IDS, *PLAIN_IDS, *self.ids))
        else:
            found = self.source.pick(PLAIN_IDS) if self.chance(self.spice) else f"id_{len(self.ids)}"
        self.ids.append(found)
        return found

    def text(self) -> str:
        if not self.odd():
            return self.source.pick(PLAIN_TEXTS)
        kind = self.source.number(0, 2)
        return self.source.text() if kind == 0 else self.source.pick((BLANK_TEXTS, ODD_TEXTS)[kind - 1])

    def media(self, wire: Wire, media: ir.Media) -> None:
        kind = self.source.pick([name for name in media.magic if name in GOOD_DATA] or list(GOOD_DATA))
        wire[media.data] = GOOD_DATA[kind]
        wire[media.type] = kind
        if self.odd():
            wire[media.data] = self.source.pick((*ODD_DATA, *GOOD_DATA.values()))
        if self.odd():
            wire[media.type] = self.source.pick((*ODD_MEDIA, *GOOD_DATA))

    def object(self, depth: int) -> Wire:
        return {self.source.pick(KEYS): self.json(depth) for _ in range(self.source.number(0, 3))}

    def json(self, depth: int) -> Any:
        kind = self.source.number(0, 5) if depth else 0
        if kind == 4:
            return self.object(depth - 1)
        if kind == 5:
            return [self.json(depth - 1) for _ in range(self.source.number(0, 3))]
        return self.text() if kind == 3 else self.source.pick(SCALARS)

    # --- chances ---

    def chance(self, percent: int) -> bool:
        return self.source.number(1, 100) > 100 - percent

    def odd(self) -> bool:
        return self.spice > 0 and self.chance(self.spice)


def seeded(seed: int, *, spice: int | None = None, block_set: str | None = None) -> list[Wire]:
    """The conversation of a seed: every second one almost clean, so that many convert."""
    level = spice if spice is not None else (2, 15, 5, 30)[seed % 4]
    return Grammar(Seeded(seed), spice=level, block_set=block_set).conversation()


@st.composite
def conversations(draw: Draw, spice: int | None = None, block_set: str | None = None) -> list[Wire]:
    level = draw(st.sampled_from((0, 3, 10, 25))) if spice is None else spice
    return Grammar(Drawn(draw), spice=level, block_set=block_set).conversation()


@st.composite
def wild_conversations(draw: Draw, block_set: str | None = None) -> list[Wire]:
    return Grammar(Drawn(draw), spice=25, block_set=block_set).wild()


@st.composite
def tidy_conversations(draw: Draw, spice: int = 0) -> list[Wire]:
    return Grammar(Drawn(draw), spice=spice).tidy()

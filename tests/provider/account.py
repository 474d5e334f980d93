"""Where did everything go? Accounts for each piece of a conversation in a payload and its losses.

Conversation and payload are both read as a list of units (a turn, or on openai a result of its own), each a
role and its pieces in order. A loss may excuse a difference, but only of its own kind and only at its place;
what no loss excuses must be there, once, in its order and in its unit. None of this knows how the converter
works: it only reads what came out.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

Wire = dict[str, Any]
Piece = tuple[Any, ...]  # kind and values, all of it what a reader of the payload could see
RANK = {"reasoning": 0, "text": 1, "image": 1, "tool_call": 2}
GIVEN_ID = re.compile(r"call_\d+_*")
NEW = "(an id that the conversation does not have)"


@dataclass
class Unit:
    role: str
    pieces: list[Piece] = field(default_factory=list)
    turn: str = ""  # where the conversation has it; units of one turn belong together


@dataclass
class Ledger:
    """The losses of a conversion, to be used up: what is left at the end excused nothing."""

    losses: dict[str, set[str]]  # code -> pointers
    used: set[tuple[str, str]] = field(default_factory=set)

    @classmethod
    def of(cls, losses: Iterable[Any]) -> Ledger:
        found: dict[str, set[str]] = {}
        for loss in losses:
            found.setdefault(loss.code, set()).add(loss.pointer)
        return cls(found)

    def takes(self, code: str, pointer: str) -> bool:
        """Whether there is such a loss; it counts as used."""
        there = pointer in self.losses.get(code, ())
        if there:
            self.used.add((code, pointer))
        return there

    def idle(self) -> list[tuple[str, str]]:
        known = {(code, pointer) for code, pointers in self.losses.items() for pointer in pointers}
        return sorted(known - self.used)


def account(format: str, conversation: list[Wire], payload: Any, losses: Iterable[Any]) -> list[str]:
    """Everything that is not where it should be; nothing when all of the conversation is accounted for."""
    ledger = Ledger.of(losses)
    reader = _Conversation("openai" if format == "openrouter" else format, ledger)
    expected = reader.units(conversation)
    found = _PAYLOADS[reader.format](payload, reader.kept)
    complaints = reader.complaints
    wanted = Counter(piece for unit in expected for piece in unit.pieces)
    there = Counter(piece for unit in found.units for piece in unit.pieces)
    complaints += [f"missing: {piece}" for piece in (wanted - there).elements()]
    complaints += [f"made up: {piece}" for piece in (there - wanted).elements()]
    if not complaints and _settled(expected, reader.moved) != _settled(found.units, reader.moved):
        complaints.append("pieces stand in another order, turn or role, and no loss says so")
    if reader.system != found.system:
        complaints.append(f"system: {found.system!r} for {reader.system!r}")
    complaints += _identities(reader, found)
    complaints += [f"no reason for the loss {code} at {pointer}" for code, pointer in ledger.idle()]
    return complaints


def _settled(units: list[Unit], moved: set[Piece]) -> list[tuple[str, list[Piece]]]:
    """The units without what a loss says has moved, and without units that are empty then."""
    left: list[Unit] = []
    for unit in units:
        pieces = [piece for piece in unit.pieces if piece not in moved]
        if pieces and left and unit.turn and unit.role != "tool" and _same_turn(unit, left[-1]):
            left[-1].pieces += pieces
        elif pieces:
            left.append(Unit(unit.role, pieces, unit.turn))
    return [(unit.role, unit.pieces) for unit in left]


def _same_turn(unit: Unit, other: Unit) -> bool:
    return (unit.turn, unit.role) == (other.turn, other.role)


def _identities(reader: _Conversation, found: _Payload) -> Iterator[str]:
    """Each result answers its own call, and a new id is one of those to be given."""
    pairs = [reader.pairs, found.pairs]
    if found.open:  # no place for ids, so that only the name tells the call
        pairs = [[(call[2:3], result) for call, result in each] for each in pairs]
    if Counter(pairs[0]) != Counter(pairs[1]):
        yield "a result answers another call than in the conversation"
    new = [identity for identity in found.ids if identity not in reader.kept]
    yield from (f"an id from nowhere: {identity!r}" for identity in new if not GIVEN_ID.fullmatch(identity))
    if len(set(new)) != len(new):
        yield "a new id is given twice"


# --- The conversation --------------------------------------------------------------------------------------


class _Conversation:
    def __init__(self, format: str, ledger: Ledger) -> None:
        self.format = format
        self.ledger = ledger
        self.complaints: list[str] = []
        self.moved: set[Piece] = set()
        self.pairs: list[tuple[Piece, Piece]] = []
        self.kept: set[str] = set()  # ids of calls
        self.system: str | None = None

    def units(self, conversation: list[Wire]) -> list[Unit]:
        turns = [(f"/{index}", turn) for index, turn in enumerate(conversation)]
        for pointer, turn in turns:
            self.detail(turn, pointer)
        turns = [turn for turn in turns if not self.empty(*turn)]
        if self.format != "openai":
            turns = self.hoist(turns)
        calls: list[list[tuple[str, Piece]]] = []  # of each turn: the calls that are not answered yet
        units: list[Unit] = []
        before: list[Wire] = []  # the blocks of the unit so far
        for pointer, turn in turns:
            role = turn["role"]
            joined = self.ledger.takes("turns_joined", pointer)
            if joined and not (units and units[-1].role == role):
                self.complaints.append(f"{pointer}: joined to a turn of another role")
                joined = False
            before = [*before] if joined else []
            unit = units[-1] if joined else Unit(role, turn=pointer)
            new = [] if joined else [unit]
            opened: list[tuple[str, Piece]] = []
            for at, block in _children(pointer, turn):
                self.order(at, block, before)
                for piece in self.block(at, role, block, before, calls):
                    if block["type"] == "tool_call":
                        opened.append((block["id"], piece))
                    if self.format == "openai" and block["type"] == "tool_result":
                        unit = Unit(role, turn=pointer)
                        new += [Unit("tool", [piece], pointer), unit]
                    else:
                        unit.pieces.append(piece)
                before.append(block)
            self.join_reasoning(unit)
            self.drop_nothing(unit)
            calls.append(opened)
            units += new
        return units

    def detail(self, owner: Wire, pointer: str) -> None:
        """Metadata goes nowhere: each object needs its loss."""
        if isinstance(owner.get("detail"), dict) and not self.ledger.takes("detail_dropped", f"{pointer}/detail"):
            self.complaints.append(f"{pointer}/detail is gone")
        for at, block in _children(pointer, owner):
            self.detail(block, at)

    def empty(self, pointer: str, turn: Wire) -> bool:
        if turn["blocks"]:
            return False
        if not self.ledger.takes("empty_turn_dropped", pointer):
            self.complaints.append(f"{pointer}: a turn without blocks")
        return True

    def hoist(self, turns: list[tuple[str, Wire]]) -> list[tuple[str, Wire]]:
        texts: list[str] = []
        while turns and turns[0][1]["role"] == "system":
            pointer, turn = turns.pop(0)
            for at, block in _children(pointer, turn):
                if block["type"] != "text":
                    self.complaints.append(f"{at}: hoisted, but no text")
                elif self.ledger.takes("blank_text_dropped", at):
                    self.complaints += [] if not block["text"].strip() else [f"{at}: dropped, but not blank"]
                else:
                    self.joint("system_joined", at, first=not texts)
                    texts.append(block["text"])
        self.system = "\n\n".join(texts) if texts else None
        return turns

    def joint(self, code: str, pointer: str, *, first: bool) -> None:
        if not first and not self.ledger.takes(code, pointer):
            self.complaints.append(f"{pointer}: joined to what stands before it, without {code}")

    def order(self, pointer: str, block: Wire, before: list[Wire]) -> None:
        if self.format != "openai" or block["type"] not in RANK:
            return
        behind = any(RANK.get(other["type"], 0) > RANK[block["type"]] for other in before)
        if behind != self.ledger.takes("order_lost", pointer):
            self.complaints.append(f"{pointer}: order_lost is {'missing' if behind else 'not true'}")

    def block(
        self, pointer: str, role: str, block: Wire, before: list[Wire], calls: list[list[tuple[str, Piece]]]
    ) -> Iterator[Piece]:
        kind = block["type"]
        if kind == "text":
            if not self.dropped_blank(pointer, block):
                yield self.placed(pointer, ("text", block["text"]))
        elif kind == "image":
            yield self.placed(pointer, self.image(pointer, block))
        elif kind == "reasoning":
            signature = block.get("signature") or ""
            if self.format == "openai":
                if signature and not self.ledger.takes("signature_dropped", f"{pointer}/signature"):
                    self.complaints.append(f"{pointer}/signature is gone")
                signature = ""
                first = all(other["type"] != "reasoning" for other in before)
                self.joint("reasoning_joined", pointer, first=first)
            yield self.placed(pointer, ("reasoning", block["text"], signature))
        elif kind == "tool_call":
            identity = self.identity(f"{pointer}/id", block["id"])
            yield self.placed(pointer, ("call", identity, block["name"], json.dumps(block["input"])))
        elif kind == "tool_result":
            call = _answered(block["tool_call_id"], calls)
            piece = self.result(pointer, block, call)
            if call is None:
                self.complaints.append(f"{pointer}: answers no call")
            else:
                self.pairs.append((call, piece))
            if self.ledger.takes("results_moved", pointer):
                self.moved.add(piece)
            yield piece

    def placed(self, pointer: str, piece: Piece) -> Piece:
        if ("order_lost", pointer) in self.ledger.used:
            self.moved.add(piece)
        return piece

    def dropped_blank(self, pointer: str, block: Wire) -> bool:
        if not self.ledger.takes("blank_text_dropped", pointer):
            return False
        if block["text"].strip():
            self.complaints.append(f"{pointer}: dropped, but not blank")
        return True

    def image(self, pointer: str, block: Wire) -> Piece:
        mime, data = block["mimeType"], block["data"]
        if self.ledger.takes("mime_normalized", f"{pointer}/mimeType"):
            mime = {"image/jpg": "image/jpeg"}.get(mime.lower(), mime.lower())
            self.changed(f"{pointer}/mimeType", mime, block["mimeType"])
        if self.ledger.takes("base64_normalized", f"{pointer}/data"):
            data = re.sub(r"[ \t\n\r\f\v]", "", data).replace("-", "+").replace("_", "/").rstrip("=")
            data += "=" * (-len(data) % 4)
            self.changed(f"{pointer}/data", data, block["data"])
        return ("image", mime, data)

    def changed(self, pointer: str, new: str, old: str) -> None:
        if new == old:
            self.complaints.append(f"{pointer}: said to be normalized, but was fine")

    def identity(self, pointer: str, identity: str) -> str:
        """The id by which the payload has the call: its own, or none that can be told."""
        if self.format == "google":
            if not self.ledger.takes("id_dropped", pointer):
                self.complaints.append(f"{pointer} is gone")
            return ""
        if self.ledger.takes("id_rewritten", pointer):
            return NEW
        self.kept.add(identity)
        return identity

    def result(self, pointer: str, block: Wire, call: Piece | None) -> Piece:
        at = f"{pointer}/tool_call_id"
        identity = self.identity(at, block["tool_call_id"])
        if call is not None and call[1] != identity:
            self.complaints.append(f"{at}: whether the id is new is told otherwise at the call")
        failed = block.get("is_error", False)
        inner: list[Piece] = []
        for at, part in _children(pointer, block):
            if part["type"] == "image":
                inner.append(self.image(at, part))
            elif not self.dropped_blank(at, part):
                if self.format != "anthropic":
                    self.joint("texts_joined", at, first=not inner)
                inner.append(("text", part["text"]))
        if self.format == "openai" and failed:
            if not self.ledger.takes("error_flag_dropped", f"{pointer}/is_error"):
                self.complaints.append(f"{pointer}/is_error is gone")
            failed = False
        if self.format == "anthropic":
            return ("result", identity, failed, tuple(inner))
        return ("result", identity, failed, "\n".join(str(part[1]) for part in inner))

    def drop_nothing(self, unit: Unit) -> None:
        """A single "" beside reasoning alone cannot be told from no text on openai."""
        kinds = [piece[0] for piece in unit.pieces]
        if self.format == "openai" and "reasoning" in kinds and "call" not in kinds and len(kinds) == 2:
            unit.pieces = [piece for piece in unit.pieces if piece != ("text", "")]

    def join_reasoning(self, unit: Unit) -> None:
        """On openai the reasoning of a turn is one text, where its first piece is."""
        pieces = [piece for piece in unit.pieces if piece[0] == "reasoning"]
        if self.format != "openai" or len(pieces) < 2:
            return
        whole: Piece = ("reasoning", "\n\n".join(piece[1] for piece in pieces), "")
        if pieces[0] in self.moved:
            self.moved.add(whole)
        unit.pieces[unit.pieces.index(pieces[0])] = whole
        rest = pieces[1:]
        unit.pieces = [piece for piece in unit.pieces if piece is whole or not _among(piece, rest)]


def _says_nothing(reasoning: Any, calls: Any) -> bool:
    """Whether openai's content is "" for want of any: null is refused beside reasoning alone."""
    return reasoning is not None and not calls


def _among(piece: Piece, pieces: list[Piece]) -> bool:
    return any(piece is other for other in pieces)


def _answered(identity: str, calls: list[list[tuple[str, Piece]]]) -> Piece | None:
    """Take the first open call of that id in the nearest turn that has one."""
    for opened in reversed(calls):
        for index, (known, piece) in enumerate(opened):
            if known == identity:
                del opened[index]
                return piece
    return None


def _children(pointer: str, owner: Wire) -> list[tuple[str, Wire]]:
    return [(f"{pointer}/blocks/{index}", block) for index, block in enumerate(owner.get("blocks", []))]


# --- The payloads ------------------------------------------------------------------------------------------


class _Payload:
    def __init__(self, kept: set[str], system: str | None = None) -> None:
        self.kept = kept
        self.system = system
        self.units: list[Unit] = []
        self.pairs: list[tuple[Piece, Piece]] = []
        self.ids: list[str] = []
        self.open = False  # whether some calls of a turn are answered and some are not

    def call(self, identity: str, name: str, text: str) -> Piece:
        self.ids.append(identity)
        return ("call", self.known(identity), name, text)

    def known(self, identity: str) -> str:
        return identity if identity in self.kept else NEW

    def pair(self, calls: list[tuple[str, Piece]], identity: str, result: Piece) -> None:
        """By id, with the calls of the turn before."""
        self.pairs += [(call, result) for known, call in calls if known == identity]


def _openai(payload: list[Wire], kept: set[str]) -> _Payload:
    found = _Payload(kept)
    calls: list[tuple[str, Piece]] = []
    for message in payload:
        unit = Unit(message["role"])
        if message["role"] == "tool":
            piece: Piece = ("result", found.known(message["tool_call_id"]), False, message["content"])
            unit.pieces.append(piece)
            found.pair(calls, message["tool_call_id"], piece)
        else:
            if "reasoning_content" in message:
                unit.pieces.append(("reasoning", message["reasoning_content"], ""))
            unit.pieces += _openai_content(message)
            calls = []
            for call in message.get("tool_calls", []):
                function = call["function"]
                piece = found.call(call["id"], function["name"], _same_text(function["arguments"]))
                calls.append((call["id"], piece))
                unit.pieces.append(piece)
        found.units.append(unit)
    return found


def _openai_content(message: Wire) -> Iterator[Piece]:
    content = message["content"]
    if isinstance(content, str):
        if content or not _says_nothing(message.get("reasoning_content"), message.get("tool_calls")):
            yield ("text", content)
        return
    for part in content or []:
        if part["type"] == "text":
            yield ("text", part["text"])
        else:
            mime, _, data = part["image_url"]["url"].removeprefix("data:").partition(";base64,")
            yield ("image", mime, data)


def _same_text(arguments: str) -> str:
    """The text itself, after seeing that it is what a reader gets from it."""
    again = json.dumps(json.loads(arguments))
    return again if again != arguments else arguments


def _anthropic(payload: Wire, kept: set[str]) -> _Payload:
    found = _Payload(kept, payload["system"])
    calls: list[tuple[str, Piece]] = []
    role = ""
    for message in payload["messages"]:
        if message["role"] == "assistant" and role != "assistant":
            calls = []  # turns of one role count as one
        role = message["role"]
        unit = Unit(role)
        for block in message["content"]:
            if block["type"] == "thinking":
                piece: Piece = ("reasoning", block["thinking"], block.get("signature", ""))
            elif block["type"] == "tool_use":
                piece = found.call(block["id"], block["name"], json.dumps(block["input"]))
                calls.append((block["id"], piece))
            elif block["type"] == "tool_result":
                inner = tuple(_anthropic_part(part) for part in block["content"])
                piece = ("result", found.known(block["tool_use_id"]), block.get("is_error", False), inner)
                found.pair(calls, block["tool_use_id"], piece)
            else:
                piece = _anthropic_part(block)
            unit.pieces.append(piece)
        found.units.append(unit)
    return found


def _anthropic_part(block: Wire) -> Piece:
    if block["type"] == "text":
        return ("text", block["text"])
    return ("image", block["source"]["media_type"], block["source"]["data"])


def _google(payload: Wire, kept: set[str]) -> _Payload:
    found = _Payload(kept, payload["system_instruction"])
    calls: list[Piece] = []
    for content in payload["contents"]:
        unit = Unit("assistant" if content["role"] == "model" else content["role"])
        asked, calls = calls, []
        some = len(asked) > sum("function_response" in part for part in content["parts"])
        for part in content["parts"]:
            if "text" in part:
                piece: Piece = ("text", part["text"])
            elif "inline_data" in part:
                piece = ("image", part["inline_data"]["mime_type"], part["inline_data"]["data"])
            elif "function_call" in part:
                call = part["function_call"]
                piece = ("call", "", call["name"], json.dumps(call["args"]))
                calls.append(piece)
            else:
                answer = part["function_response"]
                ((key, text),) = answer["response"].items()
                piece = ("result", "", key == "error", text)
                # By position, which says nothing while some calls are open: by name alone then.
                named = [index for index, call in enumerate(asked) if call[2] == answer["name"]]
                if named and (some or named[0] == 0):
                    found.pairs.append((asked.pop(named[0]), piece))
            unit.pieces.append(piece)
        found.open |= some
        found.units.append(unit)
    return found


_PAYLOADS = {"openai": _openai, "anthropic": _anthropic, "google": _google}

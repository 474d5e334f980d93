"""The rules layer: one function of straight-line Python for the general rules, and one for each format's own.

Each function makes one pass over the messages. A check adds its lines where they belong: at every turn, at an
empty one, where a run ends or begins, at a block, or at the end. What is longer than a few lines (pairing,
media, walks through free values) is a helper in the template.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from ..checks import CHECKS, PURPOSES, checked, kind_blocks
from ..ir import Block, Field, Rule, Spec
from .common import HEADER, PACKAGE, template

Lines = list[str]


def emit(spec: Spec) -> dict[str, str]:
    rules = checked(spec)
    constants = _constants(rules)
    functions = [Function(spec, constants, "general", [rule for rule in rules if not rule.formats])]
    for fmt in spec.formats:
        names = {name for name in spec.format_titles if spec.aliases.get(name, name) == fmt.name}
        for rule in rules:
            if 0 < len(names & set(rule.formats)) < len(names):
                raise ValueError(f"rules.json: {rule.code}: {sorted(names)} are one format; name all of them or none")
        functions.append(
            Function(spec, constants, _identifier(fmt.name), [rule for rule in rules if fmt.name in rule.formats])
        )
    kept = [fmt.call_ids for fmt in spec.formats if fmt.call_ids.kept]
    text = template(
        "python/rules.py.j2",
        header=HEADER,
        spec=spec,
        constants={name: _constant(rule) for name, rule in constants.items()},
        functions=functions,
        formats={name: _identifier(spec.aliases.get(name, name)) for name in spec.format_titles},
        id_patterns=tuple(sorted({ids.pattern for ids in kept if ids.pattern is not None})),
        id_length=min((ids.max_length for ids in kept if ids.max_length is not None), default=None),
        name_patterns=tuple(sorted({fmt.name_pattern for fmt in spec.formats})),
        media=kind_blocks(spec, "media"),
        **{kind: kind_blocks(spec, kind)[0] for kind in ("text", "call", "result")},
    )
    return {f"{PACKAGE}/rules.py": text}


def _constants(rules: Iterable[Rule]) -> dict[str, Rule]:
    """A constant for each rule, named by its code; a second rule of a code gets a number."""
    constants: dict[str, Rule] = {}
    for rule in rules:
        name, number = rule.code.upper(), 2
        while name in constants:
            name, number = f"{rule.code.upper()}_{number}", number + 1
        constants[name] = rule
    return constants


def _identifier(name: str) -> str:
    return name.replace("-", "_")


def _constant(rule: Rule) -> str:
    purposes = tuple(rule.parameters.get("purposes", PURPOSES))
    return f"Rule({rule.code!r}, {rule.severity!r}, {rule.description!r}, {purposes!r})"


class Function:
    """The parts of one generated function, as lines without the indentation of their place."""

    def __init__(self, spec: Spec, constants: dict[str, Rule], name: str, rules: list[Rule]) -> None:
        self.spec = spec
        self.name = name
        self.constants = {id(rule): constant for constant, rule in constants.items()}
        self.text, self.call, self.result = (kind_blocks(spec, kind)[0] for kind in ("text", "call", "result"))
        self.roles = {role.name: role.title for role in spec.roles}
        self.asking = self.roles[self.call.roles[0]]
        self.answering = self.roles[self.result.roles[0]]
        self.state: Lines = []  # variables
        self.message: Lines = []  # every turn, also an empty one
        self.empty: Lines = []  # a turn without blocks
        self.over: Lines = []  # a run ends: its role is `speaker`, its turns are `start` to `last`
        self.change: Lines = []  # a run begins: its role is `role`
        self.turn: Lines = []  # a turn with blocks
        self.late_turn: Lines = []  # the same, behind all of those
        self.blocks: dict[tuple[str, str], Lines] = {}  # (place, type): a block
        self.late_blocks: dict[tuple[str, str], Lines] = {}
        self.pairs: dict[str, str] = {}  # check: what tells it, for what `paired` finds
        self.end: Lines = []
        self.walks: dict[tuple[str, str], list[tuple[int | None, Lines]]] = {}  # see `walk`
        for rule in rules:
            _ADD[rule.check](self, rule)
        for (kind, name), wanted in self.walks.items():
            self._add_walk(next(item for item in spec.blocks if item.type == kind), name, wanted)

    # --- state that several checks share ---

    def keep(self, state: str) -> bool:
        """Add a variable; whether it is new, so that the caller adds what keeps it."""
        new = state not in self.state
        if new:
            self.state.append(state)
        return new

    def keep_speaker(self) -> None:
        self.keep("speaker: Any = None  # the role of the run")

    def keep_start(self) -> None:
        self.keep_speaker()
        if self.keep("start = -1  # the first turn of the run"):
            self.change.append("start = turn")

    def keep_last(self) -> None:
        if self.keep("last = -1  # the last turn with blocks"):
            self.late_turn.append("last = turn")

    def keep_tail(self) -> None:
        if self.keep("tail: Any = None  # the type of the last block of the turn before"):
            self.late_turn.append("tail = type(blocks[-1])")

    def keep_holds(self, kind: str) -> str:
        """The variable that says whether the run holds a block of this kind, up to the block before."""
        self.keep_speaker()
        name = f"holds_{kind}"
        if self.keep(f"{name} = False  # whether the run holds one"):
            self.change.append(f"{name} = False")
            for item in kind_blocks(self.spec, kind):
                self.late_blocks.setdefault(("turns", item.type), []).append(f"{name} = True")
        return name

    def keep_content(self, item: Block) -> None:
        """`content`: the bytes of a media block."""
        assert item.media
        line = f"content = decoded(BLOCK.{item.media.data})"
        if not any(
            "content = decoded(" in other
            for other in self.blocks.get((("turns" if item.roles else "results"), item.type), [])
        ):
            self.block(item, line)

    def pair(self, rule: Rule) -> None:
        """`tidy`: all calls are answered at once, in order and in one turn. Elsewhere `paired` looks closely."""
        self.keep_speaker()
        call, result = self.call.call or {}, self.result.result or {}
        if self.keep("tidy = True  # whether all calls are answered at once, in order and in one turn"):
            self.state += [
                "asked: list[str] = []  # the ids of the calls of the last run",
                "answered = 0  # how many of them have their result",
                "home = -1  # the turn where results belong",
            ]
            self.change += [
                f"if role is {self.answering}:",
                "    home = turn",
                "else:",
                "    tidy = tidy and answered == len(asked)",
                "    asked, answered = [], 0",
            ]
            self.block(
                self.call,
                f"tidy = tidy and BLOCK.{call['id']} not in asked",
                f"asked.append(BLOCK.{call['id']})",
            )
            self.block(
                self.result,
                f"if turn == home and answered < len(asked) and asked[answered] == BLOCK.{result['call_id']}:",
                "    answered += 1",
                "else:",
                "    tidy = False",
            )
        self.pairs[rule.check] = self.tell(rule, "*path", "note")

    # --- lines ---

    def block(self, item: Block, *lines: str, place: str | None = None) -> None:
        """Add lines for a block wherever it may stand, or only in `turns` or `results`; fills in BLOCK and PATH."""
        content = (self.result.result or {})["content"]
        for name, variable, path, allowed in (
            ("turns", "block", 'turn, "blocks", place', item.roles),
            ("results", "inner", f'turn, "blocks", place, "{content}", spot', item.containers),
        ):
            if allowed and place in (None, name):
                filled = [line.replace("BLOCK", variable).replace("PATH", path) for line in lines]
                self.blocks.setdefault((name, item.type), []).extend(filled)

    def walk(self, item: Block, name: str, lines: Lines, limit: int | None = None) -> None:
        """Add lines for a field with any JSON, where it has half characters or an integer beyond the limit."""
        self.walks.setdefault((item.type, name), []).append((limit, lines))

    def _add_walk(self, item: Block, name: str, wanted: list[tuple[int | None, Lines]]) -> None:
        limits = [limit for limit, _ in wanted if limit is not None]
        test = f"plain(BLOCK.{name}, {min(limits)})" if limits else f"clean(BLOCK.{name})"
        there = f"BLOCK.{name} is not None and " if item.field(name).nullable else ""
        self.block(item, f"if {there}not {test}:", *("    " + line for _, lines in wanted for line in lines))

    def tell(self, rule: Rule, path: str, note: str = '""', allowed: str = "()") -> str:
        place = f"({path})" if path == "" or "," in path or path == "PATH" else f"({path},)"
        if path.startswith("*"):
            place = path[1:]
        return f"found.append(({self.constants[id(rule)]}, {place}, {note}, {allowed}))"

    def tell_if(self, test: str, rule: Rule, path: str, note: str = '""', allowed: str = "()") -> Lines:
        return [f"if {test}:", "    " + self.tell(rule, path, note, allowed)]

    def kinds(self, rule: Rule, parameter: str = "of") -> tuple[Block, ...]:
        return kind_blocks(self.spec, rule.parameters[parameter])

    # --- what the template asks ---

    def branches(self, place: str) -> list[tuple[str, Lines, bool]]:
        """(condition, lines, whether to look inside) for each block that is looked at in a place."""
        found: list[tuple[str, Lines, bool]] = []
        for item in self.spec.current.blocks:
            key = (place, item.type)
            lines = [*self.blocks.get(key, []), *self.late_blocks.get(key, [])]
            inside = place == "turns" and item is self.result and bool(self.branches("results"))
            condition = f"kind is {item.title}"
            if not inside and lines and lines[0].startswith("if ") and all(line[0] == " " for line in lines[1:]):
                test = lines[0].removeprefix("if ").removesuffix(":")
                condition += f" and ({test})" if " or " in test else f" and {test}"
                lines = [line.removeprefix("    ") for line in lines[1:]]
            if lines or inside:
                found.append((condition, lines, inside))
        return found

    def names_role(self) -> bool:
        """Whether some line asks for the role of the turn."""
        parts = [self.over, self.change, self.turn, self.late_turn, *self.blocks.values()]
        return bool(self.change) or any(re.search(r"\brole\b", line) for lines in parts for line in lines)


Add = Callable[[Function, Rule], None]
_ADD: dict[str, Add] = {}


def _check(name: str) -> Callable[[Add], Add]:
    assert name in CHECKS, name

    def register(add: Add) -> Add:
        _ADD[name] = add
        return add

    return register


def _of_type(value: str, blocks: Iterable[Block], negated: bool = False) -> str:
    """The test that a value is (or is not) one of these blocks."""
    titles = [item.title for item in blocks]
    if len(titles) == 1:
        return f"type({value}) {'is not' if negated else 'is'} {titles[0]}"
    return f"type({value}) {'not in' if negated else 'in'} ({', '.join(titles)})"


def _text_field(item: Block) -> str:
    return (item.text or item.reasoning or {})["text"]


# --- Values ------------------------------------------------------------------------------------------------


@_check("not_base64")
def _not_base64(f: Function, rule: Rule) -> None:
    for item in kind_blocks(f.spec, "media"):
        assert item.media
        data = item.media.data
        f.keep_content(item)
        f.block(item, *f.tell_if("not content", rule, f'PATH, "{data}"', f"excerpt(BLOCK.{data})"))


@_check("other_media")
def _other_media(f: Function, rule: Rule) -> None:
    for item in kind_blocks(f.spec, "media"):
        assert item.media
        kind, tables = item.media.type, f"{item.type.upper()}_MAGIC, {item.type.upper()}_ALIASES"
        f.keep_content(item)
        f.block(
            item,
            f"if seen := other_media(content, BLOCK.{kind}, {tables}):",
            "    " + f.tell(rule, f'PATH, "{kind}"', f"excerpt(BLOCK.{kind})", "(seen,)"),
        )


@_check("half_surrogate")
def _half_surrogate(f: Function, rule: Rule) -> None:
    def text(item: Field, owner: str, path: str) -> Lines:
        value = f"{owner}.{item.name}"
        there = f"{value} is not None and " if item.nullable else ""
        return f.tell_if(f"{there}not ({value}.isascii() or encodable({value}))", rule, f'{path}, "{item.name}"')

    def inside(item: Field, owner: str, path: str) -> Lines:
        return [f'for odd in halves({owner}.{item.name}, ({path}, "{item.name}")):', "    " + f.tell(rule, "*odd")]

    for part in f.spec.message_fields:
        if part.type == "string":
            f.message += text(part, "message", "turn")
        elif part.type == "object":
            value = f"message.{part.name}"
            f.message.append(f"if {value} is not None and not clean({value}):")
            f.message += ["    " + line for line in inside(part, "message", "turn")]
    for block in f.spec.current.blocks:
        for part in block.fields:
            if part.type == "string":
                f.block(block, *text(part, "BLOCK", "PATH"))
            elif part.type == "object":
                f.walk(block, part.name, inside(part, "BLOCK", "PATH"))


@_check("integer_beyond")
def _integer_beyond(f: Function, rule: Rule) -> None:
    name, limit = (f.call.call or {})["input"], rule.parameters["limit"]
    lines = [f'for odd, number in integers(BLOCK.{name}, (PATH, "{name}"), {limit}):']
    f.walk(f.call, name, [*lines, "    " + f.tell(rule, "*odd", "number")], limit)


@_check("id_unportable")
def _id_unportable(f: Function, rule: Rule) -> None:
    name = (f.call.call or {})["id"]
    f.block(
        f.call,
        *f.tell_if(f"not portable_id(BLOCK.{name})", rule, f'PATH, "{name}"', f"excerpt(BLOCK.{name})", "ID_PATTERNS"),
    )


@_check("name_unportable")
def _name_unportable(f: Function, rule: Rule) -> None:
    name = (f.call.call or {})["name"]
    f.block(
        f.call,
        *f.tell_if(
            f"not portable_name(BLOCK.{name})",
            rule,
            f'PATH, "{name}"',
            f"excerpt(BLOCK.{name})",
            "NAME_PATTERNS",
        ),
    )


@_check("id_again")
def _id_again(f: Function, rule: Rule) -> None:
    name = (f.call.call or {})["id"]
    f.keep("ids: set[str] = set()")
    told = f.tell_if(f"BLOCK.{name} in ids", rule, f'PATH, "{name}"', f"excerpt(BLOCK.{name})")
    f.block(f.call, *told, f"ids.add(BLOCK.{name})")


@_check("blank")
def _blank(f: Function, rule: Rule) -> None:
    for item in f.kinds(rule):
        test = f"not BLOCK.{_text_field(item)} or BLOCK.{_text_field(item)}.isspace()"
        f.block(item, *f.tell_if(test, rule, "PATH"), place=rule.parameters["in"])


@_check("white_space")
def _white_space(f: Function, rule: Rule) -> None:
    for item in f.kinds(rule):
        f.block(
            item,
            *f.tell_if(f"BLOCK.{_text_field(item)}.isspace()", rule, "PATH"),
            place=rule.parameters["in"],
        )


@_check("unsigned")
def _unsigned(f: Function, rule: Rule) -> None:
    for item in kind_blocks(f.spec, "reasoning"):
        f.block(item, *f.tell_if(f"not BLOCK.{(item.reasoning or {})['signature']}", rule, "PATH"))


@_check("failure_empty")
def _failure_empty(f: Function, rule: Rule) -> None:
    names = f.result.result or {}
    f.block(f.result, *f.tell_if(f"BLOCK.{names['failed']} and not BLOCK.{names['content']}", rule, "PATH"))


@_check("in_role")
def _in_role(f: Function, rule: Rule) -> None:
    for item in f.kinds(rule):
        test = f"role is {f.roles[rule.parameters['role']]}"
        f.block(item, *f.tell_if(test, rule, "PATH"), place="turns")


# --- Turns -------------------------------------------------------------------------------------------------


@_check("no_turn")
def _no_turn(f: Function, rule: Rule) -> None:
    f.end += f.tell_if("not any(message.blocks for message in messages)", rule, "")


@_check("turn_empty")
def _turn_empty(f: Function, rule: Rule) -> None:
    f.empty.append(f.tell(rule, "turn"))


@_check("turn_later")
def _turn_later(f: Function, rule: Rule) -> None:
    role = f.roles[rule.parameters["role"]]
    f.keep(state := f"before_{rule.parameters['role']} = True  # whether all turns so far have this role")
    name = state.split()[0]
    f.turn += [
        f"if role is not {role}:",
        f"    {name} = False",
        f"elif not {name}:",
        "    " + f.tell(rule, "turn"),
    ]


@_check("turn_first")
def _turn_first(f: Function, rule: Rule) -> None:
    if f.keep("started = False  # whether a turn came that is no system turn"):
        f.late_turn.append(f"started = started or role is not {f.roles['system']}")
    f.turn += f.tell_if(f"not started and role is {f.roles[rule.parameters['role']]}", rule, "turn")


@_check("turn_last")
def _turn_last(f: Function, rule: Rule) -> None:
    f.keep_last()
    test = f"speaker is {f.roles[rule.parameters['role']]} and not {f.keep_holds('call')}"
    f.end += f.tell_if(test, rule, "last")


@_check("nothing_but")
def _nothing_but(f: Function, rule: Rule) -> None:
    titles = ", ".join(item.title for item in f.kinds(rule))
    f.turn += f.tell_if(f"nothing_but(blocks, ({titles},))", rule, "turn")


# --- Runs of assistant turns -------------------------------------------------------------------------------


@_check("run_ends")
def _run_ends(f: Function, rule: Rule) -> None:
    f.keep_start()
    f.keep_last()
    f.keep_tail()
    tests = [f"speaker is {f.asking}"]
    if "beside" in rule.parameters:
        tests.append(f.keep_holds(rule.parameters["beside"]))
    titles = sorted({item.title for item in (f.text, *f.kinds(rule))})
    tests.append(f"tail in ({', '.join(titles)})" if len(titles) > 1 else f"tail is {titles[0]}")
    tests.append("(ending := edge(messages, range(last, start - 1, -1), -1))")
    tests.append(_of_type("ending[0]", f.kinds(rule)))
    f.over += f.tell_if(" and ".join(tests), rule, "*ending[1]")


@_check("run_starts_otherwise")
def _run_starts_otherwise(f: Function, rule: Rule) -> None:
    f.keep_start()
    f.keep_last()
    tests = [f"speaker is {f.asking}", *(f.keep_holds(rule.parameters[name]) for name in ("of", "beside"))]
    tests.append("(beginning := edge(messages, range(start, last + 1), 1))")
    tests.append(_of_type("beginning[0]", f.kinds(rule), negated=True))
    f.over += f.tell_if(" and ".join(tests), rule, "*beginning[1]")


# --- Calls and results -------------------------------------------------------------------------------------

for _name in ("call_unanswered", "call_open", "result_unasked", "results_disordered", "results_scattered"):
    _check(_name)(Function.pair)


@_check("results_mixed")
def _results_mixed(f: Function, rule: Rule) -> None:
    called = f.keep_holds("call")
    f.keep("mixed = -1  # the turn that answers calls and holds something else")
    f.change.insert(0, f"mixed = turn if {called} and role is {f.answering} and more_than_results(blocks) else -1")
    f.block(f.result, "if mixed >= 0:", "    " + f.tell(rule, "mixed"), "    mixed = -1")


@_check("call_current")
def _call_current(f: Function, rule: Rule) -> None:
    f.keep("current: list[Path] = []")
    f.turn += [f"if role is {f.answering} and more_than_results(blocks):", "    current = []"]
    f.block(f.call, f"if not {f.keep_holds('call')}:", "    current.append((PATH))")
    f.end += ["for path in current:", "    " + f.tell(rule, "*path")]


assert _ADD.keys() == CHECKS.keys()

"""The rules layer: one function of straight-line Python for the general rules, and one for each format's own.

Every function makes one pass over the messages. What a check becomes stands here, one place for each check;
what they share (pairing, media, walks through free values) is in the template.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..checks import CHECKS, checked, kind_blocks
from ..ir import Block, Rule, Spec
from .common import HEADER, PACKAGE, template

Lines = list[str]

PAIRED = ("call_unanswered", "call_open", "result_unasked", "results_disordered", "results_scattered")
RUNS = ("run_starts_otherwise", "run_ends")
ENDS = ("turn_last", *RUNS)


def emit(spec: Spec) -> dict[str, str]:
    rules = checked(spec)
    names = _names(rules)
    functions = [_Function(spec, names, "general", [rule for rule in rules if not rule.formats])]
    for fmt in spec.formats:
        own = [name for name in spec.format_titles if spec.aliases.get(name, name) == fmt.name]
        for rule in rules:
            if len(here := set(own) & set(rule.formats)) not in (0, len(own)):
                raise ValueError(f"rules.json: {rule.code}: {own} are one format, but only {sorted(here)} are named")
        functions.append(_Function(spec, names, f"for_{fmt.name}", [rule for rule in rules if fmt.name in rule.formats]))
    text = template(
        "python/rules.py.j2",
        header=HEADER,
        spec=spec,
        names=names,
        functions=functions,
        formats={name: f"for_{spec.aliases.get(name, name)}" for name in spec.format_titles},
        ids=_ids(spec),
        name_patterns=sorted({fmt.name_pattern for fmt in spec.formats}),
        media=kind_blocks(spec, "media"),
        text=kind_blocks(spec, "text")[0],
        call=kind_blocks(spec, "call")[0],
        result=kind_blocks(spec, "result")[0],
    )
    return {f"{PACKAGE}/rules.py": text}


def _names(rules: Iterable[Rule]) -> dict[int, tuple[str, Rule]]:
    """id(rule) -> the constant that stands for it, and the rule."""
    names: dict[str, Rule] = {}
    for rule in rules:
        name, number = rule.code.upper(), 2
        while name in names:
            name, number = f"{rule.code.upper()}_{number}", number + 1
        names[name] = rule
    return {id(rule): (name, rule) for name, rule in names.items()}


def _ids(spec: Spec) -> dict[str, object]:
    """What every format that keeps call ids asks of them: patterns, and the smallest greatest length."""
    kept = [fmt.call_ids for fmt in spec.formats if fmt.call_ids.kept]
    return {
        "patterns": sorted({ids.pattern for ids in kept if ids.pattern is not None}),
        "max_length": min((ids.max_length for ids in kept if ids.max_length is not None), default=None),
    }


def _indent(lines: Iterable[str]) -> Lines:
    return ["    " + line for line in lines]


def _is(value: str, blocks: Iterable[Block]) -> str:
    """The test that a type is that of one of these blocks."""
    titles = [block.title for block in blocks]
    return f"{value} is {titles[0]}" if len(titles) == 1 else f"{value} in ({', '.join(titles)})"


class _Function:
    """The parts of one function, as the template wants them: lists of lines without indentation."""

    def __init__(self, spec: Spec, names: dict[int, tuple[str, Rule]], name: str, rules: list[Rule]) -> None:
        self.spec = spec
        self.names = names
        self.name = name
        self.rules = rules
        self.text = kind_blocks(spec, "text")[0]
        self.call = kind_blocks(spec, "call")[0]
        self.result = kind_blocks(spec, "result")[0]
        self.roles = {role.name: role.title for role in spec.roles}
        self.asking = self.roles[self.call.roles[0]]  # whose turns hold calls
        self.answering = self.roles[self.result.roles[0]]  # whose turns hold results
        assert set(self.checks()) <= set(CHECKS)

    def checks(self) -> list[str]:
        return [rule.check for rule in self.rules]

    def of(self, *checks: str) -> list[Rule]:
        return [rule for rule in self.rules if rule.check in checks]

    def uses(self, *checks: str) -> bool:
        return bool(self.of(*checks))

    # --- pieces of code ---

    def tell(self, rule: Rule, path: str, note: str = '""') -> str:
        return f"found.append(({self.names[id(rule)][0]}, ({path}), {note}))"

    def when(self, rule: Rule, *tests: str) -> str:
        """An `if` with the tests, and with the purpose where the rule names one."""
        purposes = rule.parameters.get("purposes", ["request", "training"])
        wanted = {("request",): ["request"], ("training",): ["not request"]}.get(tuple(purposes), [])
        return f"if {' and '.join([*wanted, *tests]) or 'True'}:"

    def kinds(self, rule: Rule, parameter: str = "of") -> tuple[Block, ...]:
        return kind_blocks(self.spec, rule.parameters[parameter])

    # --- before the turns ---

    def state(self) -> Lines:
        lines = []
        if self.uses("id_again"):
            lines.append("ids: set[str] = set()")
        if self.uses(*ENDS, *PAIRED, "results_mixed", "call_current"):
            lines.append("speaker: Any = None  # the role of the run")
        if self.uses(*ENDS):
            lines += ["start = 0  # the first turn of the run", "last = -1  # the last turn with blocks"]
        if self.uses("turn_first", "turn_later"):
            lines.append("started = False  # whether a turn came that is no system turn")
        if self.uses(*PAIRED, "turn_last"):
            lines.append("asked: list[str] = []  # the ids of the calls of the last run that may call")
        if self.uses(*PAIRED):
            lines += [
                "answered = 0  # how many of them have their result, in order",
                "home = -1  # the first turn of the run that answers them",
                "tidy = True  # whether all calls so far are answered at once, in order and in one turn",
            ]
        if self.uses("results_mixed"):
            lines += ["calls = False  # whether the run before holds a call", "mixed = -1  # the turn that may be mixed"]
        if self.uses("call_current"):
            lines += ["current: list[Path] = []", "called = False  # whether the run holds a call already"]
        if self.uses("no_turn"):
            lines.append("empty = True")
        return lines

    # --- each turn ---

    def turn(self) -> Lines:
        """Before the blocks of a turn are looked at; turns without blocks come here too."""
        lines = []
        for field in self.spec.message_fields:
            if field.type == "object":
                lines += self.free(f"message.{field.name}", f'turn, "{field.name}"', field.nullable, limits=[])
        lines.append("blocks = message.blocks")
        lines.append("if not blocks:")
        for rule in self.of("turn_empty"):
            lines += _indent([self.when(rule), *_indent([self.tell(rule, "turn,")])] if self.when(rule) != "if True:" else [self.tell(rule, "turn,")])
        lines.append("    continue")
        return lines

    def starts(self) -> Lines:
        """At the start of a turn with blocks."""
        lines = []
        if self.uses(*ENDS, *PAIRED, "results_mixed", "call_current", "turn_first", "turn_later", "nothing_but", "in_role"):
            lines.append("role = type(message)")
        if change := self.change():
            lines += ["if role is not speaker:", *_indent(change), "    speaker = role"]
        if self.uses("no_turn"):
            lines.append("empty = False")
        system = self.roles["system"]
        for rule in self.of("turn_later"):
            test = f"role is {self.roles[rule.parameters['role']]}"
            lines += [self.when(rule, "started", test), *_indent([self.tell(rule, "turn,")])]
        for rule in self.of("turn_first"):
            test = f"role is {self.roles[rule.parameters['role']]}"
            lines += [self.when(rule, "not started", test), *_indent([self.tell(rule, "turn,")])]
        if self.uses("turn_first", "turn_later"):
            lines += [f"if role is not {system}:", "    started = True"]
        for rule in self.of("nothing_but"):
            kinds = self.kinds(rule)
            field = (self.text.text or {})["text"]
            others = f"{_is('type(block)', kinds)} or (type(block) is {self.text.title} and not block.{field})"
            lines += [
                self.when(rule, _is("type(blocks[0])", kinds), f"all({others} for block in blocks)"),
                *_indent([self.tell(rule, "turn,")]),
            ]
        others = f"any(more_than_result(block) for block in blocks)"
        if self.uses("results_mixed"):
            lines += [f"if role is {self.answering} and home_turn == turn:"] if False else []
        if self.uses("call_current"):
            lines += [f"if role is {self.answering} and {others}:", "    current = []"]
        return lines

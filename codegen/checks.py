"""The closed set of checks that `schema/rules.json` may name: what each finds, and what it must be told.

A rule that uses one of them is data. A new check needs a meaning here, and code in the emitter of every
language. Words used below: a *kind* is what a block type is marked as (`text`, `reasoning`, `media`, `call`,
`result`). A turn without blocks is skipped by all checks but `turn_empty`. A *run* is a row of turns of one
role. White space is what step 6 of the conversion takes for it. Every rule may also have the parameter
`purposes`; without it, it holds for every purpose.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .ir import Block, Rule, Spec
from .reader import SchemaError

KINDS = ("text", "reasoning", "media", "call", "result")
PLACES = ("turns", "results")
PURPOSES = ("request", "training")


@dataclass(frozen=True)
class Check:
    """What a check finds and where, the parameters it needs, and those it may have."""

    finds: str
    needs: tuple[str, ...] = ()
    may: tuple[str, ...] = ()


CHECKS: dict[str, Check] = {
    # values
    "not_base64": Check("the data of a media block that is empty or, mended as a conversion does, no base64"),
    "other_media": Check("the media type of a block whose bytes begin as another type that the schema knows"),
    "half_surrogate": Check("a string, or the member under a key, with half of a surrogate pair"),
    "integer_beyond": Check("a number in the input of a call, beyond `limit` on either side", ("limit",)),
    "id_unportable": Check("the id of a call that some format would rewrite, by its length or its characters"),
    "name_unportable": Check("the name of a call that does not match the pattern of some format"),
    "id_again": Check("the id of a call that an earlier call of the conversation has"),
    "blank": Check("a block of kind `of` in turns or results whose text is empty or white space", ("of", "in")),
    "white_space": Check("a block of kind `of` in turns or results whose text is white space, not empty", ("of", "in")),
    "unsigned": Check("a reasoning block whose signature is absent, null or empty"),
    "failure_empty": Check("a failed result without blocks"),
    "in_role": Check("a block of kind `of` in a turn of the role", ("of", "role")),
    # turns
    "no_turn": Check('the conversation (pointer ""), where it has no turn with a block'),
    "turn_empty": Check("a turn without blocks"),
    "turn_later": Check("a turn of the role behind one of another role", ("role",)),
    "turn_first": Check("the first turn that is no system turn, where it has the role", ("role",)),
    "turn_last": Check("the last turn, where it has the role and its run holds no call", ("role",)),
    "nothing_but": Check("a turn that holds blocks of kind `of` and else at most empty text", ("of",)),
    # runs of assistant turns; text of white space does not count
    "run_starts_otherwise": Check(
        "the first block of a run that holds blocks of the kinds `of` and `beside`, where it is not `of`",
        ("of", "beside"),
    ),
    "run_ends": Check("the last block of a run, where it is `of` (and the run holds `beside`)", ("of",), ("beside",)),
    # calls and their results, paired as a conversion does
    "call_unanswered": Check("a call without a result in the run of user turns right after, unless it is `call_open`"),
    "call_open": Check("a call without a result in the run right after, where nothing but results follows its run"),
    "result_unasked": Check("a result that answers no call of the run of assistant turns right before"),
    "results_disordered": Check("a result in its run that stands before the result of an earlier call"),
    "results_scattered": Check(
        "a result that answers a call of the run right before, but not in the first turn of its run"
    ),
    "results_mixed": Check(
        "the first turn of a run that answers calls, where it holds another block (empty text does not count)"
    ),
    "call_current": Check(
        "the first call of each assistant run behind the last user turn that holds more than results and empty text"
    ),
}


def checked(spec: Spec) -> tuple[Rule, ...]:
    """The rules, each naming a known check with what that check needs; `SchemaError` otherwise."""
    for rule in spec.rules:
        for complaint in _complaints(spec, rule):
            raise SchemaError(f"rules.json: the rule {rule.code} ({rule.check}): {complaint}")
    return spec.rules


def _complaints(spec: Spec, rule: Rule) -> Iterator[str]:
    check = CHECKS.get(rule.check)
    if check is None:
        yield f"no such check; there are {', '.join(CHECKS)}"
        return
    known = {*check.needs, *check.may, "purposes"}
    yield from (f"the parameter {name!r} is missing" for name in check.needs if name not in rule.parameters)
    yield from (f"there is no parameter {name!r}" for name in rule.parameters if name not in known)
    roles = tuple(role.name for role in spec.roles)
    for name, choices in {"of": KINDS, "beside": KINDS, "in": PLACES, "role": roles}.items():
        if rule.parameters.get(name, choices[0]) not in choices:
            yield f"{name!r} is one of {', '.join(choices)}"
    if rule.check in ("blank", "white_space") and rule.parameters.get("of") not in ("text", "reasoning"):
        yield "'of' is text or reasoning: no other kind has a text"
    if not set(rule.parameters.get("purposes", PURPOSES)) <= set(PURPOSES):
        yield f"'purposes' are of {', '.join(PURPOSES)}"
    yield from (f"there is no format {name!r}" for name in rule.formats if name not in spec.format_titles)


def kind_blocks(spec: Spec, kind: str) -> tuple[Block, ...]:
    """The blocks of the current set that are marked as this kind."""
    return tuple(block for block in spec.current.blocks if getattr(block, kind) is not None)

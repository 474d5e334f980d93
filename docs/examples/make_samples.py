"""Write `sample-200.jsonl` and `night-shift.jsonl.gz`: many made-up conversations, the same in every run.

    python docs/examples/make_samples.py [FOLDER]

Nothing in them was ever said by anyone. The mix is that of real data: short dialogues, tutoring, tool use
with parallel calls, agents at work for many turns, pictures, signed and unsigned reasoning, many scripts.
"""

from __future__ import annotations

import base64
import gzip
import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Block = dict[str, Any]
Message = dict[str, Any]
Story = Callable[[random.Random], list[Message]]

# 8 by 8 pixels each: a red and a blue square.
PICTURES = {
    "red": "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAIAQMAAAD+wSzIAAAAA1BMVEXAOSuU7d9gAAAAC0lEQVR4"
    "2mNgQAUAABAAAaoZ+IIAAAAASUVORK5CYII=",
    "blue": "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAIAQMAAAD+wSzIAAAAA1BMVEUrSm9E+U+dAAAAC0lEQVR4"
    "2mNgQAUAABAAAaoZ+IIAAAAASUVORK5CYII=",
}
NAMES = (
    "Ada",
    "Bruno",
    "Chioma",
    "Dilan",
    "Elif",
    "Farouk",
    "Greta",
    "Hinako",
    "Iñigo",
    "Jürgen",
    "Zoë",
    "李娜",
)
PLACES = ("Porto", "Łódź", "Nagasaki", "Aarhus", "Cusco", "Tromsø", "Kyiv", "Muscat", "Québec", "서울")
GOODS = (
    "kettle",
    "bicycle lamp",
    "tent",
    "violin string",
    "desk fan",
    "thermos",
    "rain jacket",
    "head torch",
)
FILES = (
    "parser.py",
    "cache.rs",
    "router.ts",
    "Ledger.java",
    "queue.go",
    "index.html",
    "schema.sql",
    "Makefile",
)
FAULTS = (
    "drops the last line",
    "is slow on empty input",
    "leaks a handle",
    "sorts 10 before 9",
    "ignores the time zone",
)


def text(words: str, **more: Any) -> Block:
    return {"type": "text", "text": words, **more}


def call(id: str, name: str, **input: Any) -> Block:
    return {"type": "tool_call", "id": id, "name": name, "input": input}


def result(id: str, *blocks: str | Block, **more: Any) -> Block:
    return {
        "type": "tool_result",
        "tool_call_id": id,
        "blocks": [text(b) if isinstance(b, str) else b for b in blocks],
        **more,
    }


def turn(role: str, *blocks: str | Block, **more: Any) -> Message:
    return {"role": role, "blocks": [text(b) if isinstance(b, str) else b for b in blocks], **more}


def support(pick: random.Random) -> list[Message]:
    """A customer, a product, and an agent who asks before it answers."""
    name, thing, order = pick.choice(NAMES), pick.choice(GOODS), pick.randrange(1000, 99999)
    turns = [
        turn("system", f"You are a support agent of a shop that sells things like a {thing}. Be brief."),
        turn("user", f"Hello, this is {name}. My {thing} from order #{order} hasn't come."),
        turn("assistant", f"I'm sorry, {name}. Was it to go to {pick.choice(PLACES)}?"),
        turn("user", pick.choice(("Yes.", "No, to my sister's.", "It was, but I have moved since 🙈"))),
    ]
    if pick.random() < 0.5:
        turns += [
            turn("assistant", "Then I'll send a new one today. Is the address in your account right?"),
            turn("user", "It is. When will it be here?", detail={"channel": "chat", "turn": 5}),
        ]
    return turns


def tutoring(pick: random.Random) -> list[Message]:
    """Sums, in small steps."""
    a, b = pick.randrange(12, 99), pick.randrange(11, 60)
    return [
        turn("system", "You teach arithmetic.", "Ask for the next small step; never tell the result."),
        turn("user", f"What is {a} × {b}?"),
        turn("assistant", f"Let's split it. What is {a} × {b // 10 * 10}?"),
        turn("user", str(a * (b // 10 * 10))),
        turn("assistant", f"Right. And {a} × {b % 10}?"),
        turn("user", pick.choice((str(a * (b % 10)), "I don't know", "why would I need that"))),
    ]


def letters(pick: random.Random) -> list[Message]:
    """Other languages, other scripts, and nothing but text."""
    asked = pick.choice(
        (
            "«Утро вечера мудренее» — как это сказать по-английски?",
            "كيف أقول «شكرا جزيلا» باليابانية؟",
            "「猫の手も借りたい」はどういう意味ですか？",
            "Was heißt „Feierabend“ auf Englisch? Bitte nicht nur „end of work“.",
            "Qual é a diferença entre “saudade” e “nostalgia”?",
            "👩🏽‍🌾🐐 → as a sentence, please",
        )
    )
    turns = [turn("user", asked)]
    if pick.random() < 0.6:
        turns += [
            turn("assistant", "In one word or in a sentence?"),
            turn("user", pick.choice(("1", "both", "一句"))),
        ]
    return turns


def lookups(pick: random.Random) -> list[Message]:
    """Several calls at once; now and then one of them fails."""
    places = [pick.choice(PLACES) for _ in range(pick.randrange(2, 5))]
    ids = [f"call_{pick.randrange(16**8):08x}_{i}" for i in range(len(places))]
    degrees = [pick.randrange(-120, 390) / 10 for _ in places]
    failing = pick.randrange(len(places)) if pick.random() < 0.3 else -1
    return [
        turn("user", f"Where is it warmest now: {', '.join(places)}?"),
        turn("assistant", *(call(i, "weather", place=p) for i, p in zip(ids, places, strict=True))),
        turn(
            "user",
            *(
                result(i, "station is offline", is_error=True)
                if n == failing
                else result(i, json.dumps({"celsius": degrees[n]}))
                for n, i in enumerate(ids)
            ),
        ),
    ]


def ledger(pick: random.Random) -> list[Message]:
    """Inputs as programs write them: large integers, floats, nulls, nested lists, empty values."""
    account = pick.randrange(10**17, 10**19)
    rows = [{"row": n, "amount": pick.randrange(-90000, 90000) / 100, "tags": []} for n in range(pick.randrange(1, 5))]
    limits = {"low": 1e-05, "high": 1e16}
    return [
        turn("user", f"Book these {len(rows)} rows on account {account} and give me the balance."),
        turn(
            "assistant",
            text("I book them in one go."),
            call("book", "ledger_book", account=account, rows=rows, note=None, limits=limits),
        ),
        turn("user", result("book", text('{"ok": true}', detail={"took_ms": pick.randrange(3, 900)}))),
        turn("assistant", call("balance", "ledger_balance", account=account, at=None)),
        turn("user", result("balance", f"{pick.randrange(10**6) / 100} EUR"), "Thanks. Anything odd?"),
    ]


def agent(pick: random.Random) -> list[Message]:
    """An agent that reads, edits and tests for a while."""
    file, fault = pick.choice(FILES), pick.choice(FAULTS)
    turns = [
        turn("system", "You are a coding agent. Read before you edit, and run the tests."),
        turn("user", f"`{file}` {fault}. Please mend it."),
    ]
    for step in range(pick.randrange(2, 7)):
        read, run = f"toolu_{step}r", f"toolu_{step}t"
        start = pick.randrange(1, 400)
        code = "\n".join(
            f"{start + n:4}  {'    ' * pick.randrange(3)}step_{n}(state)" for n in range(pick.randrange(3, 14))
        )
        failed = pick.random() < 0.4
        turns += [
            turn(
                "assistant",
                *([f"Step {step + 1}: I look at lines {start} and on."] if pick.random() < 0.7 else []),
                call(read, "read_file", path=f"src/{file}", start=start, wrap=False),
                call(run, "run_tests", only=[file], timeout=30.0),
            ),
            turn(
                "user",
                result(read, code),
                result(run, "1 failed: expected 3, got 4", is_error=True) if failed else result(run, "all passed"),
            ),
        ]
    return turns


def thinking(pick: random.Random) -> list[Message]:
    """Reasoning between calls, signed by a provider (the signature is made up) or not."""
    place, day = pick.choice(PLACES), pick.choice(("Friday", "the 3rd", "tomorrow"))
    thought: Block = {
        "type": "reasoning",
        "text": f"They want to reach {place} by {day}. First the trains, then a room.",
    }
    if pick.random() < 0.6:
        thought["signature"] = base64.b64encode(pick.randbytes(72)).decode()
    return [
        turn("user", f"Get me to {place} by {day}, as cheaply as you can."),
        turn("assistant", thought, text("I look up the trains."), call("t1", "trains", to=place, by=day)),
        turn("user", result("t1", f"{pick.randrange(5, 23)}:40, {pick.randrange(20, 190)} EUR")),
    ]


def pictures(pick: random.Random) -> list[Message]:
    """A picture in a question."""
    colour = pick.choice(tuple(PICTURES))
    image = {"type": "image", "data": PICTURES[colour], "mimeType": "image/png"}
    return [
        turn("user", "What colour is the square?", image),
        turn("assistant", f"It is {colour}."),
        turn("user", "Say that in a language of your choice."),
    ]


STORIES: tuple[Story, ...] = (
    support,
    support,
    tutoring,
    letters,
    lookups,
    lookups,
    ledger,
    agent,
    agent,
    thinking,
    pictures,
)


def tasks(count: int, seed: int) -> list[dict[str, Any]]:
    """`count` tasks, the same for the same seed."""
    pick = random.Random(seed)
    made = []
    for number in range(count):
        story = pick.choice(STORIES)
        made.append({"id": f"{story.__name__}-{number:03}", "seed": seed, "conversation": story(pick)})
    return made


def lines(values: list[Any]) -> bytes:
    return "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values).encode()


def night_shift() -> list[Any]:
    """A line may be a task, a bare conversation or a single message."""
    made: list[Any] = []
    for number, task in enumerate(tasks(24, seed=7)):
        conversation = task["conversation"]
        asked = next(message for message in conversation if message["role"] == "user")
        made.append((task, conversation, asked)[number % 3])
    return made


def main(folder: Path) -> None:
    (folder / "sample-200.jsonl").write_bytes(lines(tasks(200, seed=2026)))
    # No time and no name in the header, so that the same content is the same file.
    (folder / "night-shift.jsonl.gz").write_bytes(gzip.compress(lines(night_shift()), mtime=0))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)

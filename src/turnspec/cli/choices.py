"""Options whose values are data of the schema: checked against it, so that nothing restates it."""

from __future__ import annotations

from turnspec.cli.failures import UsageError, choose

_MODELS = {"gpt": "openai", "chatgpt": "openai", "claude": "anthropic", "gemini": "google"}


def block_set_of(value: str | None) -> str | None:
    """A released block set, or None for the newest."""
    from turnspec_generated.names import RELEASED

    return None if value is None else choose(value, RELEASED, "--block-set")


def format_of(value: str, option: str) -> str:
    """A provider format."""
    from turnspec_generated.names import FORMATS

    return choose(value, FORMATS, option, also_called=_MODELS)


def purpose_of(value: str | None) -> str:
    """A purpose; the first one is the default."""
    from turnspec_generated.names import PURPOSES

    return PURPOSES[0] if value is None else choose(value, PURPOSES, "--purpose")


def key_of(value: str | None) -> tuple[str, ...]:
    """The path of the conversation in a task: `a.b` is the field b of the object in the field a."""
    from turnspec_generated.names import CONVERSATION_KEY

    if value is None:
        return (CONVERSATION_KEY,)
    parts = tuple(value.split("."))
    if not all(parts):
        raise UsageError(f"--key: {value!r} is no path of fields; write it as conversation or meta.turns")
    return parts

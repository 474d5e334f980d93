"""How long a client waits and how often it asks: the numbers of the wire, and those of its own."""

from __future__ import annotations

from dataclasses import dataclass

from turnspec_generated.wire import FAULTS, PING_EVERY, SILENCE

KEY_VARIABLE = "OPENREWARD_API_KEY"
REFUSAL_REASONS = ("not_found", "input_validation", "episode_finished", "name_collision")
UNKNOWN_SESSION = FAULTS["unknown_session"].detail


@dataclass(frozen=True, slots=True)
class Settings:
    """How long a client waits, and how often it tries again. All times are seconds."""

    timeout: float | None = 30.0
    """The longest silence of the server in a plain request; None waits for ever."""
    silence: float = SILENCE
    """The longest silence in an event stream; servers send a comment every 10 seconds."""
    connect: float = 10.0
    """How long a connection may take to come about."""
    retries: int = 3
    """How often a request is sent again, where that is safe."""
    replays: int = 5
    """How often the answer of a call is asked for again."""
    backoff: float = 0.5
    """The first wait before another try; it doubles with each."""
    longest_wait: float = 60.0
    """A server that asks for a longer wait than this is not waited for."""
    starting: float = 600.0
    """How long a server may say that the environment is still starting."""
    ping_every: float = PING_EVERY
    closing: float = 10.0
    """The longest silence of the server while a session is given back, and of a ping."""
    redirects: int = 5
    largest_body: int = 1 << 30
    """The most bytes that an answer may have."""

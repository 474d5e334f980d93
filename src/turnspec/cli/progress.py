"""The line that tells how far a long run is. It shows on a terminal only."""

from __future__ import annotations

import sys
import time

from turnspec.cli.text import is_terminal

EVERY = 0.1
AFTER = 0.5


class ProgressLine:
    """A line on stderr that is written over and over; `clear` makes room for other lines."""

    def __init__(self, wanted: bool) -> None:
        self.active = wanted and is_terminal(sys.stderr)
        self._shown = False
        self._read = 0
        self._next = time.monotonic() + AFTER if self.active else 0.0

    def advance(self, name: str, read: int, size: int | None, conversations: int) -> None:
        """`read` more bytes of the input `name` were read."""
        if not self.active:
            return
        self._read += read
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + EVERY
        share = f" {min(100, 100 * self._read // size)} %" if size else ""
        self._write(f"\r\x1b[K{name}:{share} {self._read / 1e6:.0f} MB, {conversations} conversations")
        self._shown = True

    def begin(self) -> None:
        """The next input begins."""
        self._read = 0

    def clear(self) -> None:
        if self._shown:
            self._write("\r\x1b[K")
            self._shown = False

    @staticmethod
    def _write(text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except (OSError, ValueError):
            pass

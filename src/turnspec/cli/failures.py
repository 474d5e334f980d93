"""What goes wrong around the documents: usage and input/output."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Mapping


class CommandError(Exception):
    """The command cannot go on. The message is one line."""


class UsageError(CommandError):
    """The command line asks for something that does not exist."""


class InputError(Exception):
    """An input cannot be read to its end. The message is one line and does not name the file."""


_REASONS = {
    errno.ENOENT: "no such file",
    errno.EISDIR: "is a folder, not a file",
    errno.EACCES: "permission denied",
    errno.EPERM: "not permitted",
    errno.ENOSPC: "no space left on the device",
    errno.EROFS: "the file system is read-only",
    errno.ENAMETOOLONG: "the file name is too long",
}


def reason(error: OSError) -> str:
    """The cause of an OSError in plain words, without its number and its file name."""
    known = _REASONS.get(error.errno or 0)
    if known:
        return known
    text = error.strerror or (os.strerror(error.errno) if error.errno else "") or str(error)
    text = text or type(error).__name__
    return text[:1].lower() + text[1:]


def choose(
    value: str, allowed: Iterable[str], what: str, all_at: str = "", *, also_called: Mapping[str, str] | None = None
) -> str:
    """`value` when it is allowed, else a UsageError with the nearest one, and all or where to see them.

    `also_called` gives other words for allowed values: they are understood for that hint only.
    """
    names = list(allowed)
    if value in names:
        return value
    import difflib

    meant = {other: name for other, name in (also_called or {}).items() if name in names}
    meant |= {name.casefold(): name for name in names}
    near = difflib.get_close_matches(value.casefold(), meant, 1)
    guess = f"; did you mean {meant[near[0]]}?" if near else ""
    rest = f" ({all_at})" if all_at else f"; allowed: {', '.join(names)}"
    raise UsageError(f"{what}: {value!r} is not known{guess}{rest}")

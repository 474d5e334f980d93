"""What is wrong with text that is not JSON, in words."""

from __future__ import annotations

import codecs
import re

from . import _grammar as g

_CHUNK = 1 << 20
_VALUE = "a value (an object, an array, a string, a number, true, false or null)"
_WORDS = {
    "NaN": "JSON has no NaN and no Infinity: write null, or a string",
    "Infinity": "JSON has no NaN and no Infinity: write null, or a string",
    "inf": "JSON has no NaN and no Infinity: write null, or a string",
    "nan": "JSON has no NaN and no Infinity: write null, or a string",
    "True": "write true in lower case",
    "False": "write false in lower case",
    "None": "write null",
    "undefined": "write null, or leave the key out",
}


class BadSyntax(Exception):
    """Text is not JSON. `offset` is the place to show, `token` where the token began that cannot be read."""

    def __init__(self, offset: int, token: int, message: str, hint: str = "") -> None:
        self.offset = offset
        self.token = token
        self.message = message
        self.hint = hint


def expected(what: str, data: bytes, pos: int) -> BadSyntax:
    """Something else stands where a token must be."""
    return BadSyntax(pos, pos, f"expected {what}, found {_seen(data, pos)}", _advice(data, pos))


def broken_value(data: bytes, pos: int) -> BadSyntax:
    """No value can be read at a place: something else stands there, or a string that is not one."""
    if data[pos : pos + 1] == b'"':
        return _broken_string(data, pos)
    if not data:
        return BadSyntax(0, 0, "the text is empty", "a document is a JSON object or array")
    if pos == 0 and data.startswith(codecs.BOM_UTF8):
        return BadSyntax(0, 0, "the text begins with a byte order mark", "leave the byte order mark out")
    if pos == 0 and data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return BadSyntax(0, 0, "the text is UTF-16", "JSON is UTF-8: convert the text")
    word = _text(re.compile(rb"-?[A-Za-z_]+|").match(data, pos))
    if word.removeprefix("-") in _WORDS:
        return BadSyntax(pos, pos, f"{word} is not JSON", _WORDS[word.removeprefix("-")])
    if data[pos : pos + 1] == b"-":
        return BadSyntax(pos, pos, f"expected a digit after '-', found {_seen(data, pos + 1)}")
    return expected(_VALUE, data, pos)


def bad_utf8(data: bytes, end: int) -> BadSyntax | None:
    """The first byte before `end` that is not UTF-8."""
    if data.isascii():
        return None
    decoder = codecs.getincrementaldecoder("utf-8")()
    for start in range(0, end, _CHUNK):
        chunk = data[start : min(start + _CHUNK, end)]
        try:
            decoder.decode(chunk, start + len(chunk) == len(data))
        except UnicodeDecodeError as error:
            offset = start + len(chunk) - len(error.object) + error.start
            message = f"the byte 0x{data[offset]:02x} is not UTF-8 here"
            return BadSyntax(offset, offset, message, "JSON is UTF-8: convert the text")
    return None


def _broken_string(data: bytes, start: int) -> BadSyntax:
    good = re.compile(rb'"' + g.CONTENT).match(data, start)
    assert good is not None
    pos = good.end()
    if pos == len(data):
        return BadSyntax(start, start, "the string that begins here is not closed", "add the closing '\"'")
    if data[pos] != 0x5C:
        named = {0x0A: r" as \n", 0x0D: r" as \r", 0x09: r" as \t"}.get(data[pos], rf" as \u{data[pos]:04x}")
        return BadSyntax(pos, start, f"a control character stands in a string: {_seen(data, pos)}", "escape it" + named)
    surrogate = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}").match(data, pos)
    if surrogate is not None:
        return BadSyntax(
            pos,
            start,
            f"{_text(surrogate)} is one half of a surrogate pair without the other",
            "write both halves, or the character itself",
        )
    if data[pos + 1 : pos + 2] == b"u":
        return BadSyntax(pos, start, r"expected four hexadecimal digits after \u", r"a backslash itself is written \\")
    if pos + 1 == len(data):
        return BadSyntax(start, start, "the string that begins here is not closed", "add the closing '\"'")
    return BadSyntax(
        pos,
        start,
        f"there is no escape of a backslash and {_seen(data, pos + 1)}",
        r"a backslash itself is written \\",
    )


def _advice(data: bytes, pos: int) -> str:
    """A hint for the mistakes that are often made."""
    here, before = data[pos : pos + 1], data[pos - 1 : pos] if pos else b""
    if not here:
        return "the text may have been cut off"
    if here == b"'":
        return "strings and keys stand in double quotes"
    if here in (b"/", b"#"):
        return "JSON has no comments"
    if before.isdigit() and here.isdigit():
        return "a number has no leading zeros"
    if before.isdigit() and here in b".eE":
        return "digits must follow"
    if here in (b"+", b"."):
        return "a number begins with a digit or '-'"
    if here in (b"]", b"}") and _previous(data, pos) == b",":
        return "remove the comma before it"
    if here in (b"\xa0", b"\xc2", b"\x0b", b"\x0c", b"\x00"):
        return "only blanks, tabs and line ends may stand between tokens"
    return ""


def _previous(data: bytes, pos: int) -> bytes:
    """The last byte before a place that is no blank."""
    while pos and data[pos - 1] in b" \t\r\n":
        pos -= 1
    return data[pos - 1 : pos] if pos else b""


def _seen(data: bytes, pos: int) -> str:
    if pos >= len(data):
        return "the end of the text"
    character = data[pos : pos + 4].decode("utf-8", "replace")[0]
    if character == "\ufffd" and data[pos : pos + 3] != b"\xef\xbf\xbd":
        return f"the byte 0x{data[pos]:02x}"
    word = _text(re.compile(rb"[A-Za-z_][A-Za-z0-9_]{0,19}|").match(data, pos))
    if word:
        return f"'{word}'"
    return f"'{character}'" if character.isprintable() else f"U+{ord(character):04X}"


def _text(match: re.Match[bytes] | None) -> str:
    return match[0].decode() if match else ""

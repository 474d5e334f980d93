"""The grammar of JSON (RFC 8259) as pieces of regular expressions over bytes.

Every repetition without bound is possessive, so that no text makes them slow: what is taken is never given back.
Inside of those there are no capturing groups, because early 3.11 releases mix them up there. That bytes above 0x7f
are UTF-8 is checked elsewhere.
"""

from __future__ import annotations

MAX_DEPTH = 128

SPACE = rb"[ \t\n\r]*+"

_HEX = rb"[0-9a-fA-F]"
# An escaped half of a surrogate pair is fine only as the first of two that belong together.
_UNICODE = (
    rb"u(?:[0-9a-cefA-CEF]" + _HEX + rb"{3}|[dD](?:[0-7]" + _HEX + rb"{2}"
    rb"|[89abAB]" + _HEX + rb"{2}\\u[dD][c-fC-F]" + _HEX + rb"{2}))"
)
_PLAIN = rb"[ !#-\[\]-\xff]*+"
CONTENT = _PLAIN + rb'(?:\\(?:["\\/bfnrt]|' + _UNICODE + rb")" + _PLAIN + rb")*+"
STRING = rb'"' + CONTENT + rb'"'

NUMBER = rb"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?"
# Integers, and the numbers that are within the range of a double at first sight: those of at most 100 digits before
# the point and an exponent below 200.
_SURE_EXPONENT = rb"(?:-[0-9]++|\+?1?[0-9]{1,2}(?![0-9]))"
_SURE_NUMBER = (
    rb"-?(?:0|[1-9][0-9]*+)(?:\.(?<![0-9]{101}\.)[0-9]++(?:[eE]" + _SURE_EXPONENT + rb")?"
    rb"|[eE](?<![0-9]{101}[eE])" + _SURE_EXPONENT + rb")?"
)
WORD = rb"true|false|null"
SCALAR = rb"(?:" + STRING + rb"|" + _SURE_NUMBER + rb"|" + WORD + rb")"
NAME = STRING + SPACE + rb":" + SPACE


def items(item: bytes, close: bytes, count: bytes = b"*+") -> bytes:
    """Items with what stands behind each: a comma that another must follow, or nothing before a closing bracket."""
    follow = SPACE + rb"(?:," + SPACE + rb"(?!" + close + rb")|(?=" + close + rb"))"
    return rb"(?:" + item + follow + rb")" + count


def _enclose(item: bytes, count: bytes) -> bytes:
    """A scalar, an array of items, or an object of items; `count` is how many the object may have."""
    array = rb"\[" + SPACE + items(item, rb"\]") + rb"\]"
    object_ = rb"\{" + SPACE + items(NAME + item, rb"\}", count) + rb"\}"
    return rb"(?:" + STRING + rb"|" + array + rb"|" + object_ + rb"|" + _SURE_NUMBER + rb"|" + WORD + rb")"


# A value with at most two levels of arrays and objects of its own, in which no key can come twice.
ITEM_LEVELS = 2
ITEM = _enclose(_enclose(SCALAR, b"?+"), b"?+")

# Some objects in an array, each with at most four levels, in which keys may come twice.
RECORD_LEVELS = 4
_RECORD = rb"(?=\{)" + _enclose(_enclose(_enclose(_enclose(SCALAR, b"*+"), b"*+"), b"*+"), b"*+")
RECORDS = _RECORD + rb"(?:" + SPACE + rb"," + SPACE + _RECORD + rb"){0,500}+"

# Strings and brackets as they are found in any text, also in one that is not JSON.
_LOOSE_PLAIN = rb"[\x00-!#-\[\]-\xff]*+"
LOOSE_STRING = rb'"' + _LOOSE_PLAIN + rb"(?:\\." + _LOOSE_PLAIN + rb')*+(?:"|\\?\Z)'
LOOSE_FLAT = rb"(?:[\x00-!#-Z\\^-z|~-\xff]++|" + LOOSE_STRING + rb")*+"
# The same with one level of brackets.
LOOSE_LEAVES = LOOSE_FLAT[:-3] + rb"|[\[{]" + LOOSE_FLAT + rb"[\]}])*+"
# A key, group 1 being what stands between its quotes, and a member of an object in valid text, with a value of at
# most two levels; without its value where that is deeper.
KEY = rb'"(' + _LOOSE_PLAIN + rb"(?:\\." + _LOOSE_PLAIN + rb')*+)"'
_SMALL_VALUE = LOOSE_STRING + rb'|[^"\[\]{} \t\n\r,]++|[\[{]' + LOOSE_LEAVES + rb"[\]}]"
MEMBER = KEY + SPACE + rb"(?::" + SPACE + rb"(?:" + _SMALL_VALUE + rb")?+)?+"

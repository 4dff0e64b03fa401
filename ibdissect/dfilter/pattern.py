"""The regular expressions of `matches`, over bytes. RE2 is used, so no pattern can run forever."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from .literals import BadLiteral

if TYPE_CHECKING:
    from ibdissect.decode import Bool, Int

MAX_MEMORY = 1 << 20
"""Maximum bytes of a compiled regular expression; a larger one is refused."""

REASONS = {
    "missing )": "a closing parenthesis is missing",
    "unexpected )": "a closing parenthesis has no opening one",
    "missing ]": "a closing ] is missing",
    "trailing \\": "the regular expression ends with a backslash",
    "no argument for repetition operator": "there is nothing to repeat",
    "bad repetition operator": "a repetition cannot be repeated; group it",
    "invalid repetition size": "a repetition needs two numbers in order, at most 1000 (groups multiply theirs)",
    "invalid character class range": "is neither a range in order nor a class of characters",
    "invalid character class": "is not a character class",
    "invalid perl operator": "look-around, conditions and comments are not supported in a regular expression",
    "invalid escape sequence": "is not supported in a regular expression",
    "invalid named capture group": "is not a name of a group",
    "pattern too large - compile failed": "the regular expression needs too much memory; make it simpler",
}
"""RE2's message -> our message."""

_NAMES_ITS_PART = ("invalid character class range", "invalid character class", "invalid escape sequence", "invalid named capture group")
_TOKEN = re.compile(rb"\\Q.*?(?:\\E|\Z)|\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]|\\x(?:\{[^}]*\}|[0-9A-Fa-f]{0,2})|\\.|\$", re.DOTALL)
_INSIDE = re.compile(rb"\\x(?:\{[^}]*\}|[0-9A-Fa-f]{0,2})|\\.", re.DOTALL)
_PERL = {
    b"$": rb"(?:$|\n\z)", rb"\Z": rb"(?:\n?\z)", rb"\N": rb"[^\n]", rb"\e": rb"\x1b", rb"\s": rb"[\t-\r ]", rb"\S": rb"[^\t-\r ]",
}  # fmt: skip
_PERL_IN_CLASS = {rb"\b": rb"\x08", rb"\e": rb"\x1b", rb"\s": rb"\t-\r ", rb"\S": rb"\x00-\x08\x0e-\x1f!-\xff"}


class Pattern:
    """A compiled regular expression over bytes, ignoring ASCII case as Wireshark does."""

    def __init__(self, pattern: bytes) -> None:
        """Raises BadLiteral if it is invalid or not supported; its `at` is a byte offset."""
        import re2  # only filters with `matches` need it

        options = re2.Options()
        options.encoding = re2.Options.Encoding.LATIN1  # captured bytes have no encoding
        options.case_sensitive, options.never_capture, options.log_errors = False, True, False
        options.max_mem = MAX_MEMORY
        try:
            self._search = re2.compile(_TOKEN.sub(_as_re2_writes_it, pattern), options).search
        except re2.error as error:
            raise _bad(error.args[0], pattern) from None

    def search(self, data: npt.NDArray[np.uint8], at: Int, stop: Int) -> Bool:
        """Which of the ranges `data[at:stop]` contain a match, bool[k]."""
        if not len(at):
            return np.zeros(0, np.bool_)
        low, find = int(at.min()), self._search
        text = data[low : int(stop.max())].tobytes()
        ends = zip((at - low).tolist(), (stop - low).tolist(), strict=True)
        return np.array([find(text[a:b]) is not None for a, b in ends], np.bool_)


def _as_re2_writes_it(found: re.Match[bytes]) -> bytes:
    """Convert a token of a Perl pattern to RE2's notation."""
    token = found[0]
    if token.startswith(b"["):
        return _INSIDE.sub(lambda inner: _PERL_IN_CLASS.get(inner[0]) or _byte(inner[0]), token)
    return _PERL.get(token) or _byte(token)


def _byte(escape: bytes) -> bytes:
    """Convert an escape: RE2 requires both digits of `\\x`, and no backslash before a byte that is not ASCII."""
    if escape[:2] == rb"\x" and escape[2:3] != b"{":
        return rb"\x%02x" % int(escape[2:] or b"0", 16)
    return rb"\x%02x" % escape[1] if escape[:1] == b"\\" and escape[1] > 127 else escape


def _bad(error: bytes, pattern: bytes) -> BadLiteral:
    kind, _, part = error.decode("utf-8", "replace").partition(": ")
    at = pattern.find(part.encode("latin-1", "replace")) if part else 0
    reason = REASONS.get(kind, kind)
    return BadLiteral(f"{part} {reason}" if kind in _NAMES_ITS_PART else reason, at=max(at, 0))

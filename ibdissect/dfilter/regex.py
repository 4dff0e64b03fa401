"""What does a regular expression of `matches` say? A tree of byte sets, sequences, alternatives and repetitions.

Perl's notation without what needs backtracking (back references, look-around, word boundaries). Capital and small ASCII
letters are the same, as in Wireshark; `.` is any byte but a line feed.
"""

from __future__ import annotations

from ibdissect.record import record

MAX_NODES = 4000
"""Largest tree, repetitions written out; a pattern that needs more is refused."""
MAX_DEPTH = 50
"""Deepest nesting of groups."""

ALL_BYTES = (1 << 256) - 1
_ANY = ALL_BYTES ^ 1 << 10


def _span(low: int, high: int) -> int:
    return (1 << high + 1) - (1 << low)


_DIGIT = _span(48, 57)
_UPPER, _LOWER = _span(65, 90), _span(97, 122)
_WORD = _DIGIT | _UPPER | _LOWER | 1 << 95
_SPACE = _span(9, 13) | 1 << 32
_CLASSES = {"d": _DIGIT, "w": _WORD, "s": _SPACE, "D": ALL_BYTES ^ _DIGIT, "W": ALL_BYTES ^ _WORD, "S": ALL_BYTES ^ _SPACE, "N": _ANY}
_NAMED = {
    "digit": _DIGIT, "alpha": _UPPER | _LOWER, "alnum": _DIGIT | _UPPER | _LOWER, "upper": _UPPER, "lower": _LOWER, "space": _SPACE,
    "xdigit": _DIGIT | _span(65, 70) | _span(97, 102), "word": _WORD, "print": _span(32, 126), "graph": _span(33, 126),
    "punct": _span(33, 126) & ~(_DIGIT | _UPPER | _LOWER), "cntrl": _span(0, 31) | 1 << 127, "blank": 1 << 9 | 1 << 32,
    "ascii": _span(0, 127),
}  # fmt: skip
_CONTROLS = {"n": 10, "t": 9, "r": 13, "f": 12, "e": 27, "a": 7}


class BadPattern(Exception):
    """The regular expression cannot be read or used; `at` counts its bytes."""

    def __init__(self, reason: str, at: int) -> None:
        self.reason, self.at = reason, at
        super().__init__(reason)


@record(eq=True, frozen=False)
class Item:
    """A part of the pattern: bytes (a 256-bit set), a sequence, alternatives, a repetition or an anchor."""

    what: str
    chosen: int = 0
    parts: tuple[Item, ...] = ()
    low: int = 0
    high: int | None = 0
    size: int = 1
    """How many nodes it makes."""


class Reader:
    """Recursive descent over the pattern."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.depth, self.fold = text, 0, 0, True

    def bad(self, reason: str) -> BadPattern:
        return BadPattern(reason, self.at)

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def take(self, expected: str) -> bool:
        if expected and self.text.startswith(expected, self.at):
            self.at += len(expected)
            return True
        return False

    def alternatives(self) -> Item:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.bad("groups are nested too deeply")
        fold, found = self.fold, [self.sequence()]
        while self.take("|"):
            found.append(self.sequence())
        self.depth -= 1
        self.fold = fold
        return found[0] if len(found) == 1 else Item("or", parts=tuple(found), size=len(found) + sum(part.size for part in found))

    def sequence(self) -> Item:
        parts = []
        while (char := self.peek()) and char not in "|)":
            atom = self.atom(char)
            if atom is not None:
                parts.append(self.repeated(atom))
        return Item("and", parts=tuple(parts), size=sum(part.size for part in parts))

    def atom(self, char: str) -> Item | None:
        if char in "*+?":
            raise self.bad("there is nothing to repeat")
        self.at += 1
        if char == "(":
            return self.group()
        if char == "[":
            return self.bytes_of(self.bracket())
        if char == ".":
            return Item("set", _ANY)
        if char == "^":
            return Item("start")
        if char == "$":
            return self.last_line()
        if char == "\\":
            return self.escape()
        return self.bytes_of(1 << ord(char))

    def last_line(self) -> Item:
        """The end, or the line feed in front of it."""
        feed = Item("set", 1 << 10)
        return Item("and", parts=(Item("repeat", parts=(feed,), high=1, size=3), Item("end")), size=4)

    def group(self) -> Item | None:
        if self.take("?"):
            if self.take("i)") or self.take("-i)"):
                self.fold = self.text[self.at - 3] != "-"
                return None
            if not self.take(":"):
                raise self.bad("look-around, named groups and conditions are not supported in a regular expression")
        inner = self.alternatives()
        if not self.take(")"):
            raise self.bad("a closing parenthesis is missing")
        return inner

    def escape(self) -> Item:
        char = self.peek()
        if not char:
            raise self.bad("the regular expression ends with a backslash")
        if char in "AzZ":
            self.at += 1
            return Item("start") if char == "A" else Item("end") if char == "z" else self.last_line()
        return self.bytes_of(self.escaped())

    def escaped(self) -> int:
        """The bytes that an escape stands for; the backslash is behind us."""
        char = self.peek()
        self.at += 1
        if char in _CLASSES:
            return _CLASSES[char]
        if char in _CONTROLS:
            return 1 << _CONTROLS[char]
        if char == "x":
            digits = ""
            while len(digits) < 2 and self.peek() and self.peek() in "0123456789abcdefABCDEF":
                digits += self.peek()
                self.at += 1
            return 1 << int(digits or "0", 16)
        if char == "0":
            digits = "0"
            while len(digits) < 3 and self.peek() and self.peek() in "01234567":
                digits += self.peek()
                self.at += 1
            return 1 << int(digits, 8)
        if char.isascii() and char.isalnum():
            raise self.bad(f"\\{char} is not supported in a regular expression")
        return 1 << ord(char)

    def bracket(self) -> int:
        chosen, negated, first = 0, self.take("^"), True
        while True:
            char = self.peek()
            if not char:
                raise self.bad("a closing ] is missing")
            if char == "]" and not first:
                self.at += 1
                break
            first = False
            low = self.member()
            if self.peek() == "-" and self.text[self.at + 1 : self.at + 2] not in ("]", ""):
                self.at += 1
                high = self.member()
                ends = low.bit_length() - 1, high.bit_length() - 1
                if low != 1 << ends[0] or high != 1 << ends[1] or ends[0] > ends[1]:
                    raise self.bad("a range in [] is out of order")
                low = _span(*ends)
            chosen |= low
        if self.fold:
            chosen = _folded(chosen)
        return ALL_BYTES ^ chosen if negated else chosen

    def member(self) -> int:
        char = self.peek()
        if char == "[" and (named := self.text.find(":]", self.at)) > 0 and self.text[self.at + 1] == ":":
            name = self.text[self.at + 2 : named]
            inverse = name.startswith("^")
            if name.removeprefix("^") not in _NAMED:
                raise self.bad(f"[:{name}:] is no class of characters")
            self.at = named + 2
            return _NAMED[name.removeprefix("^")] ^ (ALL_BYTES if inverse else 0)
        self.at += 1
        if char == "\\":
            if not self.peek():
                raise self.bad("a closing ] is missing")
            if self.peek() == "b":
                self.at += 1
                return 1 << 8
            return self.escaped()
        if not char:
            raise self.bad("a closing ] is missing")
        return 1 << ord(char)

    def bytes_of(self, chosen: int) -> Item:
        return Item("set", _folded(chosen) if self.fold else chosen)

    def repeated(self, atom: Item) -> Item:
        times = 0
        while True:
            low, high = 0, None
            if self.take("?"):
                high = 1
            elif self.take("+"):
                low = 1
            elif not self.take("*"):
                bounds = self.bounds()
                if bounds is None:
                    return atom
                low, high = bounds
            times += 1
            if times > 1:
                raise self.bad("a repetition cannot be repeated; group it")
            if self.take("+"):
                raise self.bad("possessive repetition is not supported in a regular expression")
            self.take("?")  # lazy or greedy: whether there is a match is the same
            copies = max(low, high or 0, 1) + (high is None)
            atom = Item("repeat", parts=(atom,), low=low, high=high, size=copies * (atom.size + 2))
            if atom.size > MAX_NODES:
                raise self.bad("the regular expression repeats too much")

    def bounds(self) -> tuple[int, int | None] | None:
        """`{3}`, `{3,}`, `{3,5}`; any other brace is itself."""
        close = self.text.find("}", self.at)
        if self.peek() != "{" or close < 0:
            return None
        low, comma, high = self.text[self.at + 1 : close].partition(",")
        if not (low.isascii() and low.isdigit() and (not high or (high.isascii() and high.isdigit()))):
            return None
        if len(low) > 4 or len(high) > 4 or max(int(low), int(high or 0)) > 1000:
            raise self.bad("a repetition of more than 1000 times is not supported")
        self.at = close + 1
        first, last = int(low), int(high) if high else None if comma else int(low)
        if last is not None and last < first:
            raise self.bad("the numbers of a repetition are out of order")
        return first, last


def _folded(chosen: int) -> int:
    return chosen | (chosen & _UPPER) << 32 | (chosen & _LOWER) >> 32

"""Completions in the filter bar: names, operators and values that may be typed next."""

from __future__ import annotations

import re

from msgspec import Struct as Record

from ibdissect.wire.catalog import Catalog, builtin

from .check import FUNCTIONS, SEARCHABLE
from .names import FilterNames, Kind, NameSource, names_of

LIMIT = 40
"""Maximum number of completions."""
LOOK_BACK = 1000
"""Characters before the cursor that are examined; limited because the patterns below are quadratic."""

_WORD = re.compile(r"[A-Za-z0-9_.:-]*\Z")
_OPERATOR = r"(?:===|!==|==|!=|~=|>=|<=|>|<|~|(?:any_eq|all_eq|any_ne|all_ne|eq|ne|gt|lt|ge|le|contains|matches)(?=\s))"
_VALUE = re.compile(rf"([A-Za-z_.][\w.]*)\s*{_OPERATOR}\s*(\"[^\"]*)?\Z")
_ELEMENT = re.compile(r"([A-Za-z_.][\w.]*)\s*(?:(?:not|!)\s*)?in\s*\{(?:[^{}]*(?:,|\.\.))?\s*(\"[^\"]*)?\Z")
_COMPARED = re.compile(rf"{_OPERATOR}\s*(?:\"(?:\\.|[^\"\\])*\"|[^\s\"{{}}()]+)\Z")
_LAST_NAME = re.compile(r"([A-Za-z_.][\w.]*)(?:\[[^\]]*\])?\Z")

_JOIN = (("and", "both conditions"), ("or", "either condition"), ("xor", "exactly one condition"))
_EQUAL = (("==", "any value equals"), ("!=", "all values differ"))
_ORDER = ((">", "greater"), ("<", "less"), (">=", "at least"), ("<=", "at most"))
_SEARCH = (("contains", "holds these bytes or this text"), ("matches", "a regular expression finds something"))


class Completion(Record, frozen=True):
    """A text that may replace `filter[start:cursor]`."""

    text: str
    start: int
    label: str = ""
    """Description shown beside it."""


def complete(text: str, cursor: int, catalog: Catalog | None = None) -> list[Completion]:
    """The completions at the cursor, best first; `text` may be an incomplete filter."""
    names = names_of(catalog if catalog is not None else builtin())
    before = text[: max(0, cursor)]
    found = _WORD.search(before)
    word = found[0] if found else ""
    start = len(before) - len(word)
    # The second end of a range is a separate word.
    if ".." in word:
        start += word.rindex("..") + 2
        word = before[start:]
    head = before[:start]
    tail = head[-LOOK_BACK:]
    asked = _VALUE.search(tail) or _ELEMENT.search(tail)
    if asked is not None:
        return _values(names.find(asked[1]), asked[2], word, start)
    if head.count('"') % 2:
        return []
    stem = tail.rstrip()
    if tail != stem and stem and not stem.endswith(("(", "!", "{", "|", "&", "^", "+", "-", "*", "/", "%", ",")):
        operators = _operators(names, stem)
        if operators:
            return [Completion(op, start, label) for op, label in operators if op.startswith(word)]
    return _names(names, word, start)


def _values(source: NameSource | None, quoted: str | None, word: str, start: int) -> list[Completion]:
    """Named values, inserted as numbers so that Wireshark understands them too."""
    if source is None:
        return []
    if source.kind == "bool":
        return [Completion(value, start) for value in ("True", "False") if value.lower().startswith(word.lower()) and quoted is None]
    spell = "0x{:x}" if any(field.base == "hex" for field in source.fields) else "{}"
    wanted = (quoted[1:] + word if quoted is not None else word).lower()
    start -= len(quoted) if quoted is not None else 0
    offered = []
    for number, name in sorted(source.values.items()):
        shown = spell.format(number)
        if shown.startswith(wanted) or wanted in name.lower():
            offered.append(Completion(shown, start, name))
    return offered[:LIMIT]


def _operators(names: FilterNames, stem: str) -> list[tuple[str, str]]:
    """Operators that may follow the typed text; none if an operand is missing."""
    last = _LAST_NAME.search(stem)
    if last is not None and last[1] in {"and", "or", "not", "xor", "any", "all", "in", *(name for name, _ in _SEARCH)}:
        return []
    if stem.endswith(("}", ")", '"')) or _COMPARED.search(stem):
        return list(_JOIN)
    source = names.find(last[1]) if last is not None else None
    if source is None:
        return []
    kind: Kind = "bytes" if stem.endswith("]") else source.kind
    if kind == "none":
        return list(_JOIN)
    offered = [*_EQUAL, *_ORDER]
    if not stem.endswith("]"):
        offered += [("in {", "one of these"), ("not in {", "none of these")]
    if kind in SEARCHABLE:
        offered += _SEARCH
    if kind == "uint":
        offered.append(("&", "these bits are set"))
    return [*offered, *_JOIN]


def _names(names: FilterNames, word: str, start: int) -> list[Completion]:
    """Names that start with the word, then names that contain it; without `infiniband.` if the word is."""
    plain = word.removeprefix(".")
    begins, holds = [], []
    for name in names.every():
        short = name.removeprefix("infiniband.")
        if name.startswith(plain):
            begins.append(name)
        elif short.startswith(plain):
            begins.append(short)
        elif plain and plain in short:
            holds.append(name)
    order = sorted(begins, key=lambda name: (name.count("."), name)) + sorted(holds, key=lambda name: (name.count("."), name))
    offered = [Completion(name, start, names.label(name)) for name in order[:LIMIT]]
    offered += [Completion(f"{name}(", start, "function") for name in FUNCTIONS if plain and name.startswith(plain)]
    return offered[:LIMIT]

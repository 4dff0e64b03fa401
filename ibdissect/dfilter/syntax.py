"""Parser of display filters: text to a tree whose nodes know their column."""

from __future__ import annotations

import re
from functools import cache, partial
from types import SimpleNamespace
from typing import Any, Literal

from msgspec import Struct as Record
from msgspec.structs import astuple, replace

from ibdissect.errors import FilterError

MAX_TEXT = 1 << 15
"""Longest filter in characters."""
MAX_DEPTH = 100
"""Maximum nesting; limited because later steps recurse."""

COMPARISONS = {
    "eq": "==", "any_eq": "==", "ne": "!=", "all_ne": "!=", "gt": ">", "lt": "<", "ge": ">=", "le": "<=", "all_eq": "===",
    "any_ne": "!==", "~=": "!==", "~": "matches",
}  # fmt: skip
"""Spelling of an operator -> the spelling used in this package."""
_JOINS: dict[str, Literal["and", "or", "xor"]] = {"&&": "and", "||": "or", "^^": "xor", "and": "and", "or": "or", "xor": "xor"}
OPERATOR_WORDS = ("and", "or", "not", "xor", "eq", "ne", "gt", "lt", "ge", "le", "in", "contains", "matches")
_NO_NAMES = {*OPERATOR_WORDS, *COMPARISONS, "any", "all", "bitwise_and"}
"""Words that the grammar does not accept as names or values."""


class FilterNode(Record, frozen=True, kw_only=True):
    """A part of the filter."""

    column: int
    """Where it starts, from 0."""


class Token(FilterNode, frozen=True):
    text: str


class Word(Token, frozen=True):
    """A name, or a value without quotes; the checker decides which."""


class String(Token, frozen=True):
    """A quoted string with its quotes and escapes."""


class Char(Token, frozen=True):
    """A character constant with its quotes."""


class Slice(FilterNode, frozen=True):
    """`of[spec]`."""

    of: FilterNode
    spec: str
    spec_column: int


class Call(FilterNode, frozen=True):
    name: str
    arguments: tuple[FilterNode, ...]


class Binary(FilterNode, frozen=True):
    """`left op right` with op one of & + - * / %."""

    op: str
    left: FilterNode
    right: FilterNode


class Negative(FilterNode, frozen=True):
    """`-of`."""

    of: FilterNode


class Truth(FilterNode, frozen=True):
    """A single operand as condition: it is present, or a computation is not zero."""

    of: FilterNode


class Relation(FilterNode, frozen=True):
    """`a op b op c`: every adjacent pair must satisfy its operator. `quantifier`: any, all or empty."""

    operands: tuple[FilterNode, ...]
    ops: tuple[str, ...]
    quantifier: str = ""


class Range(FilterNode, frozen=True):
    """`low..high`, both included."""

    low: FilterNode
    high: FilterNode


class InSet(FilterNode, frozen=True):
    """`of in {elements}`, `of not in {elements}`."""

    of: FilterNode
    elements: tuple[FilterNode, ...]
    negated: bool = False
    quantifier: str = ""


class Logic(FilterNode, frozen=True):
    """Parts joined by one of `and`, `or`, `xor`."""

    op: Literal["and", "or", "xor"]
    parts: tuple[FilterNode, ...]


class Inverse(FilterNode, frozen=True):
    """`not of`."""

    of: FilterNode


def _depth(tree: FilterNode) -> int:
    """How many levels a tree has; found level by level, so that nothing recurses."""
    level, depth = [tree], 0
    while level:
        parts = [part for node in level for part in astuple(node)]
        level = [one for part in parts for one in (part if isinstance(part, tuple) else (part,)) if isinstance(one, FilterNode)]
        depth += 1
    return depth


class _Builder:
    """One method per grammar rule, called bottom-up while parsing, so that nothing recurses."""

    def word(self, token: Any) -> FilterNode:
        return Word(str(token), column=token.start_pos)

    def string(self, token: Any) -> FilterNode:
        return String(str(token), column=token.start_pos)

    def char(self, token: Any) -> FilterNode:
        return Char(str(token), column=token.start_pos)

    def sliced(self, of: FilterNode, spec: Any) -> FilterNode:
        return Slice(of, str(spec)[1:-1], spec.start_pos + 1, column=of.column)

    def call(self, name: Any, *arguments: FilterNode) -> FilterNode:
        return Call(str(name), arguments, column=name.start_pos)

    def binary(self, left: FilterNode, op: Any, right: FilterNode) -> FilterNode:
        sign = "&" if op == "bitwise_and" else str(op)
        return Binary(sign, left, right, column=left.column)

    def negative(self, sign: Any, of: FilterNode) -> FilterNode:
        return Negative(of, column=sign.start_pos)

    def positive(self, _sign: Any, of: FilterNode) -> FilterNode:
        return of

    def group(self, of: FilterNode) -> FilterNode:
        return of

    def truth(self, of: FilterNode) -> FilterNode:
        return Truth(of, column=of.column)

    def compare(self, first: FilterNode, *rest: Any) -> FilterNode:
        operands = (first, *rest[1::2])
        ops = tuple(COMPARISONS.get(str(op), str(op)) for op in rest[::2])
        return Relation(operands, ops, column=first.column)

    def range(self, low: FilterNode, high: FilterNode) -> FilterNode:
        return Range(low, high, column=low.column)

    def membership(self, of: FilterNode, _in: Any, *elements: FilterNode) -> FilterNode:
        return InSet(of, elements, column=of.column)

    def absence(self, of: FilterNode, _not: Any, _in: Any, *elements: FilterNode) -> FilterNode:
        return InSet(of, elements, True, column=of.column)

    def quantified(self, quantifier: Any, of: Relation | InSet) -> FilterNode:
        return replace(of, quantifier=str(quantifier))

    def logic(self, left: FilterNode, op: Any, right: FilterNode) -> FilterNode:
        name = _JOINS[str(op)]
        # Keep a chain of one operator flat, so that hundreds of parts do not count as nesting.
        parts = left.parts if isinstance(left, Logic) and left.op == name else (left,)
        return Logic(name, (*parts, right), column=left.column)

    def inverse(self, sign: Any, of: FilterNode) -> FilterNode:
        if isinstance(of, Inverse):
            return of.of
        return Inverse(of, column=sign.start_pos)

    def start(self, of: FilterNode | None = None) -> FilterNode | None:
        return of


_SPACE = r"[ \t\r\n\f\v]*"
_WORD = r"(?:[A-Za-z0-9_:]|\.(?!\.))(?:[A-Za-z0-9_:]|\.(?!\.)|-(?=[A-Za-z0-9_:]))*(?![A-Za-z0-9_.:-])"
_CONDITION = re.compile(
    rf"{_SPACE}(?P<left>{_WORD})(?:{_SPACE}(?P<op>===|!==|==|!=|~=|>=|<=|>|<|~){_SPACE}(?P<right>{_WORD}))?"
    rf"{_SPACE}(?P<join>&&|\|\||(?:and|or)(?![A-Za-z0-9_.:-])|\Z)"
)
"""A name or a comparison of two words, and the operator that joins the next condition; same syntax as the grammar."""


def read_plainly(text: str) -> FilterNode | None:
    """Parse names and comparisons joined by one operator, as most filters are, without the grammar, which takes 40 ms to load.

    None for all other filters, including invalid ones.
    """
    tree: FilterNode | None = None
    join, at = "", 0
    while (found := _CONDITION.match(text, at)) is not None:
        left, op, right = found["left"], found["op"], found["right"]
        if left in _NO_NAMES or right in _NO_NAMES:
            return None
        part: FilterNode = Word(left, column=found.start("left"))
        if op:
            words = (part, Word(right, column=found.start("right")))
            part = Relation(words, (COMPARISONS.get(op, op),), column=part.column)
        else:
            part = Truth(part, column=part.column)
        tree = part if tree is None else _Builder().logic(tree, join, part)
        if not found["join"]:
            return tree
        if join not in ("", found["join"]):
            return None
        join, at = found["join"], found.end()
    return None


@cache
def _parser() -> Any:  # lark.Lark; imported only if needed
    from pathlib import Path

    from lark import Lark

    builder = _Builder()
    rules = {name: partial(lambda build, parts: build(*parts), getattr(builder, name)) for name in vars(_Builder) if name[0] != "_"}
    grammar = Path(__file__).with_name("grammar.lark").read_text("utf-8")
    return Lark(grammar, parser="lalr", lexer="basic", transformer=SimpleNamespace(**rules))


def parse(text: str) -> FilterNode | None:
    """The tree of a filter, None for an empty one; raises FilterError if it is invalid."""
    if len(text) > MAX_TEXT:
        raise FilterError(text[:80], f"the filter is longer than {MAX_TEXT} characters")
    return read_plainly(text) or read_by_grammar(text)


def read_by_grammar(text: str) -> FilterNode | None:
    """Parse any filter with the grammar."""
    from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedToken

    try:
        tree: FilterNode | None = _parser().parse(text)
    except UnexpectedCharacters as error:
        raise _unexpected(text, error.pos_in_stream or 0, 1) from None
    except UnexpectedToken as error:
        if error.token.type == "$END":
            raise FilterError(text, "the filter ends where more is expected", column=len(text)) from None
        raise _unexpected(text, error.token.start_pos or 0, len(error.token)) from None
    except UnexpectedEOF:
        raise FilterError(text, "the filter ends where more is expected", column=len(text)) from None
    if tree is not None and _depth(tree) > MAX_DEPTH:
        raise FilterError(text, f"nested more than {MAX_DEPTH} levels deep", column=tree.column)
    return tree


_HINTS = {"=": 'did you mean "=="', "|": 'did you mean "||"', "@": "raw bytes are read by slices: field[0:4]"}


def _unexpected(text: str, at: int, size: int) -> FilterError:
    rest = text[at:]
    if rest[0] == '"' or rest[:2].lower() == 'r"':
        if _open(rest):
            return FilterError(text, "the final quote of a string is missing", column=at)
    elif rest[0] == "'" and "'" not in rest[1:]:
        return FilterError(text, "the final quote of a character is missing", column=at)
    word = rest[:size]
    hint = _HINTS.get(word, "")
    if word.lower() in OPERATOR_WORDS and word != word.lower():
        hint = f'operators are written in small letters: "{word.lower()}"'
    elif not hint and at and text[:at].rstrip()[-1:].isalnum() and word[:1].isalnum():
        hint = 'two conditions are joined by "and" or "or"'
    return FilterError(text, f'"{word}" was unexpected here', column=at, hint=hint)


def _open(rest: str) -> bool:
    """Whether the string at the start of `rest` has no closing quote."""
    at = rest.index('"') + 1
    while at < len(rest):
        if rest[at] == '"':
            return False
        at += 2 if rest[at] == "\\" else 1
    return True

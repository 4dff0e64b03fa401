"""How does a display filter become a condition over the columns of a chunk, and which rows does it select?"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ibdissect.dissect.named import ANSWER_NAMES
from ibdissect.errors import FilterError
from ibdissect.table.locate import Bool
from ibdissect.table.mask import rows_where
from ibdissect.table.table import ChunkTable
from ibdissect.wire.catalog import Catalog, builtin
from ibdissect.wire.expr import And, Compare, Expr, In, Not, Or, Present, Where

from . import literals
from .check import SEARCHABLE, Checker, ends_of, is_literal, is_value
from .names import KIND_NAMES, Source, names_of
from .pattern import Pattern
from .regex import BadPattern
from .relations import Choice, Comparison
from .series import Findings, State
from .syntax import Inverse, Logic, Membership, Node, Relation, String, Truth, parse
from .values import Constant, Function, Named, Operand, there

if TYPE_CHECKING:
    from .answers import Answers

SMALL_RANGE = 256
"""Ranges of a set up to this many numbers are written out, so that the set is one look-up."""


class Filter:
    """A compiled display filter. Feed it the chunks of one capture in order."""

    def __init__(self, text: str, catalog: Catalog, first_ns: int | None = None) -> None:
        self.text, self.catalog = text, catalog
        self._state, self._given = State(first_ns=first_ns), first_ns
        tree = parse(text)
        compiler = _Compiler(Checker(text, names_of(catalog)), self._state)
        self.expr: Expr = And(()) if tree is None else compiler.condition(tree)
        """The condition as the mask engine knows it; `And(())` for an empty filter."""
        self.names: frozenset[str] = frozenset(compiler.checker.used)
        """Every name the filter reads, in full."""
        self._empty = tree is None
        self._own: Answers | None = None

    @property
    def codes(self) -> bool:
        """Whether the filter asks for findings (`ibdissect.code`): `rows` needs them then."""
        return "ibdissect.code" in self.names

    @property
    def pairs(self) -> bool:
        """Whether the filter asks which request a frame answers, or the other way round."""
        return not self.names.isdisjoint(ANSWER_NAMES)

    @property
    def ahead(self) -> bool:
        """Whether it asks for answers that come later: `rows` needs `answers` of the whole capture then."""
        return "ibdissect.response_frame" in self.names

    def rows(self, table: ChunkTable, findings: Findings | None = None, answers: Answers | None = None) -> Bool:
        """Rows of the chunk that the filter selects, bool[n].

        `findings`: codes by frame number. `answers`: who answers whom; without it the filter follows the chunks itself, and
        knows of an answer only from its frame on.
        """
        if self._empty:
            return np.ones(len(table), np.bool_)
        state, times = self._state, table.chunk.time_ns
        if table.chunk.first == 1:
            state.first_ns, state.before_ns = self._given, None
        if state.first_ns is None and len(table):
            state.first_ns = int(times[0])
        state.findings = findings or {}
        if self.pairs:
            state.answers = answers if answers is not None else self._followed(table)
        result = rows_where(self.expr, table)
        if len(table):
            state.before_ns = int(times[-1])
        return result

    def _followed(self, table: ChunkTable) -> Answers:
        """Requests and answers so far, this chunk included."""
        from .answers import Answers  # only such filters need to match requests with answers

        if self._own is None or table.chunk.first == 1:
            self._own = Answers()
        self._own.feed(table)
        return self._own

    def __reduce__(self) -> tuple[Any, ...]:
        # The text says it all. A catalog with plugins stays behind: whoever unpickles has loaded the same ones.
        return compile_filter, (self.text,) if self.catalog is builtin() else (self.text, self.catalog)

    def __repr__(self) -> str:
        return f"Filter({self.text!r})"


def compile_filter(text: str, catalog: Catalog | None = None, *, first_ns: int | None = None) -> Filter:
    """A filter ready for chunks; FilterError says what is wrong and where.

    `first_ns` is the time of frame 1; without it the filter learns it from the first chunk that it sees.
    """
    return Filter(text, catalog if catalog is not None else builtin(), first_ns)


class _Compiler:
    """Conditions of the syntax tree as conditions of the mask engine."""

    def __init__(self, checker: Checker, state: State) -> None:
        self.checker, self.state = checker, state

    def condition(self, node: Node) -> Expr:
        if isinstance(node, Logic):
            parts = tuple(self.condition(part) for part in node.parts)
            return And(parts) if node.op == "and" else Or(parts) if node.op == "or" else self.odd(parts)
        if isinstance(node, Inverse):
            return Not(self.condition(node.of))
        if isinstance(node, Relation):
            found = [self.comparison(node, i) for i in range(len(node.ops))]
            return found[0] if len(found) == 1 else And(tuple(found))
        if isinstance(node, Membership):
            inside = self.membership(node)
            return Not(inside) if node.negated else inside
        assert isinstance(node, Truth)
        return self.truth(node.of)

    def where(self, holds: Callable[[ChunkTable, State], Bool]) -> Expr:
        """A condition that brings its own code."""
        state = self.state
        return Where(None, lambda table: holds(table, state))

    def odd(self, parts: tuple[Expr, ...]) -> Expr:
        """True where an odd number of the parts is: what a chain of xor means."""
        return Where(None, lambda table: np.logical_xor.reduce([rows_where(part, table) for part in parts]))

    def truth(self, node: Node) -> Expr:
        checker = self.checker
        if is_value(node):
            raise checker.error(node, "a value alone is no condition", "compare a field with it")
        operand = checker.left(node, "")
        if isinstance(operand, Function):
            raise checker.error(node, "a function alone is no condition", "compare it with a value")
        if isinstance(operand, Named) and (operand.source.fields or operand.source.structs):
            return _present(operand.source)
        if isinstance(operand, Named) and operand.source.mark is not None:
            return operand.source.mark
        return self.where(lambda table, state: there(operand, table, state))

    def comparison(self, node: Relation, i: int) -> Expr:
        checker, op = self.checker, node.ops[i]
        left = checker.left(node.operands[i], op)
        if left.kind == "none":
            raise checker.error(node.operands[i], f"{KIND_NAMES['none']} can only be tested for presence")
        right = node.operands[i + 1]
        if op in ("contains", "matches"):
            if left.kind not in SEARCHABLE:
                raise checker.error(node.operands[i], f'"{op}" cannot look into {KIND_NAMES[left.kind]}')
            if op == "matches":
                compared = Comparison(op, left, left, node.quantifier, self.pattern(right))
            else:
                compared = Comparison(op, left, self.needle(right, left), node.quantifier)
            return self.where(compared.rows)
        other = checker.right(right, left)
        simple = _simple_comparison(op, left, other) if not node.quantifier else None
        return simple if simple is not None else self.where(Comparison(op, left, other, node.quantifier).rows)

    def needle(self, node: Node, left: Operand) -> Operand:
        """What `contains` looks for. In a MAC address that is any number of bytes."""
        checker = self.checker
        if left.kind == "ether" and is_literal(node, checker.names):
            if isinstance(node, String):
                raise checker.error(node, f"{node.text} is a string, but the field is {KIND_NAMES['ether']}", "leave the quotes out")
            return checker.literal(node, "bytes", None)
        return checker.right(node, left)

    def pattern(self, node: Node) -> Pattern:
        checker = self.checker
        if not isinstance(node, String):
            raise checker.error(node, '"matches" needs a regular expression in double quotes')
        # The regular expression has its own escapes; those of strings are applied first, as in Wireshark.
        text = checker.value(node, lambda: literals.unescape(node.text))
        try:
            return Pattern(text)
        except BadPattern as bad:
            inside = node.column + len(node.text) - len(node.text.lstrip("rR")) + 1 + bad.at
            raise checker.error(min(inside, node.column + len(node.text) - 1), bad.reason) from None

    def membership(self, node: Membership) -> Expr:
        checker = self.checker
        of = checker.left(node.of, "in")
        if not isinstance(of, Named) or of.kind == "none":
            raise checker.error(node.of, "only a field may be tested for membership in a set")
        choices = tuple(tuple(checker.right(end, of) for end in ends_of(element)) for element in node.elements)
        # "any" and "all" do not count in front of "not in", as in Wireshark: no value may be in the set.
        quantifier = "" if node.negated else node.quantifier
        numbers = _numbers_of(of, choices) if not quantifier else None
        if numbers is not None:
            parts = tuple(In(field, numbers) for field in of.source.fields)
            return parts[0] if len(parts) == 1 else Or(parts)
        return self.where(Choice(of, choices, quantifier).rows)


def _present(source: Source) -> Expr:
    """Any field or structure of that name is there. A field without a condition is there where its structure is."""
    parts: dict[object, Expr] = {}
    for field in source.fields:
        what = field if field.when is not None or field.owner is None else field.owner
        parts.setdefault(what, Present(what))
    for struct in source.structs:
        parts.setdefault(struct, Present(struct))
    found = tuple(parts.values())
    return found[0] if len(found) == 1 else Or(found)


def _simple_comparison(op: str, left: Operand, right: Operand) -> Expr | None:
    """A number field beside a number, as the engine's own condition; None for anything else."""
    if not (isinstance(left, Named) and left.source.fields and left.kind in ("uint", "bool") and op not in ("===", "!==")):
        return None
    if not (isinstance(right, Constant) and isinstance(right.value, int)):
        return None
    fields, value = left.source.fields, right.value
    if len(fields) == 1:
        return Compare(op, fields[0], value)
    if op == "!=":
        equal = Or(tuple(Compare("==", field, value) for field in fields))
        return And((_present(left.source), Not(equal)))
    return Or(tuple(Compare(op, field, value) for field in fields))


def _numbers_of(of: Named, choices: tuple[tuple[Operand, ...], ...]) -> frozenset[int] | None:
    """All numbers of a set, when it is a set of a few numbers for a number field."""
    if not of.source.fields or of.kind not in ("uint", "bool"):
        return None
    numbers: set[int] = set()
    for choice in choices:
        ends = [end.value for end in choice if isinstance(end, Constant) and isinstance(end.value, int)]
        if len(ends) != len(choice) or ends[-1] - ends[0] > SMALL_RANGE:
            return None
        numbers.update(range(ends[0], ends[-1] + 1))
    return frozenset(numbers)


__all__ = ["Filter", "FilterError", "compile_filter"]

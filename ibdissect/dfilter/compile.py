"""Compilation of a display filter into a condition over the columns of a chunk, and the rows that it selects."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ibdissect.decode import Bool, ChunkTable
from ibdissect.decode.conditions import rows_where
from ibdissect.dissect.named_values import ANSWER_NAMES, MESSAGE_NAMES
from ibdissect.wire.catalog import Catalog, builtin
from ibdissect.wire.column import ComputedField
from ibdissect.wire.dialogue import is_notes
from ibdissect.wire.expr import Among, And, Compare, Expr, In, Not, Or, Present, Search, Where
from ibdissect.wire.spec import Struct

from .check import Checker
from .frame_properties import FINDING_NAMES, NODE_NAMES, Findings, State
from .names import NameSource, names_of
from .operands import Computation, Constant, NamedOperand, NotZero, Operand
from .syntax import parse
from .typed_tree import Compared, Condition, Exists, IsOneOf, Joined, Matched, Negated

if TYPE_CHECKING:
    from ibdissect.subnet.nodes_of_packets import Ends

    from .answers import AnswerFrames

SMALL_RANGE = 256
"""Ranges in a set with up to this many numbers are expanded, so that membership is one look-up."""


class Filter:
    """A compiled display filter. Feed it the chunks of one capture in order."""

    edges: Sequence[int] = ()
    last = (1 << 63) - 1
    """It selects no ranges of frames."""

    def __init__(
        self, text: str, catalog: Catalog, first_ns: int | None = None, hide_keys: bool = False,
        ends: Ends | None = None,
    ) -> None:
        self.text, self.catalog = text, catalog
        self._state, self._given = State(first_ns=first_ns, hide_keys=hide_keys, ends=ends), first_ns
        tree, checker = parse(text), Checker(text, names_of(catalog), self._state)
        self.expr: Expr = And(()) if tree is None else _compiled(checker.condition(tree))
        """The condition for `ibdissect.decode.conditions`; `And(())` for an empty filter."""
        self.names: frozenset[str] = frozenset(checker.used)
        """The full names that the filter reads."""
        self.codes = not self.names.isdisjoint(FINDING_NAMES)
        """Whether the filter uses findings; then `rows` needs them."""
        self.nodes = not self.names.isdisjoint(NODE_NAMES)
        """Whether the filter uses names of nodes; then it selects nothing without `ends`."""
        self.pairs = not self.names.isdisjoint(ANSWER_NAMES)
        """Whether the filter uses names that match requests with answers."""
        self._whole = not self.names.isdisjoint(MESSAGE_NAMES)
        self.ahead = self._whole or "ibdissect.response_frame" in self.names
        """Whether the filter uses answers in later frames, or messages; then `rows` needs `answers` of the whole capture."""
        self._empty = tree is None
        self._own: AnswerFrames | None = None

    @property
    def filter(self) -> Filter:
        """Itself: it selects by nothing else."""
        return self

    @property
    def ends(self) -> Ends | None:
        """Which nodes send and receive packets, as far as the filter was told."""
        return self._state.ends

    def know(self, ends: Ends) -> None:
        """Say which nodes send and receive packets."""
        self._state.ends = ends

    @property
    def hidden_checksums(self) -> int:
        """How many checksums it did not compare so far, because they would reveal a key."""
        return self._state.hidden_checksums

    def rows(
        self, table: ChunkTable, findings: Findings | None = None, answers: AnswerFrames | None = None, marked: Collection[int] = ()
    ) -> Bool:  # fmt: skip
        """Rows of the chunk that the filter selects, bool[n].

        `findings`: by frame number. `answers`: matched requests and answers; without it the filter matches the chunks it
        is fed, and knows an answer only from the chunk that contains it. `marked`: frames that are marked.
        """
        if self._empty:
            return np.ones(len(table), np.bool_)
        state = self._state
        state.begin(table, self._given)
        state.findings, state.marked = findings or {}, marked
        if self.pairs:
            state.answers = answers if answers is not None else self._followed(table)
        result = rows_where(self.expr, table.shown)
        state.end(table)
        return result

    def _followed(self, table: ChunkTable) -> AnswerFrames:
        """Requests and answers so far, including this chunk."""
        from .answers import AnswerFrames  # imported only if needed

        if self._own is None or table.chunk.first == 1:
            self._own = AnswerFrames(messages=self._whole)
        self._own.feed(table)
        return self._own

    def __reduce__(self) -> tuple[Any, ...]:
        # The text is enough. The built-in catalog is not pickled; the receiver has it too.
        catalog = None if self.catalog is builtin() else self.catalog
        return partial(compile_filter, hide_keys=self._state.hide_keys, ends=self._state.ends), (self.text, catalog)

    def __repr__(self) -> str:
        return f"Filter({self.text!r})"


def compile_filter(
    text: str, catalog: Catalog | None = None, *, first_ns: int | None = None, hide_keys: bool = False,
    ends: Ends | None = None,
) -> Filter:  # fmt: skip
    """Compile a filter; raises FilterError with reason and column.

    `first_ns` is the time of frame 1, by default taken from the first chunk. `hide_keys`: comparisons with keys are refused and
    their bytes read as zero, because otherwise a key could be guessed bit by bit. `ends`: which nodes send and receive packets.
    """
    return Filter(text, catalog if catalog is not None else builtin(), first_ns, hide_keys, ends)


def _compiled(node: Condition) -> Expr:
    """The condition for `ibdissect.decode.conditions`."""
    if isinstance(node, Joined):
        parts = tuple(map(_compiled, node.parts))
        return And(parts) if node.op == "and" else Or(parts) if node.op == "or" else _odd(parts)
    if isinstance(node, Negated):
        return Not(_compiled(node.of))
    if isinstance(node, Compared):
        if node.op == "contains":
            return Compare(node.op, _searched(node.left), _plain(_searched(node.right)), node.every)
        return Compare(node.op, _plain(node.left), _plain(node.right), node.every)
    if isinstance(node, Matched):
        return Search(_searched(node.left), node.pattern.search, node.every)
    if isinstance(node, IsOneOf):
        return _membership(node)
    assert isinstance(node, Exists)
    return _present(node.of)


def _odd(parts: tuple[Expr, ...]) -> Expr:
    """A chain of xor: true if an odd number of parts is true."""
    return Where(None, lambda table: np.logical_xor.reduce([rows_where(part, table) for part in parts]))


def _membership(node: IsOneOf) -> Expr:
    numbers = None if node.every else _numbers_of(node.choices)
    if numbers is not None:
        return In(_plain(node.of), numbers)
    return Among(_plain(node.of), tuple(tuple(map(_plain, choice)) for choice in node.choices), node.every)


def _plain(operand: Operand) -> object:
    """Simplify an operand for `ibdissect.decode.conditions`: a constant to its value, a single field to the field."""
    if isinstance(operand, Constant):
        return operand.value
    if (
        isinstance(operand, NamedOperand)
        and len(operand.source.fields) == 1
        and not (operand.state.hide_keys and (operand.kind not in ("uint", "bool") or operand.source.fields[0].holds == "checksum"))
    ):
        return operand.source.fields[0]
    return operand


def _searched(operand: Operand) -> Operand:
    """Extend a protocol to the end of the frame for a search, as in Wireshark."""
    if isinstance(operand, NamedOperand) and operand.source.whole:
        return NamedOperand(operand.kind, operand.source, operand.state, to_end=True)
    return operand


def _present(operand: Operand) -> Expr:
    if isinstance(operand, Computation):
        return Present(NotZero(operand.kind, operand))
    if not isinstance(operand, NamedOperand):
        return Present(operand)
    source = operand.source
    if source.mark is not None:
        return source.mark
    return _any_of(source) if source.fields or source.structs else Present(operand)


def _any_of(source: NameSource) -> Expr:
    """Any field or structure of that name is present. A field without a condition is present if its structure is."""
    parts: dict[object, Expr] = {}
    for field in source.fields:
        alone = field.when is not None or field.owner is Struct or (isinstance(field, ComputedField) and is_notes(field))
        what = field if alone else field.owner
        parts.setdefault(what, Present(what))
    for struct in source.structs:
        parts.setdefault(struct, Present(struct))
    found = tuple(parts.values())
    return found[0] if len(found) == 1 else Or(found)


def _numbers_of(choices: tuple[tuple[Operand, ...], ...]) -> frozenset[int] | None:
    """All numbers of a set if it has only numbers and small ranges, else None."""
    numbers: set[int] = set()
    for choice in choices:
        ends = [end.value for end in choice if isinstance(end, Constant) and isinstance(end.value, int)]
        if len(ends) != len(choice) or ends[-1] - ends[0] > SMALL_RANGE:
            return None
        numbers.update(range(ends[0], ends[-1] + 1))
    return frozenset(numbers)

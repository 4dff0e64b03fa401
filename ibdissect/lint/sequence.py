"""The words of rules about sequences of packets, `previous`, `within` and `unless`: conditions on earlier and on later packets.

`previous(field)` is a value of an earlier occurrence in the same conversation, `within(seconds)` how long ago that was, `unless(...)` what
must not follow. A rule with one of these words in its `when` judges occurrence by occurrence, in capture order, across windows.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any, Protocol, cast

import numpy as np
from msgspec import Struct as Record

from ibdissect.bounded import BoundedDict, Dropped
from ibdissect.decode import Bool, ChunkTable
from ibdissect.decode.conditions import Evaluator
from ibdissect.decode.conversation_keys import conversations
from ibdissect.decode.equal_rows import keys_of
from ibdissect.decode.inner_structures import with_pdus
from ibdissect.decode.operand_values import NumberSeries
from ibdissect.errors import SpecError
from ibdissect.traffic.capture_loss import CaptureLoss
from ibdissect.wire.expr import And, Arith, Compare, Expr, In, Not, Or, Present, Value
from ibdissect.wire.spec import Field, Struct

from .finding import Related, Severity
from .rule import LEARNT, Context, Hit, Rule
from .stateless_rules import hit_at

Make = Callable[[ChunkTable, int, int, Hashable], Hit]
"""Makes the hit of an occurrence, of its table, its index, the frame of the earlier one (0: none), and its conversation."""
SECOND_NS = 1_000_000_000
MAX_KEPT = 65536
"""Conversations whose latest occurrence is kept, and findings that wait for what follows; the oldest are given up first."""


class Previous(Value, Record, frozen=True, eq=False):
    """A value of an earlier occurrence; see `previous`."""

    field: Field[Any]
    where: Expr | None
    same: tuple[Field[Any], ...]
    one_way: bool

    def fields(self) -> Iterator[Field[Any]]:
        """None: the values that it is computed from are elsewhere."""
        yield from ()

    def series(self, evaluator: Evaluator) -> NumberSeries:
        """Its values in the occurrences that have one."""
        return cast("Remembers", evaluator).earlier(self)


class Remembers(Protocol):
    """An evaluator of occurrences whose earlier ones are known."""

    def earlier(self, word: Previous) -> NumberSeries:
        """The values of `previous(...)`, in the occurrences that have one."""
        raise NotImplementedError


class Within(Expr, Record, frozen=True, eq=False):
    """The earlier occurrence was not long ago; see `within`."""

    seconds: float


class Unless(Expr, Record, frozen=True, eq=False):
    """What must not follow; see `unless`."""

    what: Expr
    same: tuple[Field[Any], ...]
    seconds: float


def previous(
    field: Field[Any], *, where: Expr | None = None, same: Field[Any] | tuple[Field[Any], ...] = (), one_way: bool = False
) -> Previous:
    """The value of a field in the occurrence before, in the same conversation: `when = Pdu.sequence <= previous(Pdu.sequence)`.

    `where`: in the latest one for which a condition holds. `same`: in the latest one with equal values of these fields. `one_way`: of those
    in the same direction only. Where there is none, every comparison is false.
    """
    return Previous(field, where, _tuple(same), one_way)


def within(seconds: float) -> Within:
    """The occurrence that `previous` is about was at most so many seconds ago."""
    return Within(seconds)


def unless(what: Expr, *, within: float, same: Field[Any] | tuple[Field[Any], ...] = ()) -> Unless:
    """That `what` does not hold for a later occurrence of the conversation, with equal values of `same`, within so many seconds.

    The rule reports when that time is over; what the capture does not show to the end of it is not reported. Nor is anything in
    conversations in which `what` was never seen: perhaps that direction was not captured. Where the capture may have lost packets
    meanwhile, it is an info.
    """
    return Unless(what, _tuple(same), within)


def _tuple(same: Field[Any] | tuple[Field[Any], ...]) -> tuple[Field[Any], ...]:
    return same if isinstance(same, tuple) else (same,)


def waits_in_vain(condition: Expr) -> bool:
    """Whether a condition is about what does not follow, which a capture that lost packets cannot tell."""
    return any(isinstance(word, Unless) for word in words_of(condition))


def is_sequence(condition: object) -> bool:
    """Whether a condition needs more than one occurrence."""
    return next(words_of(condition), None) is not None


def is_stateless(rule: type[Rule]) -> bool:
    """Whether a rule has a condition that one packet is enough for, so that it may judge packets whose subnet is not certain."""
    return rule.when is not None and not rule.by_answers and not is_sequence(rule.when)


def words_of(condition: object, *, negated: bool = True) -> Iterator[Previous | Within | Unless]:
    """The words of this module in a condition, in its order; those in a `~(...)` if `negated`. All rules are asked, so it is one loop."""
    open_ = [condition]
    while open_:
        one = open_.pop()
        kind = type(one)
        if kind in _WORDS:
            yield cast("Previous | Within | Unless", one)
        elif kind in _PARTS and (negated or kind is not Not):
            for name in _PARTS[kind]:
                part = getattr(one, name)
                if type(part) is tuple:
                    open_ += part[::-1]
                else:
                    open_.append(part)


_WORDS = frozenset({Previous, Within, Unless})
_PARTS: dict[type, tuple[str, ...]] = {
    And: ("parts",), Or: ("parts",), Not: ("part",), Compare: ("right", "left"), Arith: ("right", "left"), In: ("value",),
    Present: ("what",),
}  # fmt: skip


class _Values(Record):
    """Of each occurrence in a window: the value, frame and time of an earlier one; frame 0: there is none."""

    values: Any
    frames: Any
    times: Any


class _InSequence(Evaluator):
    """Judges the occurrences of a window."""

    def __init__(self, table: ChunkTable, struct: type[Struct], previous: dict[Previous, _Values]) -> None:
        super().__init__(table, struct)
        self.previous = previous

    def earlier(self, word: Previous) -> NumberSeries:
        values = self.previous[word]
        there = np.flatnonzero(values.frames > 0)
        return NumberSeries(there, values.values[there])

    def mask(self, expr: Expr) -> Bool:
        if isinstance(expr, Within):
            (values, *_), rows = self.previous.values(), self.table.occurrences(cast("type[Struct]", self.domain)).rows
            ago = self.table.chunk.time_ns[rows] - values.times
            return cast("Bool", (values.frames > 0) & (ago >= 0) & (ago <= expr.seconds * SECOND_NS))
        if isinstance(expr, Unless):
            return np.ones(self.size, np.bool_)
        return super().mask(expr)

    def conjunction(self, expr: And) -> Bool:
        found = np.ones(self.size, np.bool_)
        for part in expr.parts:
            found &= self.mask(part)
        return found


class _Waiting(Record):
    """A finding that waits for what may follow."""

    hit: Hit
    until_ns: int


class Sequence:
    """The state of one rule. Feed it tables in order: `take` gives the hits, `end` those whose time is over at the end."""

    def __init__(self, on: type[Struct], when: Expr) -> None:
        words = list(words_of(when))
        self.on, self.when = on, when
        self.previous = tuple(dict.fromkeys(word for word in words if isinstance(word, Previous)))
        follows = [word for word in words if isinstance(word, Unless)]
        self.unless = follows[0] if follows else None
        if len(follows) > 1 or any(isinstance(word, Unless) for part in _alternatives(when) for word in words_of(part)):
            raise SpecError(on.__name__, "when", "`unless` may be said once, and joined to other conditions by & only")
        if any(isinstance(word, Within) for word in words) and len(self.previous) != 1:
            raise SpecError(on.__name__, "when", "`within` is about one `previous`, which the condition must have")
        used = [field for word in words if isinstance(word, Previous) for field in (word.field, *word.same)]
        used += list(self.unless.same) if self.unless is not None else []
        if wrong := next((field for field in used if field.owner is not on), None):
            raise SpecError(on.__name__, "when", f"{wrong!r} is no field of {on.__name__}, whose occurrences the rule compares")
        self.dropped = Dropped("states of rules about sequences")
        self._latest = [BoundedDict[Hashable, tuple[int, int, int]](MAX_KEPT, self.dropped) for _ in self.previous]
        self._waiting = BoundedDict[Hashable, _Waiting](MAX_KEPT, self.dropped)
        self._seen = BoundedDict[Hashable, None](MAX_KEPT, self.dropped)
        """Conversations in which what should follow was seen."""
        self._now_ns = 0

    def take(self, table: ChunkTable, make: Make) -> Iterator[Hit]:
        """The hits of a window."""
        if not len(table):
            return
        of = with_pdus(table, self.on)
        found = of.occurrences(self.on)
        if len(found):
            yield from self._judge(of, make)
        self._now_ns = max(self._now_ns, int(table.chunk.time_ns.max()))
        yield from self.over()

    def _judge(self, table: ChunkTable, make: Make) -> Iterator[Hit]:
        rows = table.occurrences(self.on).rows
        spoken = conversations(table, rows)
        earlier = {one: self._earlier(table, n, one, rows.tolist(), spoken) for n, one in enumerate(self.previous)}
        holds = _InSequence(table, self.on, earlier).mask(self.when)
        follows, same = self.unless, self._same(table, self.unless.same) if self.unless is not None else []
        met = Evaluator(table, self.on).mask(follows.what) if follows is not None else np.zeros(len(rows), np.bool_)
        proof = next(iter(earlier.values()), None)
        for i in np.flatnonzero(holds | met).tolist():
            if met[i]:
                self._seen.put(spoken[i][0], None)
                waited = self._waiting.pop((spoken[i][0], same[i]), None)
                if waited is not None and waited.until_ns < int(table.chunk.time_ns[rows[i]]):
                    yield waited.hit
            if holds[i]:
                hit = make(table, i, int(proof.frames[i]) if proof is not None else 0, spoken[i][0])
                if follows is None:
                    yield hit
                    continue
                key = spoken[i][0], same[i]
                if key not in self._waiting:
                    waits = _Waiting(hit, hit.time_ns + int(follows.seconds * SECOND_NS))
                    self._waiting.put(key, waits, hit.frame, hit.time_ns)

    def over(self) -> Iterator[Hit]:
        """The hits that waited long enough, in frame order."""
        late = [(key, one) for key, one in self._waiting.items() if one.until_ns < self._now_ns]
        for key, one in sorted(late, key=lambda each: each[1].hit.frame):
            conversation = key[0]  # type: ignore[index]
            if conversation in self._seen:
                del self._waiting[key]
                yield one.hit

    def _same(self, table: ChunkTable, fields: tuple[Field[Any], ...]) -> list[tuple[Any, ...]]:
        return keys_of([table.values(field) for field in fields], len(table.occurrences(self.on)))

    def _earlier(self, table: ChunkTable, number: int, one: Previous, rows: list[int], spoken: list[tuple[Any, Any]]) -> _Values:
        """For each occurrence the latest one before with equal key for which `where` holds."""
        latest, same = self._latest[number], self._same(table, one.same)
        counts = Evaluator(table, self.on).mask(one.where) if one.where is not None else np.ones(len(rows), np.bool_)
        times, first = table.chunk.time_ns, table.chunk.first
        values = table.values(one.field)
        size = len(rows)
        found = _Values(np.zeros(size, np.int64), np.zeros(size, np.int64), np.zeros(size, np.int64))
        for i, row in enumerate(rows):
            key = (spoken[i] if one.one_way else spoken[i][0]), same[i]
            before = latest.get(key)
            if before is not None:
                found.values[i], found.frames[i], found.times[i] = before
            if counts[i]:
                latest.put(key, (int(values[i]), first + row, int(times[row])), first + row, int(times[row]))
        return found


def _alternatives(condition: object) -> Iterator[object]:
    """What stands in an Or or a Not."""
    if isinstance(condition, Or):
        yield from condition.parts
    elif isinstance(condition, Not):
        yield condition.part
    elif isinstance(condition, And):
        for part in condition.parts:
            yield from _alternatives(part)


def sequence_of(rule: Rule) -> Sequence:
    """The state of a rule."""
    found: Sequence | None = vars(rule).get("sequence")
    if found is None:
        assert rule.on is not None and rule.when is not None
        found = vars(rule)["sequence"] = Sequence(rule.on, rule.when)
        vars(rule)["dropped"] = found.dropped  # CAP016 asks rules
    return found


def judge_window(rule: Rule, table: ChunkTable, context: Context) -> Iterator[Hit]:
    """What such a rule does in each window; what it is declared with is all it needs."""
    sequence = sequence_of(rule)

    def hit(of: ChunkTable, i: int, earlier: int, key: Hashable) -> Hit:
        found = hit_at(rule, of, np.array([i]))
        if rule.flow:
            key = tuple(of.values(field)[i].tobytes() for field in rule.flow)
        if earlier:
            found.related, found.evidence = (Related(earlier, "the one before"),), LEARNT
        found.key = key
        return found

    yield from _as_sure_as_seen(sequence, sequence.take(table, hit), context)


def judge_end(rule: Rule, context: Context) -> Iterator[Hit]:
    """What is over when the capture ends."""
    yield from _as_sure_as_seen(sequence_of(rule), sequence_of(rule).over(), context)


def _as_sure_as_seen(sequence: Sequence, hits: Iterator[Hit], context: Context) -> Iterator[Hit]:
    """What did not follow may have been lost by the capture: then it is an info, as for all rules about silence."""
    for hit in hits:
        if sequence.unless is not None:
            loss = context.get(CaptureLoss)
            if loss.between(hit.frame, hit.time_ns + int(sequence.unless.seconds * SECOND_NS)) or not loss.proves_silence(hit.time_ns):
                hit.severity = Severity.INFO
        yield hit

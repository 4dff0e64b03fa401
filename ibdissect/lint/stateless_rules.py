"""Stateless rules: the places where their conditions hold, and the hits there."""

from __future__ import annotations

import string
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ibdissect.decode import Bool, ChunkTable, Int
from ibdissect.decode.computed_fields import value_in
from ibdissect.decode.conditions import Evaluator
from ibdissect.decode.equal_rows import is_in
from ibdissect.decode.ignored_data import undefined
from ibdissect.decode.inner_structures import of_streams
from ibdissect.decode.reassembled import SaRecord, starts
from ibdissect.decode.repeated_smps import MAX_JUDGED, SMALL, rests_on_content
from ibdissect.engine.seen_before import Judged
from ibdissect.wire.places import Inside, Mad
from ibdissect.wire.spec import Struct

from .finding import Span, value_of
from .inapplicable_components import compares_copies
from .rule import Hit, Rule, Seen

Holding = list[tuple[Rule, Bool]]
"""Rules that hold somewhere, and where: bool[k], one per occurrence of `on`, or bool[n], one per row, for rules on frames."""
HeldInPart = list[tuple[Rule, ChunkTable | None, Bool]]
"""The same with what is left of the table, in which they hold; None: the whole table, which would refer to itself if it kept them."""


class Conditions:
    """The rules that are declared as a condition, by the structure that they judge."""

    def __init__(
        self, by_struct: Mapping[type[Struct] | None, Sequence[Rule]], about_ports: Collection[str],
        failed: Callable[[str, Exception], None], spent: Callable[[Rule, float], None] | None,
    ) -> None:  # fmt: skip
        """`about_ports`: codes of rules that also ask the followers. `failed` is called with what raises, and the exception; `spent` with
        each rule and the seconds that its condition took."""
        self.by_struct, self.about_ports, self.failed, self.spent = by_struct, about_ports, failed, spent
        self.asked: dict[bool, dict[type[Struct] | None, list[Rule]]] = {False: {}, True: {}}
        """Those that do not ask the followers, and those that do."""
        for struct, rule in ((struct, rule) for struct, rules in by_struct.items() for rule in rules):
            self.asked[rule.code in about_ports].setdefault(struct, []).append(rule)
        self.judged = {of_ports: Judged(MAX_JUDGED) for of_ports in (False, True)}
        """What rules that do not ask the followers judged of subnet management packets, and what those judged that do."""

    def holding(self, table: ChunkTable, content: Int | None, *, of_ports: bool) -> HeldInPart:
        """Where the rules hold that ask the followers (`of_ports`), or those that do not: each alone if another of its structure raises.

        `content`: a number for all that they ask of each row, int64[n]; 0: unknown. Rules that ask nothing else judge what is new of it,
        so tell with `blame` where they found something. None: they judge everything.
        """
        rest = table
        if content is not None and np.count_nonzero(content) >= SMALL:
            left = np.zeros(len(table), np.uint8)
            self.judged[of_ports].left(content, left)
            if 2 * np.count_nonzero(left) < len(table):
                rest = table.only_rows(left != 0)
                if not of_ports:
                    table.news = rest
        found: HeldInPart = []
        for struct, rules in self.asked[of_ports].items():
            if rest is not table:
                new = [rule for rule in rules if rule.when is not None and rests_on_content(struct, rule.when)]
                found += [(rule, rest, hits) for rule, hits in self._of_struct(struct, new, rest)]
                rules = [rule for rule in rules if rule not in new]
            found += [(rule, None, hits) for rule, hits in self._of_struct(struct, rules, table)]
        return found

    def blame(self, rule: Rule, content: Int) -> None:
        """A rule found something: what holds the same is judged again."""
        self.judged[rule.code in self.about_ports].blame(content)

    def _of_struct(self, struct: type[Struct] | None, rules: Sequence[Rule], table: ChunkTable) -> Holding:
        found: Holding = []
        try:
            found += self.of_rules(struct, rules, table)
        except Exception:
            for rule in rules:
                try:
                    found += self.of_rules(struct, [rule], table)
                except Exception as error:
                    self.failed(f"rule {rule.code}", error)
        return found

    def of_rules(self, struct: type[Struct] | None, rules: Sequence[Rule], table: ChunkTable) -> Holding:
        """Where rules about one structure hold."""
        if not rules or (struct is not None and not len(table.occurrences(struct))):
            return []
        found, evaluator = [], Evaluator(table, struct)
        places = table.catalog.places(struct) if struct is not None else ()
        carried = struct if any(isinstance(place, (Mad, Inside)) for place in places) else None
        for rule in rules:
            assert rule.when is not None
            start = time.perf_counter() if self.spent is not None else 0.0
            hits = evaluator.mask(rule.when)
            if self.spent is not None:
                self.spent(rule, time.perf_counter() - start)
            count = np.count_nonzero(hits)
            if count and carried is not None:
                hits = hits & ~table.once(undefined)[table.occurrences(carried).rows]  # what a failed answer carries means nothing
                count = np.count_nonzero(hits)
            if count or compares_copies(rule):
                found.append((rule, hits))
        return found


def judged(table: ChunkTable, shown: ChunkTable, struct: type[Struct] | None) -> Bool | None:
    """Which occurrences of a structure in `table.shown` rules judge: those of the table, and those in records that straddle segments.

    None if no such record has the structure.
    """
    if struct is None or not shown.joined:
        return None
    found = shown.occurrences(struct)
    if len(found) and struct in of_streams(table.catalog):
        return np.ones(len(found), np.bool_)
    if not len(found) or found.at.max() < shown.window:
        return None
    apart = shown.once(of_records)[np.searchsorted(shown.once(starts), found.at, "right")]
    return apart | is_in(found.at, table.occurrences(struct).at) if apart.any() else None


def of_records(shown: ChunkTable) -> Bool:
    """Which of `joined` are records or PDUs, not messages; first of all, bool[k + 1], the window itself, which is none."""
    return np.array([False, *(isinstance(one, SaRecord) or one.stream is not None for _, one in shown.joined)])


def hit_at(rule: Rule, table: ChunkTable, entries: Int) -> Hit:
    """The hit for occurrences of `rule.on` in one row, int[n]; its message describes the first."""
    assert rule.on is not None
    view, found, at = table.view(rule.on, int(entries[0])), table.occurrences(rule.on), rule.at
    seen = Seen(table, int(found.rows[entries[0]]))
    where = view if at is None or at.owner is rule.on else seen.first(at.owner)
    spans: tuple[Span, ...] = ()
    if at is not None and where is not None:
        low, high = at.span
        offsets = [where.offset]
        if where is view and rule.on.size:
            offsets = (found.at[entries] - table.chunk.offset[seen.row]).tolist()
        spans = tuple(Span(seen.frame, offset + low, high - low) for offset in offsets)
        if where is view and table.joined:
            spans = tuple(span for start in found.at[entries].tolist() for span in _spans(table, seen, start + low, start + high))
    value = value_of(at, at.__get__(where, rule.on)) if at is not None and spans else None
    arguments = _arguments(rule, view, seen, {**_columns(rule, seen, int(entries[0])), **rule.computed(seen, int(entries[0]))})
    return Hit(frame=seen.frame, time_ns=seen.time_ns, arguments=arguments, spans=spans, field=at, value=value)


def _spans(table: ChunkTable, seen: Seen, start: int, stop: int) -> Iterator[Span]:
    """Where bytes of the data stand in frames; those of a record that straddles segments, in several."""
    if start < table.window:
        yield Span(seen.frame, start - int(table.chunk.offset[seen.row]), stop - start)
        return
    begins = table.once(starts)
    one = int(np.searchsorted(begins, start, "right")) - 1
    at = int(begins[one])
    for piece in table.joined[one][1].spans:
        low, high = max(start, at), min(stop, at + piece.length)
        if low < high:
            yield Span(piece.frame, piece.offset + low - at, high - low)
        at += piece.length


def _columns(rule: Rule, seen: Seen, i: int) -> dict[str, Any]:
    """Values of the computed columns that the rule's message names, at occurrence `i` of `on`."""
    assert rule.on is not None
    columns = {column.name: column for column in seen.table.catalog.computed.get(rule.on, ())}
    return {name: value_in(seen.table, columns[name], seen.row, i) for name in _quoted(rule.message) if name in columns}


def _arguments(rule: Rule, view: Struct, seen: Seen, arguments: dict[str, Any]) -> dict[str, Any]:
    """Values for the placeholders in the rule's message, added to those that the rule computed."""
    for head in _quoted(rule.message):
        if head in arguments:
            continue
        field = getattr(type(view), head, None)
        if field is not None:
            arguments[head] = value_of(field, getattr(view, head))
            continue
        struct = next((s for s in seen.table.catalog.structs if s.__name__ == head), None)
        if struct is None:
            raise KeyError(f"rule {rule.code}: message names {head!r}, which is not a field of {type(view).__name__} and no structure")
        arguments[head] = seen.first(struct)
    return arguments


@lru_cache(1024)
def _quoted(message: str) -> tuple[str, ...]:
    """The fields and structures that a message quotes, each once."""
    names = (name.split(".")[0].split("[")[0] for _, name, _, _ in string.Formatter().parse(message) if name)
    return tuple(dict.fromkeys(filter(None, names)))


def flow_columns(rule: Rule, table: ChunkTable, rows: Int) -> list[npt.NDArray[np.uint64]]:
    """The values of the rule's flow fields in some rows, as plain numbers, uint64[n] each; a byte field takes several columns."""
    return [column for field in rule.flow for column in _flat(table.values_at(field, rows))]


def _flat(values: npt.NDArray[Any]) -> Sequence[npt.NDArray[np.uint64]]:
    if values.ndim == 1:
        return [values.astype(np.uint64)]
    wide = np.zeros((len(values), -(-values.shape[1] // 8) * 8), np.uint8)
    wide[:, : values.shape[1]] = values
    return [*wide.view(">u8").T.astype(np.uint64, order="C")]

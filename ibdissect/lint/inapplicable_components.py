"""Components that a port does not have or that a Set cannot change: conditions of rules do not judge them.

`wire` declares it with the field: the kinds of port that have it, and whether it is read-only. A condition of rules is first evaluated as
written; where it holds, and for every Set if it names a read-only component, it is evaluated again with the values that count:

- A component that the port does not have is absent, and a comparison with it is false, also in a negation. A port of unknown kind has what
  all ports have that it may be: PortInfo of number 0 may be that of a switch, PortInfo without a LID that of an external port. What
  NodeInfo said holds as long as other facts: later, another node may have that LID, or be at the end of that route.
- A read-only component of a Set has the value that the port itself answered before. Where that is unknown, the copy counts that the
  sender made of an earlier answer, unless it is a capacity of 0. A Set that is right by its copy is right: it is of an answer that the
  capture lacks.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from itertools import chain
from typing import Any

import numpy as np
from msgspec import Struct as Record
from msgspec import field as default

from ibdissect.capture.gather import Bytes
from ibdissect.decode import Bool, ChunkTable, Int
from ibdissect.decode.bit_fields import extract, value_at
from ibdissect.decode.conditions import Evaluator
from ibdissect.decode.equal_rows import places_in
from ibdissect.decode.operand_values import NumberSeries, Series
from ibdissect.decode.repeated_smps import together
from ibdissect.subnet import ChunkFollowed, Subnet
from ibdissect.subnet.earlier_answers import PortInfos
from ibdissect.subnet.kinds_of_ports import ABOUT_PORTS, kinds_by_then, kinds_in
from ibdissect.wire import numbers
from ibdissect.wire.expr import Expr, Not, Value, made_of
from ibdissect.wire.mad import MAD
from ibdissect.wire.sm_port import PortInfo
from ibdissect.wire.spec import Field, Struct

from .rule import Rule


class PortFacts(Record, frozen=True, eq=False):
    """What is known of the nodes that the SMPs of a chunk go to or come from, and of the ports that its PortInfos are about."""

    subnet: Subnet
    rows: Int
    """Rows of SMPs, ascending."""
    kinds: Int
    """NodeType of the node of each; 0: unknown; below 0: another node may be there by now."""
    info_rows: Int
    """Rows of SMPs with PortInfo, ascending."""
    before: Bytes
    """PortInfo as the same port answered it before, uint8[n, 64]."""
    since: Int
    """Frame of that answer; 0: there was none."""
    content: Int
    """What that answer held (`decode.repeated_smps`); 0: unknown."""
    judges: dict[tuple[ChunkTable, type[Struct], int], _Applying] = default(default_factory=dict)
    """Of all Sets of an attribute in a table, about some kinds of port: rules share what they read."""
    kinds_of: dict[tuple[ChunkTable, type[Struct]], Int] = default(default_factory=dict)
    """What `port_kinds` found."""

    def with_content(self, content: Int) -> Int:
        """One number for what packets of the chunk hold and for all that `applying` asks of their nodes and ports, int64[n]; 0: unknown."""
        if not content.any():
            return content
        kinds = np.zeros_like(content)
        kinds[self.rows] = self.kinds
        found = np.where(content != 0, together(content, kinds), 0)
        found[self.info_rows] = self.content
        found[self.rows[self.kinds < 0]] = 0
        return found

    def close(self) -> None:
        """Forget what refers to the chunk, and to these facts: only the garbage collector would free it."""
        self.judges.clear()
        self.kinds_of.clear()


def port_facts(event: ChunkFollowed, infos: PortInfos) -> PortFacts:
    """The facts that hold for a chunk whose SMPs have been followed."""
    smps, every = infos.of(event), event.smps
    return PortFacts(event.subnet, every.rows, kinds_by_then(every), smps.rows, smps.before, smps.since, smps.content)


@cache
def declared(condition: Expr | None) -> bool:
    """Whether a condition names a component that some ports do not have, or that is read-only."""
    return any(field.ports or field.read_only for field in _fields(condition))


@cache
def _compares_copies(on: type[Struct] | None, when: Expr) -> bool:
    return on in ABOUT_PORTS and any(field.read_only for field in _fields(when))


def compares_copies(rule: Rule) -> bool:
    """Whether a rule's condition may hold with the values that count although it does not hold as written."""
    return rule.when is not None and _compares_copies(rule.on, rule.when)


def _fields(condition: object) -> Iterator[Field[Any]]:
    if isinstance(condition, Value):
        yield from condition.fields()
    elif isinstance(condition, Expr):
        yield from chain.from_iterable(map(_fields, made_of(condition)))


def applying(table: ChunkTable, struct: type[Struct] | None, condition: Expr, ports: int, hits: Bool, facts: PortFacts | None) -> Bool:
    """Where a condition holds with the values that count, bool[k]. `hits`: where it holds as written; `ports`: kinds of port that the rule
    judges, 0 for all."""
    if struct not in ABOUT_PORTS:
        return hits
    found = np.zeros(len(hits), np.bool_)
    # Without values that a copy replaces, a condition holds nowhere but where it holds as written: then a Set is as any other.
    sets = table.once(_SETS[struct]) if _compares_copies(struct, condition) else found
    if not (hits.any() or sets.any()):
        return found
    kinds = port_kinds(table, struct, facts)
    sure, asked = (hits & ~sets).nonzero()[0], sets.nonzero()[0]
    if ports:
        sure, asked = (some[kinds[some] & ~ports == 0] for some in (sure, asked))
    if not declared(condition):
        found[sure] = True
        return found
    if len(sure):
        found[sure] = _Applying(table, struct, sure, kinds, facts).mask(condition)
    if len(asked):
        known = facts.judges if facts is not None else {}
        evaluator = known.get((table, struct, ports))
        if evaluator is None:
            evaluator = known[table, struct, ports] = _Applying(table, struct, asked, kinds, facts)
        found[asked] = evaluator.mask(condition)
        late = (found & ~hits).nonzero()[0]
        found[late[_copied(table, struct, condition, late)]] = False
    return found


def _copied(table: ChunkTable, struct: type[Struct], condition: Expr, sets: Int) -> Bool:
    """Which of some Sets have a copy of each read-only component that a condition names; 0 is none."""
    copied = np.ones(len(sets), np.bool_)
    for field in {field.part_of[0] if field.part_of else field for field in _fields(condition) if field.read_only}:
        copied &= table.values(field)[sets] != 0
    return copied


def _methods(table: ChunkTable, struct: type[Struct]) -> tuple[Int, Int]:
    """Offset of the MAD, and method, of each occurrence of an attribute."""
    mad = table.located.at("mad")[table.occurrences(struct).rows]
    return mad, value_at(table.chunk.data, mad, MAD.method)


def _sets(table: ChunkTable, struct: type[Struct]) -> Bool:
    """Which occurrences stand in a Set of subnet management, bool[k]."""
    mad, method = _methods(table, struct)
    sets: Bool = (method == numbers.SET) & np.isin(value_at(table.chunk.data, mad, MAD.mgmt_class), list(numbers.SMP_CLASSES))
    return sets


_SETS = {struct: partial(_sets, struct=struct) for struct in ABOUT_PORTS}
"""Attribute -> which of its occurrences stand in a Set, for `table.once`."""


def port_kinds(table: ChunkTable, struct: type[Struct], facts: PortFacts | None) -> Int:
    """The kinds of port that each occurrence of an attribute of ports may be about, as bits, int64[k]."""
    if facts is None:
        return kinds_in(table, struct)
    if (table, struct) not in facts.kinds_of:
        facts.kinds_of[table, struct] = kinds_in(table, struct, facts.subnet, facts.rows, facts.kinds)
    return facts.kinds_of[table, struct]


class _Applying(Evaluator):
    """Evaluates a condition with the values that count."""

    def __init__(self, table: ChunkTable, domain: type[Struct], picked: Int, kinds: Int, facts: PortFacts | None) -> None:
        """`picked`: the judged occurrences of `domain`; `kinds`: as `port_kinds` has them, of all."""
        super().__init__(table, domain, picked)
        self.kinds, self.facts = kinds, facts

    def narrowed(self, picked: Int) -> Evaluator:
        assert self.domain is not None
        return _Applying(self.table, self.domain, picked, self.kinds, self.facts)

    def mask(self, expr: Expr) -> Bool:
        if not isinstance(expr, Not):
            return super().mask(expr)
        result = ~super().mask(expr.part)
        for field in _fields(expr.part):
            if field.ports or field.read_only:
                result &= self.reduce(*self.present(field))
        return result

    def _carried(self, field: Field[Any]) -> tuple[Series, Int | None]:
        found, which = super()._carried(field)
        if field.owner is not self.domain or not (field.ports or field.read_only) or not isinstance(found, NumberSeries):
            return found, which
        assert which is not None and found.rows is not None
        keep = self.kinds[which] & ~field.ports == 0 if field.ports else np.ones(len(which), np.bool_)
        values = found.values
        if field.read_only and (copies := np.flatnonzero(self.table.once(_SETS[self.domain])[which])).size:
            values = values.copy()
            if self.facts is not None and self.domain is PortInfo and len(self.facts.info_rows):
                place = places_in(self.facts.info_rows, self.table.occurrences(PortInfo).rows[which[copies]])
                known = (place >= 0) & (self.facts.since[place] > 0)
                values[copies[known]] = extract(self.facts.before[place[known]], field.bit, field.bits).astype(values.dtype)
                copies = copies[~known]
            keep[copies] &= (values[copies] != 0) | (field.part_of is not None)  # a bit may be 0, a capacity may not
        index = np.flatnonzero(keep)
        return NumberSeries(found.rows, values).pick(index), which[index]

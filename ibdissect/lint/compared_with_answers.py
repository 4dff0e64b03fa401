"""Conditions of rules that compare SMPs with earlier answers of their port, node or switch.

In a rule about attributes of subnet management (`AttributeRule`), `previous(field)` is what the port showed last: of the SMP's own
attribute in its answer before, of NodeInfo, SwitchInfo or PortInfo as the subnet's model knows it when the SMP is sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from ibdissect.decode import Bool, Int
from ibdissect.decode.conditions import Evaluator
from ibdissect.decode.history import AFTER_ALL
from ibdissect.decode.operand_values import NumberSeries, Series
from ibdissect.decode.repeated_smps import SMALL, rests_on_content, together
from ibdissect.errors import SpecError
from ibdissect.subnet.attribute_smps import AttributeSmp, AttributeSmps
from ibdissect.subnet.earlier_answers import AttributeHistory
from ibdissect.subnet.shown_before import SHOWN, is_own, may_be_asked, shown, shown_content
from ibdissect.wire.expr import And, Expr
from ibdissect.wire.mad import MAD
from ibdissect.wire.sm import NodeInfo
from ibdissect.wire.spec import Field, Struct

from .sequence import Previous, words_of

OF_MAD = {MAD.method: "method", MAD.attribute_id: "attribute", MAD.attribute_modifier: "modifier"}
"""Columns that are known without reading the packets again."""


class AnswersEvaluator(Evaluator):
    """Judges SMPs of an attribute, by themselves and by what was answered before. The SMPs keep the columns, which all rules share."""

    def __init__(self, smps: AttributeSmps, picked: Int | None = None) -> None:
        self.smps = smps
        super().__init__(smps.event.table, MAD, picked)
        if picked is None:
            self.all, self.known = smps.cached(AnswersEvaluator, lambda: (self.all, self.known))

    def count(self) -> int:
        return len(self.smps)

    def narrowed(self, picked: Int) -> AnswersEvaluator:
        return AnswersEvaluator(self.smps, picked)

    @property
    def rows(self) -> Int:
        return self.smps.rows if self.picked is None else self.smps.rows[self.picked]

    def earlier(self, word: Previous) -> NumberSeries:
        """What was shown before, in the SMPs before which it was."""
        found = shown(self.smps, word.field)
        since, values = (column if self.picked is None else column[self.picked] for column in (found.since, found.values))
        there = since.nonzero()[0]
        return NumberSeries(self.all, values) if len(there) == self.size else NumberSeries(there, values[there])

    def _read(self, field: Field[Any]) -> Series:
        if field.owner is not MAD:
            values = self.smps.now(field)
        elif field in OF_MAD:
            values = getattr(self.smps, OF_MAD[field])
        else:
            return NumberSeries(self.all, self.table.values_at(field, self.rows))
        return NumberSeries(self.all, values if self.picked is None else values[self.picked])


def suspects(smps: AttributeSmps, condition: Expr) -> Bool:
    """SMPs for which a condition holds, bool[n]: of many, only those are judged that say something new (`decode.repeated_smps`)."""
    history = smps.history
    if history is None or len(smps.content) < SMALL or not rests_on_content(MAD, condition, Previous):
        return AnswersEvaluator(smps).mask(condition)
    if suspects not in smps.columns and isinstance(condition, And):
        first = condition.parts[0]
        if not _asked(first) and not AnswersEvaluator(smps).mask(first).any():
            return np.zeros(len(smps), np.bool_)  # as where nobody writes: what others showed is not looked up
    content, left, some = smps.cached(suspects, lambda: _left(smps, history))
    if some is None:
        found = AnswersEvaluator(smps).mask(condition)
    else:
        found = np.zeros(len(smps), np.bool_)
        if len(left):
            found[left] = AnswersEvaluator(some).mask(condition)
    if found.any():
        smps.event.subnet.judged.blame(content[found])
    return found


def _left(smps: AttributeSmps, history: AttributeHistory) -> tuple[Int, Int, AttributeSmps | None]:
    """What SMPs say together with what their nodes and ports showed, which are left to judge, and these; None if most are."""
    shown_too = [shown_content(smps, struct) for struct in SHOWN if struct in history.asked]
    unsure = np.logical_or.reduce([smps.content == 0, *(one == AFTER_ALL for one in shown_too)])
    content = together(smps.content, np.full(len(smps), history.number), *shown_too)
    content[unsure] = 0
    new = np.zeros(len(smps), np.uint8)
    smps.event.subnet.judged.left(content, new)
    left = np.flatnonzero(new)
    return content, left, smps.part(left) if 2 * len(left) < len(smps) else None


@cache
def _asked(condition: Expr) -> tuple[Field[Any], ...]:
    """The fields of `previous` in a condition, but for the kind of the node."""
    return tuple(word.field for word in words_of(condition) if isinstance(word, Previous) and word.field is not NodeInfo.node_type)


def asked_of_others(condition: Expr, attributes: Sequence[int]) -> frozenset[type[Struct]]:
    """The structures of `previous` in a condition, but for that which SMPs of these attributes carry themselves."""
    return frozenset(field.owner for field in _asked(condition) if not is_own(field.owner, attributes))


def value_in(smp: AttributeSmp, operand: Any) -> int:
    """A field, `previous(field)` or arithmetic on them, of one SMP; 0 if nothing was shown before."""
    if isinstance(operand, Field) and operand.owner is not MAD:
        return smp.now(operand)
    if isinstance(operand, Previous):
        return int(shown(smp.columns, operand.field).values[smp.i])
    series = AnswersEvaluator(smp.columns, np.array([smp.i])).series(operand)
    return int(series.values[0]) if isinstance(series, NumberSeries) and len(series.values) else 0


def holds_in(smp: AttributeSmp, condition: Expr) -> bool:
    """Whether a condition holds for one SMP."""
    return bool(AnswersEvaluator(smp.columns, np.array([smp.i])).mask(condition)[0])


@cache
def all_compared(condition: Expr | None) -> tuple[Field[Any], ...]:
    """The fields of `previous` that a condition says something of, in its order: the frame of the first one proves the fault. What is
    negated may be true of what nobody has shown."""
    return tuple(word.field for word in words_of(condition, negated=False) if isinstance(word, Previous))


def check(rule: str, condition: Expr, attributes: Sequence[int]) -> None:
    """Raise SpecError if a condition cannot be judged by answers about these attributes."""
    for word in words_of(condition):
        if not attributes:
            reason = "name a field of the attribute in `at`"
        elif not isinstance(word, Previous):
            reason = "`within` and `unless` are for occurrences in conversations; the answers of a port have `previous` alone"
        elif word.where is not None or word.same or word.one_way:
            reason = "`previous` is what the port answered before: write it without where=, same= and one_way="
        elif not may_be_asked(word.field, attributes):
            reason = f"{word.field!r} is neither of this attribute nor kept of NodeInfo, SwitchInfo or PortInfo"
        else:
            continue
        raise SpecError(rule, "when", reason)

"""Does a verdict that rests on earlier packets say less where the capture missed some since?"""

from __future__ import annotations

import pytest

from ibdissect.lint.finding import Severity
from tests.craft import gmp
from tests.fabric.made import answer, ask
from tests.rules.findings import lint
from tests.rules.MKY.test_ports import KEYED, write
from tests.rules.PKY.cases import TABLE, send
from tests.rules.TXN.cases import ARRIVED, LINK_RECORD, MISSED, SA, SKIPPED
from tests.rules.TXN.cases import TABLE as GET_TABLE

PAIR = [ask(9, 0x10), answer(9, 0x10, bytes(64))]
ALONE = answer(9, 0x10, bytes(64), header={"transaction_id": 0x77})
"""Its request is missing in the capture."""


@pytest.mark.parametrize("chunks", [(), (3,), (5,)])
def test_a_table_may_have_changed_unseen(chunks: tuple[int, ...]) -> None:
    def severity(frames: list[bytes]) -> list[Severity]:
        return [one.severity for one in lint(frames, "PKY003", chunks=chunks, step_ns=30_000_000_000)]

    assert severity([*TABLE, *PAIR, send(0x9999)]) == [Severity.ERROR]
    assert severity([*TABLE, *PAIR, ALONE, send(0x9999)]) == [Severity.INFO]
    assert severity([*TABLE, *PAIR, send(0x9999), ALONE]) == [Severity.ERROR], "missed long after"
    assert severity([*TABLE, *PAIR, send(0x9999), ALONE, send(0x9999)]) == [Severity.ERROR]


def test_the_sender_may_not_have_gone_back_where_the_order_is_not_that_on_the_wire() -> None:
    swapped = [answer(9, 0x10, bytes(64), header={"transaction_id": 0x78}), ask(9, 0x10, header={"transaction_id": 0x78})]
    asked = gmp(SA, GET_TABLE, LINK_RECORD, bytes(232), at=24, header={"transaction_id": 7}, slid=1, dlid=2)
    again = [asked, *SKIPPED, MISSED, SKIPPED[-1], ARRIVED]
    for before, severity in (([], Severity.ERROR), ([*PAIR, *swapped], Severity.INFO), ([*PAIR, *reversed(swapped)], Severity.ERROR)):
        assert [one.severity for one in lint([*before, *again], "TXN012")] == [severity]


@pytest.mark.parametrize("transaction", [1, 2])
def test_a_set_that_is_sent_again_at_once_does_not_make_itself_uncertain(transaction: int) -> None:
    """In a capture that changes the order of packets; another Set might have come first."""
    swapped = [answer(9, 0x10, bytes(64), header={"transaction_id": 0x78}), ask(9, 0x10, header={"transaction_id": 0x78})]
    found = lint([*KEYED, *PAIR, *swapped, write(tid=1), write(tid=transaction)], "MKY002")
    assert [(one.count, one.severity) for one in found] == [(2, Severity.ERROR if transaction == 1 else Severity.INFO)]

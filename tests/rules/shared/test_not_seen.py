"""A verdict that rests on earlier packets says less where the capture missed some since, or a Set was not answered."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ibdissect.lint.finding import Severity
from ibdissect.mad import transactions
from tests.cases import few
from tests.craft import gmp, rc, smp
from tests.robustness.compare import findings_of
from tests.robustness.scenarios import Fabric
from tests.rules.findings import lint
from tests.rules.MKY.test_wrong_m_keys import KEYED, write
from tests.rules.PKY.cases import TABLE, send
from tests.rules.TXN.cases import ARRIVED, LINK_RECORD, MISSED, SA, SKIPPED
from tests.rules.TXN.cases import TABLE as GET_TABLE
from tests.subnet.made import ANSWER, GET, SET, answer, ask, node, port_info, switch

PAIR = [ask(9, 0x10), answer(9, 0x10, bytes(64))]
ALONE = answer(9, 0x10, bytes(64), header={"transaction_id": 0x77})
"""Its request is missing in the capture."""


@few("chunks", [(), (3,), (5,)], fast=(0, 1))
def test_a_table_may_have_changed_unseen(chunks: tuple[int, ...]) -> None:
    def severity(frames: list[bytes]) -> list[Severity]:
        return [one.severity for one in lint(frames, "PKY003", chunks=chunks, step_ns=500_000_000_000)]

    managed = [*TABLE[:1], ask(5, 0x14, method=SET), answer(5, 0x14, bytes(64)), *TABLE[1:], *PAIR]
    assert severity([*managed, send(0x9999)]) == [Severity.ERROR]
    assert severity([*managed, ALONE, send(0x9999)]) == [Severity.INFO]
    assert severity([*managed, send(0x9999), ALONE]) == [Severity.ERROR], "missed long after"
    assert severity([*managed, send(0x9999), ALONE, send(0x9999)]) == [Severity.ERROR]
    assert severity([*TABLE, *PAIR, send(0x9999)]) == [Severity.INFO], "more than half an hour, and no manager is seen to write to the port"


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


NODE_INFO, PORT_INFO = 0x11, 0x15
TO = {"slid": 1, "dlid": 3}


def severities(happen: Callable[[Fabric], None]) -> dict[str, set[str]]:
    """Severities by code of what is found when host 1 sends to host 3 in a partition and on a VL that neither has, after this happened."""
    fabric = Fabric()
    fabric.sweep()
    fabric.wait(20)
    happen(fabric)
    fabric.wait(20)
    fabric.sent(rc(4, b"12345678", lrh={"slid": 1, "dlid": 3}, bth={"destqp": 9, "psn": 1, "p_key": 0x8999}))
    fabric.send(1, 3, 64, 5, qp=0xD00)
    fabric.wait(20)
    found: dict[str, set[str]] = {}
    for one in findings_of(fabric.pcap().packed()):
        found.setdefault(one.code, set()).add(one.severity)
    return {code: found[code] for code in ("PKY003", "PKY004", "LNK016")}


def unanswered(fabric: Fabric, method: int = SET, attribute: int = PORT_INFO, **way: object) -> None:
    fabric.transaction += 1
    header = {"transaction_id": 1 << 32 | fabric.transaction}
    fabric.sent(smp(method, attribute, port_info(3, operational_vls=1), header=header, **way))


def superseded(fabric: Fabric) -> None:
    """The sender goes on with the same transaction id: a Set without an answer, a Set with one, and another request."""
    for method, attribute, body in ((SET, PORT_INFO, port_info(3)), (SET, NODE_INFO, node(3)), (GET, NODE_INFO, node(3))):
        header = {"transaction_id": 1 << 32 | 9000}
        fabric.sent(smp(method, attribute, body if method == SET else b"", path=[1, 3], header=header))
    fabric.sent(smp(ANSWER, NODE_INFO, node(3), path=[1, 3], header=header))


CERTAIN, UNCERTAIN = {"error"}, {"info"}


@few(
    ("happen", "to_3", "from_1", "all_ports"),
    [
        (lambda fabric: None, CERTAIN, CERTAIN, CERTAIN),
        (lambda fabric: unanswered(fabric, path=[1, 3]), UNCERTAIN, CERTAIN, UNCERTAIN),
        (lambda fabric: unanswered(fabric, **TO), UNCERTAIN, CERTAIN, UNCERTAIN),
        (superseded, UNCERTAIN, CERTAIN, UNCERTAIN),
        (lambda fabric: unanswered(fabric, path=[]), CERTAIN, UNCERTAIN, UNCERTAIN),
        (lambda fabric: unanswered(fabric, path=[1, 5]), CERTAIN, CERTAIN, UNCERTAIN),
        (lambda fabric: unanswered(fabric, path=[1, 6]), CERTAIN, CERTAIN, UNCERTAIN),  # nobody is there
        (lambda fabric: unanswered(fabric, GET, path=[1, 3]), CERTAIN, CERTAIN, CERTAIN),
    ],
    fast=(0, 1, 3, 4, 6),
)
def test_only_what_rests_on_the_target_is_uncertain(
    happen: Callable[[Fabric], None], to_3: set[str], from_1: set[str], all_ports: set[str]
) -> None:
    assert severities(happen) == {"PKY003": to_3, "PKY004": from_1, "LNK016": all_ports}


def test_sets_that_are_not_kept_may_have_changed_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    def happen(fabric: Fabric) -> None:
        for attribute in range(0x31, 0x3B):
            fabric.sent(smp(SET, attribute, bytes(64), path=[1, 3], header={"transaction_id": 1 << 32 | 9000}))

    monkeypatch.setattr(transactions, "MAX_GIVEN_UP", 0)
    assert severities(happen) == {"PKY003": UNCERTAIN, "PKY004": UNCERTAIN, "LNK016": UNCERTAIN}


@pytest.mark.parametrize(("lid", "severity"), [(5, Severity.INFO), (999, Severity.ERROR)])
def test_a_request_that_led_nowhere_told_its_sender_nothing(lid: int, severity: Severity) -> None:
    """A tool asked again for the number of ports: of this switch, whose answer may be missing, or of a LID that nobody has."""
    learnt = [answer(5, 0x11, switch(5, local_port_num=3)), answer(5, 0x15, port_info(5), modifier=0)]
    asked = [ask(lid, 0x11, header={"transaction_id": 0x77}), ask(5, 0x15, modifier=9)]
    assert [one.severity for one in lint([*learnt, *asked], "AM007")] == [severity]


def test_a_request_that_was_given_up_may_have_told_its_sender_more() -> None:
    """Its sender goes on with its transaction id, ever again."""
    learnt = [answer(5, 0x11, switch(5, local_port_num=3)), answer(5, 0x15, port_info(5), modifier=0)]
    asked = [ask(5, attribute, header={"transaction_id": 0x77}) for attribute in (0x11, *range(0x31, 0x3B))]
    assert [one.severity for one in lint([*learnt, *asked, ask(5, 0x15, modifier=9)], "AM007")] == [Severity.INFO]

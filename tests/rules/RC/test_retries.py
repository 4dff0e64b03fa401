"""RC019 counts RNR NAKs by the packet that they ask for, as long as there are not too many such packets."""

from __future__ import annotations

import pytest

from tests.craft import erf_pcap, rc
from tests.rules.test_rules import lint

ACK, SEND = 0x11, 0x04


def answer(psn: int, syndrome: int) -> bytes:
    return rc(ACK, ext={"AETH": {"syndrome": syndrome, "msn": 1}}, bth={"psn": psn, "destqp": 0x34}, slid=2, dlid=1)


@pytest.mark.parametrize(("others", "severity"), [(63, "error"), (64, "info")])
def test_of_a_stream_with_too_many_packets_nobody_knows_how_many_rnr_naks_there_were(others: int, severity: str) -> None:
    tries = [rc(SEND, b"data", bth={"psn": psn}) for psn in (1, *[2] * 9)]
    capture = erf_pcap([tries[0], answer(1, 0x1F), *tries[1:], *(answer(10 + n, 0x2E) for n in range(others))], step_ns=1_000_000_000)
    assert [str(one.severity) for one in lint(capture) if one.code == "RC019"] == [severity]


@pytest.mark.parametrize(("naks", "severity"), [(1, "error"), (8, "info")])
def test_the_first_packets_with_rnr_naks_are_counted_though_there_are_many(naks: int, severity: str) -> None:
    tries = [rc(SEND, b"data", bth={"psn": psn}) for psn in (1, *[2] * 9)]
    answers = [*[answer(2, 0x2E)] * naks, *(answer(10 + n, 0x2E) for n in range(63))]
    capture = erf_pcap([tries[0], answer(1, 0x1F), *tries[1:], *answers], step_ns=1_000_000_000)
    assert [str(one.severity) for one in lint(capture) if one.code == "RC019"] == [severity]


@pytest.mark.parametrize(("acknowledged", "severity"), [(True, "error"), (False, "info")])
def test_acknowledgements_to_the_responder_show_that_nobody_filtered_them(acknowledged: bool, severity: str) -> None:
    """The dead queue pair's host only asks."""
    asks = [rc(SEND, b"data", bth={"psn": psn, "destqp": 0x35}, slid=2, dlid=1) for psn in range(9, 79)]
    acks = [rc(ACK, ext={"AETH": {"syndrome": 0x1F, "msn": psn}}, bth={"psn": psn, "destqp": 0x77}, slid=1, dlid=2) for psn in range(9, 79)]
    other = [frame for pair in zip(asks, acks, strict=True) for frame in (pair if acknowledged else pair[:1])]
    tries = [rc(SEND, b"data", bth={"psn": psn}) for psn in (1, *[2] * 9)]
    capture = erf_pcap([*other[:60], *tries, *other[60:]], step_ns=1_000_000_000)
    assert [str(one.severity) for one in lint(capture) if one.code == "RC019"] == [severity]

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

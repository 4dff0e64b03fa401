"""Both directions of a conversation have the same key, other conversations another, and the receiver is told apart."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

import ibdissect
from ibdissect.decode.conversation_keys import conversations
from tests.craft import erf_pcap, gmp, rc, ud

FOLDER = Path(__file__).parents[2] / "docs/examples/zed"


def of(reading: ibdissect.Capture) -> list[Any]:
    return [one for table in reading.tables() for one in conversations(table, np.arange(len(table)))]


def test_datagrams() -> None:
    there, back = ud(b"abcd", dest_qp=7, src_qp=8), ud(b"abcd", dest_qp=8, src_qp=7, slid=2, dlid=1)
    others = ud(b"abcd", dest_qp=9, src_qp=8), ud(b"abcd", dest_qp=7, src_qp=8, dlid=3), gmp(3, 1, 0x11)
    with ibdissect.open(BytesIO(erf_pcap([there, back, *others]))) as reading:
        found = of(reading)
    assert found[0][0] == found[1][0] and found[0][1] != found[1][1]
    assert len({key for key, _ in found}) == 4


def test_connections_join_both_queue_pairs() -> None:
    with ibdissect.open(str(FOLDER / "stream.pcap")) as reading:
        found = of(reading)
    assert found[3][0] == found[6][0] == ("connection", 1) and found[3][1] != found[6][1]
    assert found[0][0] != found[3][0], "the datagrams that set it up are another conversation"


def test_without_a_connection_addresses_must_do() -> None:
    packets = [rc(4, b"abcd", bth={"destqp": 7}), rc(4, b"abcd", bth={"destqp": 9}, slid=2, dlid=1), rc(4, b"abcd", dlid=3)]
    with ibdissect.open(BytesIO(erf_pcap(packets))) as reading:
        found = of(reading)
    assert found[0][0] == found[1][0] != found[2][0] and found[0][1] != found[1][1]

"""Does one fault give one finding, which lists what follows from it?"""

from __future__ import annotations

import pytest

from tests.craft import gmp, vcrc
from tests.fabric.made import answer, ask, node, p_keys, port_info
from tests.rules.findings import lint

KEY, NODE_INFO, PORT_INFO, P_KEY_TABLE = 0x1122334455667788, 0x11, 0x15, 0x16
OTHERS = [gmp(4, 0x81, 0x12, slid=9, dlid=8, header={"transaction_id": 100 + i}) for i in range(2)]
"""What the capture goes on with."""


def perf(method: int, transaction: int, **kw: object) -> bytes:
    ends = {"slid": 2, "dlid": 1} if method & 0x80 else {"slid": 1, "dlid": 2}
    return gmp(4, method, 0x12, header={"transaction_id": transaction}, **{**ends, **kw})


def longer(frame: bytes) -> bytes:
    """Another PktLen, with the right VCRC."""
    data = bytearray(frame[:-2])
    data[5] += 1
    return bytes(data) + vcrc(data)


def flipped(frame: bytes) -> bytes:
    """A bit of the payload is wrong, with the right VCRC."""
    data = bytearray(frame[:-2])
    data[-20] ^= 1
    return bytes(data) + vcrc(data)


ASKED = [perf(1, 1), perf(0x81, 1)]
KEPT = answer(5, PORT_INFO, port_info(5, m_key=KEY, m_key_protect_bits=2), m_key=KEY)
PARTITIONED = [answer(2, NODE_INFO, node(2)), answer(2, P_KEY_TABLE, p_keys(0x8001))]


@pytest.mark.parametrize(
    ("code", "frames", "request_"),
    [
        ("QKY001", ASKED, perf(1, 2, q_key=1)),
        ("LNK003", ASKED, longer(perf(1, 2))),
        ("ROC006", ASKED, flipped(perf(1, 2))),
        ("PKY003", [*ASKED, *PARTITIONED], perf(1, 2, bth={"p_key": 0x8002})),
        ("MKY003", [ask(5, NODE_INFO), answer(5, NODE_INFO, node(5)), KEPT], ask(5, NODE_INFO, header={"transaction_id": 2})),
    ],
)
def test_a_request_that_was_dropped_is_not_also_unanswered(code: str, frames: list[bytes], request_: bytes) -> None:
    everything = [*frames, request_, *OTHERS]
    at = len(frames) + 1
    assert [one.frame for one in lint(everything, "TXN001", step_ns=1_000_000_000)] == [at]
    (one,) = lint(everything, code, "TXN001", step_ns=1_000_000_000)
    assert (one.code, one.frame) == (code, at)
    assert one.related[-1].why == "therefore TXN001 request-unanswered"

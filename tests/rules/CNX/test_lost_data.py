"""One sentence about a host that computes its ICRCs wrongly, whatever became of each of its connections."""

from __future__ import annotations

import io

import ibdissect
from tests.diagnosis.lab import SEC, US, A, Lab, joined

WRITES = "10.0.0.1 writes the ICRC with its bytes reversed, in all {} whole packets of that host in this capture: "
TAKES = "10.0.1.{} takes them, although a receiver must drop them"
DROPS = "10.0.1.{} acknowledges none of this connection, as a receiver that drops them"


def sent(peer: int, queue_pair: int, *, dropped: bool = False, constant: bool = False) -> Lab:
    """Five SENDs of A, which the peer acknowledges or drops. The bytes of their ICRC are reversed, or it is constant."""
    lab = Lab(A, bytes([10, 0, 1, peer]), 0x100 + queue_pair, 0x200 + queue_pair)
    if dropped:
        for again in range(5):
            lab.ask(again * SEC // 10 + 50 * US, 100)
    else:
        lab.good(queue_pair * US, 100, 5)
    lab.frames = [
        (time, frame[:-4] + (b"\xde\xad\xbe\xef" if constant else frame[-4:][::-1]) if frame[26:30] == A else frame)
        for time, frame in lab.frames
    ]
    return lab


def told(*labs: Lab) -> str:
    with ibdissect.open(io.BytesIO(joined(*labs).pcap())) as opened:
        (found,) = (one.message for one in opened.lint() if one.code == "CNX017")
    _, _, said = str(found).partition(": ")
    return said


def test_each_connection_of_the_host_is_counted_where_it_belongs() -> None:
    assert told(sent(0, 1)) == WRITES.format(5) + TAKES.format(0)
    some = told(sent(0, 1), sent(0, 2), sent(1, 3, dropped=True))
    assert some == f"{WRITES.format(15)}whether 10.0.1.0 takes them is not captured (2 connections); {DROPS.format(1)} (1 connection)"
    each = "; ".join(f"{TAKES.format(peer)} (1 connection)" for peer in range(5))
    assert told(*(sent(peer, peer) for peer in range(5))) == WRITES.format(25) + each
    assert told(*(sent(peer, peer) for peer in range(7))) == f"{WRITES.format(35)}{each}; 2 more connections, see ibdissect diagnose"


def test_sentences_that_begin_otherwise_are_not_put_together() -> None:
    """Only the first is told."""
    said = told(sent(0, 1, constant=True), sent(1, 2, dropped=True, constant=True))
    assert said.startswith("the ICRC of 10.0.0.1 is wrong, in all 10 whole packets of 10.0.0.1 in this capture: 10.0.1.0 takes them and")
    assert said.endswith("before its adapter wrote the ICRC")

"""A message whose packets have different sizes is found in chunks of any size, and with several streams side by side."""

from __future__ import annotations

from tests.cases import every
from tests.craft import rc
from tests.rules.findings import facts_of


def part(opcode: int, size: int, psn: int, queue_pair: int = 5) -> bytes:
    return rc(opcode, bytes(size), bth={"psn": psn, "destqp": queue_pair})


@every("chunks", [(), (1, 1, 1, 1), (2,), (3, 2), (4, 1, 1)])
def test_the_first_packet_of_the_message_counts(chunks: tuple[int, ...]) -> None:
    frames = [part(0, 1024, 0xFFFFFF), part(0, 512, 9, 6), part(1, 1024, 0), part(1, 512, 10, 6), part(1, 512, 1), part(1, 1024, 2)]
    (found,) = facts_of(frames, "BTH007", chunks=chunks)
    assert found.frame == 5 and found.message == "RC SEND Middle (1) carries 512 bytes, the first packet of its message 1024"
    assert found.proof == ((1, "the first packet of the message"),)


def test_a_damaged_packet_says_nothing_about_its_message() -> None:
    shorter = bytearray(part(1, 512, 2))
    shorter[-10] ^= 1
    assert not facts_of([part(0, 1024, 1), bytes(shorter)], "BTH007")
    assert facts_of([part(0, 1024, 1), part(1, 512, 2)], "BTH007")

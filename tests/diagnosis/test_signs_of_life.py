"""Traffic between hosts beside a failed connection is told as it was: when, and of which kind."""

from __future__ import annotations

from ibdissect.wire import cm
from tests.diagnosis.lab import MS, SEC, US, WRITE_FIRST, A, B, Lab, joined
from tests.diagnosis.test_causes import TIMEOUT


def silent(*others: Lab) -> str:
    """The sentence about a queue pair that does not answer from 1 ms to 141 ms; other hosts and queue pairs say more."""
    lab = Lab()
    lab.good(0, 100, 5)
    for i in range(8):
        lab.ask(MS + i * TIMEOUT, 105)
    return next(one.why for one in joined(lab, *others).diagnosis().connections if one.ends[1].qpn == lab.qb and one.cause != "healthy")


def datagram(at: int) -> Lab:
    lab = Lab()
    lab.put(at, B, A, 0x64, 5, 1, ext={"DETH": {"q_key": 1, "srcqp": 5}}, payload=bytes(64))
    return lab


def test_how_much_later_a_host_is_seen() -> None:
    assert "other packets (frame 19, 1 s later), so that host is up:" in silent(datagram(SEC + 141 * MS))
    assert "other packets (frame 19, 1 s later), so that host is up, or up again" in silent(datagram(SEC + 141 * MS + 1))


def test_a_datagram_is_no_connection() -> None:
    said = silent(datagram(4 * SEC + 141 * MS))
    assert "10.0.0.2 still sends other packets (frame 19, 4 s later), so that host is up, or up again" in said


def test_the_nearest_packet_is_named_not_the_last() -> None:
    near = Lab(a=bytes([10, 0, 0, 9]), qa=0x700, qb=0x701)
    near.good(500 * MS, 9000, 2)
    said = silent(near, datagram(4 * SEC))
    assert "10.0.0.2 still sends on other connections (frame 20, 359 ms later), so that host is up:" in said


def vanishes(refused: int, at: int = 0) -> str:
    """The sentence about a WRITE First of 4,096 bytes without an answer; another queue pair's packet of a size was refused with a NAK."""
    lab = Lab()
    time = lab.good(lab.up(), 100, 5)
    for i in range(8):
        lab.ask(time + i * TIMEOUT, 105, 4096, WRITE_FIRST, dma=8192)
    other = Lab(qa=0x900, qb=0x901)
    other.good(other_time := at + 10 * US, 7000, 1)
    other.ask(other_time + US * 20, 7001, refused, WRITE_FIRST, dma=8192)
    other.answer(other_time + US * 25, 7001, 0x61)
    third = Lab(qa=0x903, qb=0x904)
    third.good(SEC, 9000, 3)
    return next(one.why for one in joined(lab, other, third).diagnosis().connections if one.cause == "path-mtu")


def test_a_refused_packet_arrived() -> None:
    """It bounds what passes, whether it was acknowledged or refused; where it is as large as what vanished, that is not denied."""
    assert "a packet of 2,048 bytes arrived there (frame 4), as a NAK refuses it (frame 5): packets above a size vanish" in vanishes(2048)
    assert vanishes(2048).endswith("as where a port has an MTU of 2048") and "has 64, and " in vanishes(2048)
    told = "MTU of 256 to 2048; but earlier a packet of 4,096 bytes arrived there (frame 4), as a NAK refuses it (frame 5)"
    assert vanishes(4096).endswith(told)
    assert "as if packets above a size vanish on the way at that time" in vanishes(4096) and "; but later a" in vanishes(4096, SEC // 2)


def test_a_host_whose_own_packets_are_not_captured_has_its_requests_answered() -> None:
    lab = Lab()
    lab.up()
    for i in range(8):
        lab.ask(MS + i * TIMEOUT, 105)
    lab.down(SEC)
    other = Lab(qa=0x900, qb=0x901)
    other.good(500 * MS, 7000, 3)
    every = joined(lab, Lab(a=B, b=A, qa=0x911, qb=0x912))
    back = Lab(a=B, b=A, qa=0x911, qb=0x912)
    back.good(500 * MS, 7000, 3)
    every.frames += [one for one in back.frames if one[1][26:30] == A]
    every.frames = [one for one in every.frames if one[1][26:30] == A]
    said = next(one.why for one in every.diagnosis().connections if one.cause == "retries-exhausted")
    assert "what 10.0.0.2 sends is not captured, but it is up: 10.0.0.1 answers a request of it (frame " in said and " later)" in said


def test_messages_of_connection_management_show_a_host() -> None:
    asked = Lab(a=B, b=A, qa=0x700)
    asked.req(200 * MS, local_communication_id=0xA9)
    asked.short(201 * MS, cm.REJ_ID, cm.REJ, back=True, local_communication_id=0, remote_communication_id=0xA9, reason=28)
    assert "10.0.0.2 still sends other packets (frame 19, 59 ms later)" in silent(asked)

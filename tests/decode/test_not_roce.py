"""Datagrams to the port of RoCE that are something else are told from RoCE packets with faults."""

from __future__ import annotations

import struct

import pytest

from ibdissect.decode.counted_packets import Distinct
from ibdissect.lint.linter import Linter
from tests.cases import every, few
from tests.craft import erf_pcap, ethernet_pcap, native, roce2
from tests.decode.made import tables_of
from tests.rules.findings import rules

DNS = struct.pack(">6H", 0x3F21, 0x8180, 1, 1, 0, 0) + b"\3www\7example\3com\0\0\1\0\1"
TEXT = b"<165>1 2026-11-21T02:12:11Z host app - - - a line of a log"


def datagram(payload: bytes, source_port: int = 49152) -> bytes:
    """A UDP datagram to port 4791."""
    frame = bytearray(roce2(0x04, bytes(len(payload) - 16), udp={"source_port": source_port}))
    frame[42 : 42 + len(payload)] = payload
    return bytes(frame)


def packets(*frames: bytes) -> list[bool]:
    """Which frames behind a packet of RoCE count as packets."""
    (table,) = tables_of(ethernet_pcap([roce2(), *frames]))
    return (Distinct().of(table).located.at("bth") >= 0).tolist()[1:]


def codes(frame: bytes) -> set[str]:
    linter = Linter(rules().values())
    for table in tables_of(ethernet_pcap([roce2(), frame, roce2(bth={"psn": 3})])):
        linter.feed(table)
    return {finding.code for finding in linter.finish()}


@pytest.mark.parametrize(
    "payload", [DNS + bytes(2), TEXT + bytes(2), bytes(range(0x11, 0x91)), b"\xa5" * 64], ids=["DNS", "text", "rising", "same"]
)
def test_other_datagrams_are_no_packets(payload: bytes) -> None:
    assert not codes(datagram(payload)) - {"ROC003"}


@every(
    ("number", "port", "left"),
    [(0x0420, 53, True), (0x0420, 1023, True), (0x0420, 1024, False), (0x0421, 1024, True), (0x3F20, 1024, True)],
)
def test_an_answer_of_a_service(number: int, port: int, left: bool) -> None:
    """One answer of DNS in sixteen has a number whose bits look like version 0; it comes from the port of DNS. OpCode 0x3f is undefined."""
    answer = datagram(number.to_bytes(2, "big") + DNS[2:] + bytes(2), port)
    assert packets(answer) == [not left]


def iperf(seconds: int, **more: int) -> bytes:
    """What iperf3 sends over UDP: seconds, microseconds, a count, and random bytes."""
    return datagram(struct.pack(">3I", seconds, 1000, 1) + bytes(range(1, 101)), **more)


@few(
    "frame",
    [datagram(bytes(64)), datagram(b"\xff" * 64), datagram(struct.pack(">I", 7) + bytes(60)), datagram(bytes(18)), iperf(0x69200000)],
    ids=["zeros", "ones", "count", "short", "iperf3"],
    fast=(0, 1, 2, 4),
)
def test_what_traffic_generators_send(frame: bytes) -> None:
    """Zeros, ones, or a count and zeros; the seconds of iperf3 may look like version 0, with an OpCode that is not defined."""
    assert not codes(frame) - {"ROC003"}


def test_packets_with_zeros_stay_if_they_have_a_queue_pair_or_the_default_partition() -> None:
    for bth in ({"p_key": 0, "destqp": 2, "psn": 0}, {"p_key": 0, "destqp": 0, "psn": 1}, {"destqp": 0, "psn": 0}):
        assert packets(roce2(bth={"m": 0, **bth})) == [True]
    ones = datagram(b"\xff" * 11 + b"\xfe" + b"\xff" * 52)
    assert packets(ones) == [True]


def test_packets_from_the_port_of_a_service_stay() -> None:
    """If their ICRC or their partition is right."""
    for bth, crc in (({"p_key": 0x8001}, True), ({}, False)):
        frame = bytearray(roce2(payload=b"data", bth=bth, udp={"source_port": 53}))
        frame[-1] ^= not crc
        assert packets(bytes(frame)) == [True]


@every(
    "bth, crc, found",
    [
        ({"tver": 3, "p_key": 0x1234}, True, {"BTH003", "ROC012"}),  # the sender computed the ICRC of it
        ({"tver": 3}, False, {"BTH003", "ROC004"}),
        ({"reserved7": 3}, False, {"BTH004", "ROC004"}),
        ({"p_key": 0x8001}, False, {"ROC004", "ROC012"}),
    ],
)
def test_faulty_packets_stay(bth: dict[str, int], crc: bool, found: set[str]) -> None:
    frame = bytearray(roce2(payload=b"data", bth={"psn": 2, **bth}))
    frame[-1] ^= not crc
    assert codes(bytes(frame)) == found


def test_without_an_icrc_nothing_is_reported() -> None:
    """The sender's card had not written it yet."""
    frame = roce2(payload=b"data", bth={"psn": 2, "tver": 3, "p_key": 0x1234})[:-4] + bytes(4)
    assert codes(frame) == {"BTH003", "ROC005", "ROC012"}


@pytest.mark.slow
def test_datagrams_too_short_for_a_bth_are_something_else() -> None:
    """A program got port 4791 by chance; one with a BTH, whose AETH does not fit, is a damaged packet."""
    ack = roce2(0x11, ext={"AETH": {"syndrome": 0, "msn": 1}})

    def short(size: int) -> bytes:
        frame = bytearray(ack[: 42 + size])
        frame[16:18], frame[38:40] = (28 + size).to_bytes(2, "big"), (8 + size).to_bytes(2, "big")
        return bytes(frame)

    assert not any(codes(short(size)) for size in (1, 3, 8, 11))
    assert codes(short(13)) == {"BTH009"}


def test_only_the_datagram_is_left_out() -> None:
    assert packets(datagram(TEXT + bytes(2)), roce2(bth={"p_key": 1})) == [False, True]


def test_native_packets_are_never_left_out() -> None:
    (table,) = tables_of(erf_pcap([native(bth={"tver": 1, "p_key": 1})]))
    assert (Distinct().of(table).located.at("bth") >= 0).all()

"""The data of a TCP segment ends where its IP packet ends, between the right ends."""

from __future__ import annotations

import io

import pytest

import ibdissect
from ibdissect.decode.tcp_segments import segments_of
from tests.craft import ethernet_pcap
from tests.transport.test_tcp_streams import PORT, segment


@pytest.mark.parametrize("ip6", [False, True])
def test_data_and_ends(ip6: bool) -> None:
    frames = [segment(b"abc", 5, ip6=ip6, behind=b"\xff" * 9), segment(b"", 5, answer=True, ip6=ip6), segment(b"defg", 8, ip6=ip6)[:-1]]
    with ibdissect.open(io.BytesIO(ethernet_pcap(frames))) as opened:
        (table,) = opened.tables()
        found = segments_of(table, PORT)
        data = [table.chunk.data[a:b].tobytes() for a, b in zip(found.data.at.tolist(), found.data.stop.tolist(), strict=True)]
        assert (data, found.complete.tolist()) == ([b"abc", b"", b"def"], [True, True, False])
        client, server = (bytes(12 * ip6) + bytes([10, 0, 0, n]) + number.to_bytes(2, "big") for n, number in ((1, 40000), (2, PORT)))
        assert found.ends == [(client, server), (server, client), (client, server)]
        assert len(segments_of(table, PORT + 1).data) == 0 and len(segments_of(table, 40000).data) == 3


def test_a_packet_that_lies_about_its_length() -> None:
    short, long = bytearray(segment(b"abcdef", 5)), bytearray(segment(b"abcdef", 5))
    short[16:18], long[16:18] = (20 + 23).to_bytes(2, "big"), (20 + 24 + 7).to_bytes(2, "big")
    with ibdissect.open(io.BytesIO(ethernet_pcap([bytes(short), bytes(long)]))) as opened:
        (table,) = opened.tables()
        found = segments_of(table, PORT)
        assert found.data.rows.tolist() == [1] and found.complete.tolist() == [False]
        assert found.unread.rows.tolist() == [0] and (found.unread.stop - found.unread.at).tolist() == [10]


@pytest.mark.parametrize("ip6", [False, True])
def test_a_length_of_0_means_all_that_follows(ip6: bool) -> None:
    frame = bytearray(segment(b"abcdef", 5, ip6=ip6))
    at = 18 if ip6 else 16
    frame[at : at + 2] = b"\0\0"
    with ibdissect.open(io.BytesIO(ethernet_pcap([bytes(frame)]))) as opened:
        (table,) = opened.tables()
        found = segments_of(table, PORT)
        assert (found.data.stop - found.data.at).tolist() == [6] and found.complete.tolist() == [True]

"""All that names the ends of a packet names the same ones, and packets with and without a GRH belong together."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import numpy as np
import pytest

import ibdissect
from ibdissect.capture import records
from ibdissect.decode.addresses import End, ends_of
from ibdissect.decode.cm_connections import Connections
from ibdissect.dissect.info_line import summaries
from ibdissect.traffic.statistics import Statistics
from ibdissect.transport.congestion import Congestion
from ibdissect.transport.multicast import Multicast
from ibdissect.transport.psn_streams import Streams
from tests import craft
from tests.craft import interfaces_pcapng
from tests.decode.made import ethernet_table, native_table
from tests.decode.test_networks import numbers

NEAR, FAR = bytes.fromhex("fe80") + bytes(13) + b"\x03", bytes.fromhex("fe80") + bytes(13) + b"\x04"
THERE, BACK = {"sgid": NEAR, "dgid": FAR}, {"sgid": FAR, "dgid": NEAR}


def request(**kw: Any) -> bytes:
    body = craft.build("REQ", 232, local_communication_id=7, local_qpn=0x60, starting_psn=50)
    return craft.gmp(7, 3, 0x10, body, at=24, slid=3, dlid=4, **kw)


def reply(**kw: Any) -> bytes:
    body = craft.build("REP", 232, local_communication_id=8, remote_communication_id=7, local_qpn=0x50, starting_psn=100)
    return craft.gmp(7, 3, 0x13, body, at=24, slid=4, dlid=3, **kw)


SETUP = [request(), reply()]
DATA = [
    *(craft.native(0x04, bytes(8), slid=3, dlid=4, grh=THERE, bth={"destqp": 0x50, "psn": 100 + i}) for i in range(3)),
    *(craft.rc(0x11, ext={"AETH": {"syndrome": 0, "msn": i}}, slid=4, dlid=3, bth={"destqp": 0x60, "psn": 100 + i}) for i in range(3)),
]
"""Requests with a GRH, acknowledgements without."""


@pytest.mark.slow
def test_each_kind_of_address_is_shown_in_its_notation() -> None:
    other = bytes.fromhex("0200000000010200000000029000") + bytes(46)
    for capture, ends in (
        (craft.erf_pcap(DATA[3:4]), ("LID 4", "LID 3")), (craft.erf_pcap(DATA[:1]), ("fe80::3", "fe80::4")),
        (craft.ethernet_pcap([craft.roce2()]), ("192.168.0.1", "192.168.0.2")),
        (craft.ethernet_pcap([other]), ("02:00:00:00:00:02", "02:00:00:00:00:01")),
    ):  # fmt: skip
        with ibdissect.open(BytesIO(capture)) as opened:
            tree = opened.dissect(1)
        assert (tree.summary.source, tree.summary.destination) == ends


def test_an_end_is_distinguished_by_its_lid_and_shown_by_its_gid() -> None:
    table = native_table(DATA)
    routed, plain = ends_of(table, np.array([0, 3]))
    assert routed == plain[::-1] and {routed[0]: 1}[plain[1]] == 1
    assert tuple(map(str, routed)) == ("fe80::3", "fe80::4") and tuple(map(str, plain)) == ("LID 4", "LID 3")
    assert (routed[0].lid, End(b"\n\0\0\1").lid) == (3, None)


def test_rows_of_all_kinds_agree_with_one_by_one() -> None:
    table = native_table([*SETUP, *DATA, b"\xff" * 3])
    rows = np.arange(len(table))
    ends = ends_of(table, rows)
    assert ends == [ends_of(table, rows[[row]])[0] for row in rows.tolist()]
    assert ends[-1] == (b"", b"") and list(map(str, ends[-1])) == ["", ""]
    lines = summaries(table, rows)
    assert [tuple(map(str, both)) for both in ends] == list(zip(lines.source, lines.destination, strict=True))


def roce1(destination: int, **grh: Any) -> bytes:
    return bytes(5) + bytes([destination]) + bytes(6) + b"\x89\x15" + craft.native(0x04, bytes(8), grh=grh)[8:-2]


def test_each_packet_of_a_chunk_has_the_ends_of_its_own_header() -> None:
    """RoCE v1, and v2 over both versions of IP, in any order."""
    four = craft.roce2()
    six = craft.build("IPv6", version=6, payload_length=len(four) - 34, next_header=17, hop_limit=9, source=NEAR, destination=FAR)
    kinds = roce1(0, **BACK), four, four[:12] + b"\x86\xdd" + six + four[34:]
    for order in ([0, 1, 2, 1, 0, 2], [2, 2, 1, 0, 1, 0]):
        table = ethernet_table([kinds[i] for i in order])
        told = [(str(near), str(far)) for near, far in ends_of(table, np.arange(6))]
        assert told == [(("fe80::4", "fe80::3"), ("192.168.0.1", "192.168.0.2"), ("fe80::3", "fe80::4"))[i] for i in order]


def answers(link: int, other: bytes, *frames: bytes) -> bool:
    """Whether a packet goes the other way than one of those before: then its interface shows the other direction of their network."""
    return not any(numbers(interfaces_pcapng([*((0, frame) for frame in frames), (1, other)], link=link)))


@pytest.mark.slow
def test_pairs_are_known_by_their_addresses_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both of them, whatever stands in front of and behind them. Each packet has a window of its own."""
    monkeypatch.setattr(records, "ROWS", 1)

    def one(n: int, **way: Any) -> bytes:
        return roce1(n, **way, flow_label=n << 12 | n)

    def local(slid: int, dlid: int, n: int = 8) -> bytes:
        return craft.rc(0x04, bytes(n), slid=slid, dlid=dlid)

    def four(source: int, destination: int, n: int = 8) -> bytes:
        ip = {"source": bytes([192, 168, 0, source]), "destination": bytes([192, 168, 0, destination])}
        return craft.roce2(payload=bytes(n), bth={"psn": n}, ip=ip)

    other = bytes.fromhex("fe80") + bytes(13) + b"\x05"
    for link, there, back, beside in (
        (1, one(0, **THERE), one(0xFF, **BACK), [one(0, **way) for way in ({**THERE, "sgid": other}, {**THERE, "dgid": other})]),
        (1, four(1, 2), four(2, 1, 12), [four(1, 9), four(9, 2)]),
        (247, local(3, 4), craft.native(0x04, bytes(12), slid=4, dlid=3, grh=THERE), [local(*way) for way in ((3, 5), (5, 4), (3, 0x104))]),
    ):
        assert answers(link, back, there) and answers(link, back, *beside, there) and not answers(link, back, *beside)
        assert not answers(link, there, there)


def test_statistics_name_the_ends_as_show_does() -> None:
    table = native_table([*SETUP, *DATA])
    lines = summaries(table, np.arange(len(table)))
    statistics = Statistics()
    statistics.feed(table)
    result = statistics.result()
    shown = list(zip(lines.source, lines.destination, strict=True))
    assert {(c["source"], c["destination"]): c["frames"] for c in result["conversations"]} == {both: shown.count(both) for both in shown}
    streams = {(s["source"], s["destination"]) for s in result["streams"]}
    assert streams == {("fe80::3", "fe80::4"), ("LID 4", "LID 3")}


def test_streams_with_a_grh_one_way_are_a_pair() -> None:
    table, streams, connections = native_table([*SETUP, *DATA]), Streams(), Connections()
    for follower in (streams, connections):
        for _ in follower.feed(table):
            pass
    (one,) = connections.all
    (there,) = streams.requests("RC", one.active, one.passive, one.passive_qpn)
    assert there.ends.text == "RC fe80::3 → fe80::4 QP 0x000050"
    other = streams.other(there)
    assert other is not None and other.ends.text == "RC LID 4 → LID 3 QP 0x000060"


def test_a_connection_whose_answer_alone_has_a_grh() -> None:
    connections = Connections()
    events = list(connections.feed(native_table([request(), reply(grh=BACK)])))
    (one,) = connections.all
    assert len(events) == 2 and one.rep_frame == 2 and one.passive_qpn == 0x50
    assert str(one.active) == "LID 3"


def test_a_request_with_a_grh_and_its_answer_without() -> None:
    def asked(method: int, near: int, far: int, **kw: Any) -> bytes:
        return craft.gmp(4, method, 0x12, slid=near, dlid=far, **kw)

    frames = [asked(1, 3, 4, grh=THERE), asked(0x81, 4, 3), asked(1, 3, 4, grh=THERE, header={"transaction_id": 9})]
    with ibdissect.open(BytesIO(craft.erf_pcap(frames))) as opened:
        answers = opened.table()["ibdissect.request_frame"]
    assert (answers.frame.tolist(), answers.value.tolist()) == ([2], [1])


def test_marks_and_notifications_of_a_pair_with_a_grh_one_way() -> None:
    marked = craft.native(0x04, bytes(8), slid=3, dlid=4, grh=THERE, bth={"destqp": 0x50, "fecn": 1})
    told = craft.native(0x04, bytes(8), slid=4, dlid=3, bth={"destqp": 0x60, "becn": 1})
    congestion = Congestion()
    congestion.feed(native_table([marked, told]))
    found = {pair.texts: (pair.fecn, pair.becn) for pair in congestion.pairs.values()}
    assert found == {("fe80::3", "fe80::4"): (1, 0), ("LID 4", "LID 3"): (0, 1)}
    (first, second) = congestion.pairs
    assert first == second[::-1]


def test_multicast_with_and_without_a_grh() -> None:
    group = bytes.fromhex("ff12401bffff0000") + bytes(7) + b"\x01"
    frames = [
        craft.ud(bytes(4), dest_qp=0xFFFFFF, src_qp=5, q_key=1, slid=3, dlid=0xC001, grh={"sgid": NEAR, "dgid": group}),
        craft.ud(bytes(4), dest_qp=0xFFFFFF, src_qp=5, q_key=1, slid=3, dlid=0xC001),
        craft.ud(bytes(4), dest_qp=0xFFFFFF, src_qp=5, q_key=1, slid=3, dlid=7),
    ]
    senders = [sender for sender, _ in Multicast().feed(native_table(frames))]
    assert [(one.source_text, one.group_text, one.mlid) for one in senders] == [
        ("fe80::3", "ff12:401b:ffff::1", 0xC001), ("LID 3", "LID 0xc001", 0xC001),
    ]  # fmt: skip

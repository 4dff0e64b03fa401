"""Followers tell apart who shares a number: hosts with one address in two networks, and with one LID behind a router."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ibdissect import Capture
from ibdissect.decode.chunk_table import ChunkTable
from ibdissect.decode.services import Services
from ibdissect.decode.tcp_segments import segments_of
from ibdissect.diagnosis.diagnosis_for_rules import Stories
from ibdissect.mad.missed_exchanges import SmpGaps
from ibdissect.mad.transactions import Transactions
from ibdissect.transport.message_table import MessageTable
from ibdissect.transport.multicast import Multicast
from ibdissect.wire.cm import REP, REQ, SIDR_REP_ID, SIDR_REQ_ID, SIDRRep, SIDRReq
from ibdissect.wire.mad import RMPP
from tests import commands
from tests.acme import ACTIVE_QP, PASSIVE_QP, SERVICE, connection
from tests.cases import few
from tests.craft import build, erf_pcap, ethernet_pcap, gmp, interfaces_pcapng, rc, ud
from tests.diagnosis.lab import MS, SEC, Lab, joined
from tests.mad.test_missed_exchanges import exchanges
from tests.rules.made.conversations import gid_of
from tests.rules.made.subnets import member
from tests.rules.test_rules import lint
from tests.rules.TXN.cases import GET, GET_RESP, perf
from tests.transport import test_reassembled_messages as whole
from tests.transport.test_tcp_streams import PORT, segment

SECOND = 1_000_000_000
ROUTED = [{"sgid": gid_of(1), "dgid": gid_of(70 + i)} for i in range(2)]
"""GRHs of packets to two hosts that share a LID."""


def tables(data: bytes) -> Iterator[ChunkTable]:
    with Capture(io.BytesIO(data)) as opened:
        yield from opened.tables()


def tagged(frame: bytes, vlan: int) -> bytes:
    """The same in a VLAN."""
    return frame[:12] + b"\x81\0" + vlan.to_bytes(2, "big") + frame[12:]


def moved(lab: Lab, vlan: int, by: int = 0) -> Lab:
    """The same traffic in a VLAN, later."""
    lab.frames = [(time + by, tagged(frame, vlan)) for time, frame in lab.frames]
    return lab


# -- networks


@few("directed", [False, True], fast=(1,))
def test_answers_in_one_network_do_not_show_those_of_another(directed: bool) -> None:
    """Of the second one the capture shows one direction only: nobody knows whether a request there was answered."""
    asked, answered, alone, _ = exchanges([7, 8], itself=False) if directed else [perf(GET, 1), perf(GET_RESP, 1), perf(GET, 2), b""]
    for interface, wanted in ((0, True), (1, False)):
        frames = [(0, asked), (0, answered), (interface, alone), (interface, rc(0x04, bytes(8), slid=7, dlid=8))]
        found = {hit.code for hit in lint(interfaces_pcapng(frames, step_ns=2 * SECOND)) if hit.frame == 3}
        assert ("TXN001" in found) is wanted


def gaps(other: int) -> set[tuple[int, int]]:
    """The times in which exchanges seem to be missing, if a manager stops and one on another interface goes on with higher ids."""
    frames = [(0, frame) for frame in exchanges(range(100, 140))] + [(other, frame) for frame in exchanges(range(160, 200))]
    found = SmpGaps()
    times = [SECOND * 1_700_000_000 + (i + 60 * (i >= 80)) * MS for i in range(len(frames))]
    for table in tables(interfaces_pcapng(frames, times=times)):
        found.feed(table)
    return set(found.seconds())


@pytest.mark.slow
def test_managers_of_two_networks_that_count_alike_miss_nothing() -> None:
    assert gaps(0) and not gaps(1)


def test_requests_are_counted_by_network_also_within_a_window() -> None:
    frames = [(i, frame) for i in (0, 1) for frame in (perf(GET, 1), perf(GET_RESP, 1))]
    with Capture(io.BytesIO(interfaces_pcapng(frames))) as opened:
        assert [(row["request_frame"], row["response_frame"], row["tries"]) for row in opened.requests()] == [(1, 2, 1), (3, 4, 1)]


def test_a_group_is_one_networks() -> None:
    """Its record in the first network says nothing of a group of the same GID in another one."""
    talk = [perf(GET, 1), perf(GET_RESP, 1)]
    mgid = bytes.fromhex("ff12401bffff00000000000000000001")
    sent = ud(bytes(64), slid=3, dlid=0xC001, dest_qp=0xFFFFFF, grh={"sgid": gid_of(3), "dgid": mgid})
    record = member(mgid=mgid, mlid=0xC002)
    found = Multicast()
    for table in tables(interfaces_pcapng([(i, frame) for i in (0, 1) for frame in talk] + [(0, record), (0, sent), (1, sent)])):
        found.feed(table)
    first, second = found.senders.values()
    assert first.of in found.groups and second.of not in found.groups
    assert (first.of, first.packets, second.packets) == (next(iter(found.groups)), 1, 1)


def test_ends_of_tcp_are_one_networks() -> None:
    frames = [segment(b"", 1), segment(b"", 1, answer=True)]
    (table,) = tables(ethernet_pcap([*frames, *(tagged(frame, 20) for frame in frames)]))
    table.networks = None
    assert len(set(segments_of(table, PORT).ends)) == 2
    (table,) = tables(ethernet_pcap([*frames, *(tagged(frame, 20) for frame in frames)]))
    assert len(set(segments_of(table, PORT).ends)) == 4


def refused(*, again: int | None) -> Lab:
    """A connection that is never answered, and one between the same addresses that is; in which VLAN."""
    first, second = Lab(), Lab(qa=0x333, qb=0x444)
    first.req(0, 8)
    second.good(second.up(), 100, 3)
    moved(second, again, 5 * SEC) if again is not None else second.frames.clear()
    first.frames += second.frames
    return first


@pytest.mark.slow
def test_a_connection_of_another_network_makes_no_refusal_good() -> None:
    def later(lab: Lab) -> list[bool]:
        stories = Stories()
        for table in tables(lab.pcap()):
            stories.feed(table)
        return [stories.connected_later(one) for one in stories.of_cause("connect-unanswered")]

    own = refused(again=20)
    own.frames = [(time, frame if frame[12:14] == b"\x81\0" else tagged(frame, 20)) for time, frame in own.frames]
    assert (later(refused(again=None)), later(own), later(refused(again=20))) == ([False], [True], [False])


def test_who_computes_icrcs_wrongly_does_so_in_its_network() -> None:
    lab = Lab()
    lab.good(0, 100, 10)
    lab.frames = [(time, frame[:-1] + bytes([frame[-1] ^ 1]) if i % 2 == 0 else frame) for i, (time, frame) in enumerate(lab.frames)]
    good = Lab()
    good.good(0, 100, 10)
    stories = Stories()
    for table in tables(joined(lab, moved(good, 20, SEC)).pcap()):
        stories.feed(table)
    (wrong,) = stories.of_cause("icrc-wrong-at-sender")
    assert wrong.hosts is not None and stories.verdicts is not None
    (host,) = stories.verdicts.blamed("icrc-wrong-at-sender")
    assert (host.address, host.network) == (lab.a, 0)
    assert stories.computes_wrongly(host) and not stories.computes_wrongly(type(host)(host + b"\0\0\x07"))


def test_a_cause_is_shared_by_connections_of_one_host() -> None:
    labs = []
    for i in range(2):
        lab = Lab(qa=0x100 + i, qb=0x200 + i)
        lab.req(i * MS, 8, local_communication_id=0xA0 + i)
        labs.append(lab)
    lab = joined(*labs)
    assert [one.host for one in lab.diagnosis().shared] == ["10.0.0.2"]
    moved(labs[1], 20)
    stories = Stories()
    for table in tables(joined(*labs).pcap()):
        stories.feed(table)
    assert stories.diagnosis is not None and len(stories.diagnosis.connections) == 2 and not stories.diagnosis.shared


PLUGIN = f"""
from ibdissect.wire.places import CmPayload, Stream
from ibdissect.wire.spec import Struct, rest, uint


class Pdu(Struct):
    "One PDU."

    prefix, key, section, size = "same", "same_pdu", "X 1", 4
    length = uint(32, "Length", at="0", unit="bytes")
    data = rest("Data", at="4")
    carried_by = Stream(CmPayload({SERVICE}), length=length)
"""


def test_a_stream_begins_anew_with_its_connection_in_any_network(tmp_path: Path) -> None:
    """The first one ended in the middle of a PDU. Both begin with PSN 0."""
    (tmp_path / "same.py").write_text(PLUGIN)
    half, whole_one = ((8).to_bytes(4, "big"), (8).to_bytes(4, "big") + b"data")
    sent = [rc(0x04, data, bth={"destqp": PASSIVE_QP, "psn": 0}, slid=1, dlid=2) for data in (half, whole_one)]
    again = [
        gmp(7, 3, 0x10, build(REQ, local_communication_id=17, service_id=SERVICE, local_qpn=ACTIVE_QP), at=24, slid=1, dlid=2),
        gmp(7, 3, 0x13, build(REP, local_communication_id=19, remote_communication_id=17, local_qpn=PASSIVE_QP), at=24, slid=2, dlid=1),
    ]
    for interface in (0, 1):
        talk = [*connection(SERVICE), sent[0], *again, sent[1]]
        frames = [(0, perf(GET, 1)), (0, perf(GET_RESP, 1)), *((interface, one) for one in talk)]
        (tmp_path / "same.pcapng").write_bytes(interfaces_pcapng(frames))
        with Capture(str(tmp_path / "same.pcapng"), plugins=[tmp_path / "same.py"]) as opened:
            assert opened.table()["same.same_pdu.length"].frame.tolist() == [8]


def test_a_datagram_service_is_known_in_any_network() -> None:
    told = gmp(7, 3, SIDR_REP_ID, build(SIDRRep, request_id=7, qpn=0x77), at=24, slid=2, dlid=1)
    asked = gmp(7, 3, SIDR_REQ_ID, build(SIDRReq, request_id=7, service_id=SERVICE), at=24, slid=1, dlid=2)
    for interface in (0, 1):
        services = Services()
        frames = [(0, perf(GET, 1)), (0, perf(GET_RESP, 1)), (interface, asked), (interface, told), (interface, ud(b"data", dest_qp=0x77))]
        found = []
        for table in tables(interfaces_pcapng(frames)):
            services.feed(table)
            rows, served, sides = services.messages(table)
            found += zip(table.numbers(rows), served, sides, strict=True)
        assert found == [(5, SERVICE, 1)]


# -- hosts that share a LID


def to_both(parts: Sequence[Sequence[bytes]]) -> list[bytes]:
    """Packets to two hosts in turn."""
    return [frame for both in zip(*parts, strict=True) for frame in both]


def send(psn: int, code: int, payload: bytes, host: int, **bth: Any) -> bytes:
    return rc(code, payload, bth={"destqp": PASSIVE_QP, "psn": psn, **bth}, slid=1, dlid=2, grh=ROUTED[host])


def test_messages_to_two_hosts_behind_a_router_are_put_together() -> None:
    service, before, data = whole.SERVED["iser"]
    cut = [data[at : at + 256] for at in range(0, len(data), 256)]
    codes = [0x00, *[0x01] * (len(cut) - 2), 0x02]
    sent = [[send(10 + 700 * host + i, code, part, host) for i, (code, part) in enumerate(zip(codes, cut, strict=True))] for host in (0, 1)]
    assert list(whole.found([*connection(service, before), *to_both(sent)]).values()) == [data] * 2


def test_transfers_to_two_virtual_ports() -> None:
    """Their hosts count transaction ids alike."""
    rmpp = [
        build(RMPP, rmpp_version=1, rmpp_type=1, rmpp_flags=flags, data1=number, data2=length)
        for number, flags, length in ((1, 3, 660), (2, 1, 0), (3, 5, 220))
    ]
    about: dict[str, Any] = {"at": 24, "header": {"transaction_id": 5}, "slid": 1, "dlid": 2}
    segments = [[gmp(3, 0x92, 0x20, one + bytes(220), grh=grh, **about) for one in rmpp] for grh in ROUTED]
    transactions = Transactions()
    told = [event for table in tables(erf_pcap(to_both(segments))) for event in transactions.feed(table)]
    assert not told and len(transactions.transfers.sent) == 2


def test_an_answer_of_one_host_is_for_its_own_requests() -> None:
    """Where only one of two hosts behind a router is asked in the capture, or asks, the other one's answers belong to nothing in it."""
    for answers, asks, known in ((70, 1, True), (71, 1, False), (70, 2, False)):
        grh = {"sgid": gid_of(answers), "dgid": gid_of(asks)}
        ack = rc(0x11, ext={"AETH": {"syndrome": 31, "msn": 1}}, bth={"destqp": 0x30, "psn": 5}, slid=2, dlid=1, grh=grh)
        messages = MessageTable()
        for table in tables(erf_pcap([send(5, 0x04, bytes(8), 0), ack])):
            messages.feed(table)
        messages.finish()
        assert messages.columns().complete.tolist() == [known]


@pytest.mark.slow
def test_messages_to_two_hosts_behind_a_router_are_counted_apart() -> None:
    frames = to_both([[send(psn + 5 * host, 0x04, bytes(8), host) for psn in range(3)] for host in (0, 1)])
    done = commands.run("stats", "-", "--format", "json", stdin=erf_pcap(frames))
    found = json.loads(done.stdout)["messages"]
    assert [(one["service"], one["messages"]) for one in found] == [("RC", 3)] * 2
    assert len({one["destination"] for one in found}) == 2


def test_credits_of_two_hosts_behind_a_router() -> None:
    from_them = [{"sgid": grh["dgid"], "dgid": grh["sgid"]} for grh in ROUTED]
    frames = [
        rc(0x11, ext={"AETH": {"syndrome": code, "msn": 1}}, bth={"destqp": 7}, slid=2, dlid=1, grh=grh)
        for grh, code in zip(from_them, (0, 9), strict=True)
    ]
    done = commands.run("stats", "-", "--format", "json", stdin=erf_pcap(frames))
    streams = json.loads(done.stdout)["streams"]
    assert sorted((one["least_credits"], one["no_credits"]) for one in streams) == [(0, 1), (24, 0)]

"""The connections of a capture are followed from REQ to DREP."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ibdissect.decode import ChunkTable
from ibdissect.decode.cm_connections import Connections
from ibdissect.transport.psn_streams import Streams
from ibdissect.wire import cm
from tests import craft
from tests.cases import every, few
from tests.decode.made import Row, chunk_of, native_table, tables_of


def followed(path: Path) -> tuple[Connections, Streams]:
    connections, streams = Connections(), Streams()
    for table in tables_of(str(path)):
        for source in (connections, streams):
            for _ in source.feed(table):
                pass
    return connections, streams


@pytest.mark.parametrize(
    ("name", "count", "torn_down"), [("cm_cmtime", 40, 40), ("cm_rping_persistent", 3, 3), ("cm_mra", 1, 1), ("vlan_send_rdmacm", 2, 2)]
)
def test_connections_of_a_capture(shared: Path, name: str, count: int, torn_down: int) -> None:
    connections, _ = followed(shared / f"captures/rxe/{name}.pcap")
    assert len(connections.all) == count
    assert all(c.rep_frame and c.rtu_frame and c.passive_qpn > 1 for c in connections.all)
    assert sum(c.dreq_frame > 0 and c.drep_frame > 0 for c in connections.all) == torn_down


def test_each_side_begins_with_what_its_peer_announced(shared: Path) -> None:
    connections, streams = followed(shared / "captures/rxe/cm_rping_v4.pcap")
    (c,) = connections.all
    (there,) = streams.requests("RC", c.active, c.passive, c.passive_qpn)
    (back,) = streams.requests("RC", c.passive, c.active, c.active_qpn)
    assert there.first_psn == c.passive_psn
    assert back.first_psn == c.active_psn


def test_a_slow_answer_and_a_refusal(shared: Path) -> None:
    (slow,) = followed(shared / "captures/rxe/cm_mra.pcap")[0].all
    assert slow.tries == 2 and slow.mra_frame == 3 and slow.rep_frame == 4
    (refused,) = followed(shared / "captures/rxe/cm_reject_no_listener.pcap")[0].all
    assert refused.rej is not None and refused.rej[2] == 8 and not refused.rep_frame


def sent(attribute: int, struct: Any, there: bool = True, **values: Any) -> bytes:
    """A message of connection management from LID 3 to LID 4, or back; `slid`, `dlid` and names of headers go to the packet."""
    ways = {name: values.pop(name) for name in ("slid", "dlid") if name in values} or {"slid": 3 if there else 4, "dlid": 4 if there else 3}
    return craft.gmp(0x07, 0x03, attribute, craft.build(struct, 232, **values), at=24, **ways)


ASKED: dict[str, Any] = {
    "local_communication_id": 7, "service_id": 0x99, "local_qpn": 0x60, "starting_psn": 50, "primary_local_port_lid": 3,
    "primary_remote_port_lid": 4, "primary_subnet_local": 1, "partition_key": 0x8005, "path_packet_payload_mtu": 5, "retry_count": 6,
    "max_cm_retries": 9, "remote_cm_response_timeout": 20, "primary_local_ack_timeout": 17,
}  # fmt: skip
BACK = {"remote_communication_id": 7, "local_communication_id": 8}
THERE = {"remote_communication_id": 8, "local_communication_id": 7}


def asked(**values: Any) -> bytes:
    return sent(0x10, cm.REQ, **{**ASKED, **values})


def answered(there: bool = False, **values: Any) -> bytes:
    return sent(0x13, cm.REP, there, **{**BACK, "local_qpn": 0x50, "starting_psn": 100, **values})


def slow_table(frames: Sequence[bytes]) -> ChunkTable:
    """A frame every tenth of a second, so that repetitions are no copies of a mirror."""
    table = native_table(frames)
    table.chunk.time_ns[:] *= 100_000_000
    return table


def learnt(*frames: bytes) -> tuple[Connections, list[object]]:
    connections = Connections()
    return connections, list(connections.feed(slow_table(frames)))


def test_all_that_a_connection_says() -> None:
    """A REQ twice, MRA, REP twice, RTU twice, an alternate path, DREQ of either side, DREP."""
    state, told = learnt(
        asked(), asked(), sent(0x11, cm.MRA, False, **BACK, message_mraed=0, service_timeout=21), answered(), answered(local_qpn=0x51),
        sent(0x14, cm.RTU, **THERE), sent(0x14, cm.RTU, **THERE),
        sent(0x19, cm.LAP, **THERE, alternate_local_port_lid=13, alternate_remote_port_lid=14, alternate_subnet_local=1),
        sent(0x1A, cm.APR, False, **BACK, ap_status=0), sent(0x15, cm.DREQ, **THERE, remote_qpn=0x50),
        sent(0x15, cm.DREQ, False, **BACK, remote_qpn=0x60), sent(0x15, cm.DREQ, **THERE, remote_qpn=0x50),
        sent(0x16, cm.DREP, False, **BACK), sent(0x16, cm.DREP, False, **BACK),
    )  # fmt: skip
    (one,) = state.all
    table = slow_table([asked()] * 14)
    time = table.chunk.time_ns.tolist()
    assert (one.req_frame, one.tries, one.last_req - one.reqs[0][1], one.mra_frame, one.mra_of, one.mra_timeout) == (
        1, 2, time[1] - time[0], 3, 0, 21)  # fmt: skip
    assert (one.rep_frame, one.reps, one.passive_qpn, one.passive_psn, one.rtu_frame) == (4, 2, 0x50, 100, 6)
    assert (one.active_qpn, one.active_psn, one.active_lid, one.passive_lid, one.service_id) == (0x60, 50, 3, 4, 0x99)
    assert (one.retry_count, one.mtu) == (6, 4096) and one.in_subnet
    assert (one.lap_frame, one.apr_frame, one.ap_status, one.lap_path, one.alternates) == (8, 9, 0, (13, 14), ((13, 14),))
    assert (one.dreq_frame, one.asked_to_end, one.active.lid, one.drep_frame, one.ended) == (10, 2, 3, 13, 10)
    assert [type(event).__name__ for event in told] == [
        "Requested", "Requested", "Replied", "Replied", "Confirmed", "Confirmed", "PathAnswered", "Disconnecting", "Disconnecting",
        "Disconnecting",
    ]  # fmt: skip
    assert [one.lasts(frame) for frame in (4, 5, 9, 10)] == [False, True, True, False]
    assert one.every_queue_pair == [(3, 0x60), (13, 0x60), (4, 0x50), (14, 0x50)]
    assert all(state.at(pair, 9) is one for pair in ((3, 0x60), (4, 0x50)))
    assert [state.at((13, 0x60), frame) for frame in (7, 9)] == [None, None], "the APR grants the path in frame 9"
    assert state.at((3, 0x50), 9) is None and state.at((5, 0x60), 9) is None
    assert state.at((3, 0x60), 4) is None and state.at((3, 0x60), 10) is None
    (near, _), (far, _) = one.sides
    assert state.facing(near, far, 0x50, 9) == (one, 0x60) and state.facing(far, near, 0x60, 9) == (one, 0x50)
    assert state.facing(near, far, 0x60, 9) is None and state.facing(far, far, 0x50, 9) is None
    assert one.both_speak and not learnt(asked())[0].all[0].both_speak


@pytest.mark.slow
@every(("lid", "known"), [(0, False), (1, True), (0xBFFF, True), (0xC000, False)])
def test_lids_at_the_bounds_of_unicast(lid: int, known: bool) -> None:
    """A path of a REQ is one of this subnet only if both LIDs are of ports; so are alternate paths of REQ and LAP."""
    for here in ({"primary_local_port_lid": lid}, {"primary_remote_port_lid": lid}):
        assert learnt(asked(**here))[0].all[0].in_subnet is known
    assert not learnt(asked(primary_subnet_local=0))[0].all[0].in_subnet
    for name in ("local", "remote"):
        path = {"alternate_local_port_lid": 13, "alternate_remote_port_lid": 14, f"alternate_{name}_port_lid": lid}
        assert bool(learnt(asked(**path, alternate_subnet_local=1))[0].all[0].alternates) is known
        assert not learnt(asked(**path, alternate_subnet_local=0))[0].all[0].alternates
        (one,) = learnt(asked(), answered(), sent(0x19, cm.LAP, False, **BACK, **path, alternate_subnet_local=1))[0].all
        assert one.lap_path == ((path["alternate_remote_port_lid"], path["alternate_local_port_lid"]) if known else (0, 0))


@every(("code", "size"), [(0, 0), (1, 256), (2, 512), (4, 2048), (5, 4096), (6, 0), (7, 0)])
def test_codes_of_the_mtu(code: int, size: int) -> None:
    assert learnt(asked(path_packet_payload_mtu=code))[0].all[0].mtu == size


def test_a_cut_set_up_is_counted_and_nothing_is_concluded_from_it() -> None:
    """`stats` has it, with what was captured; rules are not told of it."""
    frames = [asked(), answered(), sent(0x14, cm.RTU, **THERE)]
    state = Connections()
    told = list(state.feed(ChunkTable(chunk_of([Row(frame[:96], 247, wire=len(frame)) for frame in frames]))))
    (one,) = state.requested
    assert not told and not state.all and (one.tries, one.rep is not None, one.rtu is not None) == (1, True, True)
    assert (one.qpns[0], one.agreed["retry_count"], one.service) == (0x60, None, "")


def test_what_makes_a_req_another_connection() -> None:
    again = {"local_qpn": 0x61}, {"service_id": 0x98}, {"local_communication_id": 6}
    assert [len(learnt(asked(), asked(**values))[0].all) for values in ({}, *again)] == [1, 2, 2, 2]
    assert len(learnt(asked(), answered(), sent(0x15, cm.DREQ, **THERE), asked())[0].all) == 2
    refused = sent(0x12, cm.REJ, False, **BACK, reason=28)
    assert [len(one.reqs) for one in learnt(asked(), refused, asked(), asked())[0].all] == [1, 2]


def turns(number: int) -> list[bytes]:
    """A REQ, a REP and an RTU of each of some connections of the same two queue pairs."""
    frames = []
    for turn in range(number):
        mine = {"local_communication_id": 200 + turn}
        theirs = {"local_communication_id": 400 + turn, "remote_communication_id": 200 + turn}
        frames += [asked(**mine), answered(**theirs), sent(0x14, cm.RTU, **mine, remote_communication_id=400 + turn)]
    return frames


@few("number", [4, 64], fast=(0,))
def test_a_queue_pair_is_that_of_its_connection_at_a_frame(number: int) -> None:
    """The next one ends it. Rules ask when the whole chunk was read, as if it had been read frame by frame."""
    state, _ = learnt(*turns(number))
    *ended, last = (one.ended for one in state.all)
    assert ended == [*range(4, 3 * number, 3)] and last > 3 * number, "the last one did not end"
    for pair in ((3, 0x60), (4, 0x50)):
        assert [state.at(pair, 3 * turn + 3) for turn in range(number)] == list(state.all)
    assert state.begun == list(state.all) and not state.dropped.count
    list(state.feed(native_table([sent(0x14, cm.RTU, **THERE)])))
    assert state.begun == []
    assert [state.by_queue_pair[3, 0x60], *state.by_side.values()] == 3 * [list(state.all)[-2:]]  # the next chunk has nothing of the others


def test_what_a_queue_pair_had_too_often_is_counted() -> None:
    state, _ = learnt(*turns(70))
    assert (state.dropped.count, state.dropped.frame) == (6, 194)
    assert [state.at((3, 0x60), 3 * turn + 3) for turn in range(70)] == [*6 * [None], *list(state.all)[6:]]
    one_by_one = Connections()
    for table in tables_of(craft.erf_pcap(turns(70)), window=1024):
        list(one_by_one.feed(table))
    assert not one_by_one.dropped.count  # what has ended before is asked for by nobody


def test_refusals() -> None:
    stray = sent(0x12, cm.REJ, False, remote_communication_id=99, reason=8)
    state, told = learnt(asked(), sent(0x12, cm.REJ, False, **BACK, reason=28), stray)
    (one,) = state.all
    assert (one.rej_frame, one.rej and one.rej[2], one.rejected_by.lid, one.ended) == (2, 28, 4, 2)
    assert [getattr(event, "reason", None) for event in told] == [None, 28, 8]
    alone = told[2]
    assert (alone.frame, alone.sender.lid, alone.receiver.lid) == (3, 4, 3)


def test_an_alternate_path_counts_from_its_grant_on() -> None:
    path = {"alternate_local_port_lid": 13, "alternate_remote_port_lid": 14, "alternate_subnet_local": 1}
    granted = [sent(0x19, cm.LAP, **THERE, **path), sent(0x1A, cm.APR, False, **BACK, ap_status=0)]
    state, _ = learnt(asked(), answered(), *granted)
    (one,) = state.all
    assert [[state.at((lid, qp), frame) is one for frame in (3, 4, 5)] for lid, qp in ((3, 0x60), (13, 0x60), (14, 0x50))] == [
        [True, True, True], [False, False, True], [False, False, True]]  # fmt: skip
    state, _ = learnt(asked(**path), answered(), *granted)
    assert state.at((13, 0x60), 3) is state.all[0], "the path of the REQ counts from the REP on"


def test_an_alternate_path_that_is_refused_is_none() -> None:
    path = {"alternate_local_port_lid": 13, "alternate_remote_port_lid": 14, "alternate_subnet_local": 1}
    state, _ = learnt(asked(), answered(), sent(0x19, cm.LAP, **THERE, **path), sent(0x1A, cm.APR, False, **BACK, ap_status=1))
    assert state.all[0].ap_status == 1 and not state.all[0].alternates and state.at((13, 0x60), 4) is None


def test_the_frames_of_an_alternate_path_are_those_of_its_latest_offer() -> None:
    """0: not yet."""
    lap, apr = (
        sent(0x19, cm.LAP, **THERE, alternate_local_port_lid=13, alternate_remote_port_lid=14),
        sent(0x1A, cm.APR, False, **BACK, ap_status=1),
    )
    for messages, frames in (((), (0, 0)), ((lap,), (3, 0)), ((lap, apr), (3, 4)), ((lap, apr, lap), (5, 0)), ((apr,), (0, 3))):
        (one,) = learnt(asked(), answered(), *messages)[0].all
        assert (one.lap_frame, one.apr_frame) == frames
        assert (one.active_lid, one.passive_lid, one.req_frame) == (3, 4, 1)

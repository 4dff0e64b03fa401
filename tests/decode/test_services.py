"""Which service a queue pair of an address has, since when, and how many are remembered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from ibdissect.capture import records
from ibdissect.decode import ChunkTable
from ibdissect.decode.services import ACTIVE, PASSIVE, Services
from ibdissect.wire import cm
from ibdissect.wire.cm import SIDRRep
from tests.bounds import bound
from tests.craft import build, erf_pcap, gmp, native, rc, ud
from tests.decode.made import ethernet_table, native_table, tables_of
from tests.decode.test_cm_connections import BACK, THERE, answered, asked, sent
from tests.decode.test_connection_events import SERVICE, ask, tell

ACTIVE_END, PASSIVE_END = (0x60, b"\0\3"), (0x50, b"\0\4")
"""Queue pairs and addresses of the connection of `asked` and `answered`."""
LATER = 1 << 50


def learnt(*frames: bytes) -> tuple[Services, list[int]]:
    """The services, and the times of the frames."""
    found, table = Services(), by_seconds(frames)
    found.feed(table)
    return found, table.chunk.time_ns.tolist()


def by_seconds(frames: Sequence[bytes]) -> ChunkTable:
    """A frame in each second, so that repetitions are no copies of a mirror."""
    table = native_table(frames)
    table.chunk.time_ns[:] = np.arange(1, len(frames) + 1) * 1_000_000_000
    return table


def services_of(found: Services, *packets: bytes) -> list[tuple[int, int, int]]:
    """Row, service and side of packets that follow at once."""
    table = native_table(packets)
    table.chunk.time_ns[:] = LATER
    rows, services, sides = found.messages(table)
    return list(zip(rows.tolist(), services, sides, strict=True))


def to(end: tuple[int, bytes], **more: Any) -> bytes:
    return native(0x04, b"data", dlid=int.from_bytes(end[1], "big"), bth={"destqp": end[0]}, **more)


def test_both_ends_of_a_connection() -> None:
    found, times = learnt(asked(), answered())
    packets = [to(ACTIVE_END), to(PASSIVE_END), to((0x60, b"\0\4")), to((0x61, b"\0\3"))]
    assert services_of(found, *packets) == [(0, 0x99, ACTIVE), (1, 0x99, PASSIVE)]
    assert [found.since(*ACTIVE_END, time) for time in (times[0] - 1, times[0], times[1])] == [0, times[0], times[0]]
    assert [found.since(*PASSIVE_END, time) for time in (times[0], times[1], times[1] + 9)] == [0, times[1], times[1]]
    assert found.serves(0x99) and not found.serves(0x98) and found.any and not Services().any


def test_a_service_begins_anew_with_another_connection_and_not_with_a_repetition() -> None:
    again = {"local_communication_id": 17}, {"remote_communication_id": 17, "local_communication_id": 18}
    found, times = learnt(asked(), answered(), asked(), answered(), asked(**again[0]), answered(**again[1]))
    assert [found.since(*ACTIVE_END, time) for time in times] == [times[0]] * 4 + [times[4]] * 2
    assert [found.since(*PASSIVE_END, time) for time in times] == [0, times[1], times[1], times[1], times[1], times[5]]


@pytest.mark.parametrize("by_active", [True, False])
def test_who_is_asked_to_end_serves_nothing_from_then_on(by_active: bool) -> None:
    asks = sent(0x15, cm.DREQ, by_active, **(THERE if by_active else BACK), remote_qpn=0x50 if by_active else 0x60)
    found, times = learnt(asked(), answered(), asks)
    gone, left = (PASSIVE_END, ACTIVE_END) if by_active else (ACTIVE_END, PASSIVE_END)
    assert services_of(found, to(gone), to(left)) == [(1, 0x99, ACTIVE if by_active else PASSIVE)]
    assert found.since(*gone, times[2]) == times[2] and found.since(*left, times[2]) < times[2]


@pytest.mark.parametrize(("status", "service"), [(0, SERVICE), (1, None)])
def test_a_datagram_service_is_that_of_a_queue_pair_if_it_is_found(status: int, service: int | None) -> None:
    frames = [ask(7), tell(7, 0x77, status=status)]
    found, _ = learnt(*frames)
    sends = [ud(b"data", dest_qp=0x77, dlid=dlid) for dlid in (2, 1)]
    assert services_of(found, *sends) == ([(0, service, PASSIVE)] if service is not None else [])
    assert [one.of_message(native_table(frames), SIDRRep, 0) for one in (found, Services())] == [SERVICE, 0]


def test_which_messages_belong_to_a_connection() -> None:
    frames = [asked(), answered(), sent(0x14, cm.RTU, **THERE), sent(0x14, cm.RTU, **{**THERE, "remote_communication_id": 5})]
    found, table = learnt(*frames)[0], by_seconds(frames)
    assert [found.of_message(table, cm.RTU, i) for i in (0, 1)] == [0x99, 0] and found.of_message(table, cm.REP, 0) == 0x99
    assert found.of_message(table, cm.REQ, 0) == 0, "it says itself"


def test_only_sends_that_begin_a_message_are_asked_for() -> None:
    """A payload is needed; of other OpCodes only if they are asked for."""
    found, _ = learnt(asked(), answered())
    first, middle, last, ack = (rc(code, b"data", dlid=4, bth={"destqp": 0x50}) for code in (0, 1, 2, 0x11))
    bare = native(0x04, b"", dlid=4, bth={"destqp": 0x50})
    table = native_table([first, middle, last, ack, bare, to(PASSIVE_END)])
    table.chunk.time_ns[:] = LATER
    assert found.messages(table)[0].tolist() == [0, 5] and found.messages(table, bare=True)[0].tolist() == [0, 4, 5]
    assert found.messages(table, np.arange(256) <= 2)[0].tolist() == [0, 1, 2]
    assert Services().messages(table)[0].tolist() == []


def test_names_of_services_are_those_that_controllers_list() -> None:
    entries = b"".join(build("ServiceEntry", service_name=name, service_id=number) for name, number in (("SRP.T10:a", 5), ("x", 6)))
    found, _ = learnt(gmp(0x06, 0x81, 0x12, entries, at=64, slid=2, dlid=1))
    assert (found.names.get(5), found.names.get(6), found.names.get(7)) == ("SRP.T10:a", "x", None)


@pytest.mark.parametrize(("most", "kept", "dropped"), [(4, [1, 2, 3, 4], 0), (3, [2, 3, 4], 1), (1, [4], 3)])
def test_the_oldest_ends_are_forgotten(most: int, kept: list[int], dropped: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not because of a message that is repeated."""
    bound(monkeypatch, most, "decode")
    found = Services()
    for qp in range(1, 5):
        found._bind({b"\0\2", b"", b"\0\0"}, qp, qp, qp, 9, PASSIVE)
        found._bind({b"\0\2"}, qp, qp, qp, 9, PASSIVE)
    assert [qp for qp in range(1, 5) if found.since(qp, b"\0\2", 99)] == kept
    assert (found.dropped.count, found.dropped.frame) == (dropped, 5 - dropped if dropped else 0)


def test_all_that_an_end_had_is_forgotten_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    bound(monkeypatch, 3, "decode")
    found = Services()
    for moment, (qp, service) in enumerate([(1, 9), (1, 11), (2, 9), (3, 9), (4, 9)], 1):
        found._bind({b"\0\2"}, qp, moment, moment, service, PASSIVE)
    assert [qp for qp in range(1, 5) if found.since(qp, b"\0\2", 99)] == [2, 3, 4] and found.dropped.count == 1
    for service in (9, 11):
        found.assign(b"\0\2", 5, service, PASSIVE)  # no end is forgotten for it, but it counts
    found._bind({b"\0\2"}, 6, 6, 6, 9, PASSIVE)
    assert found.dropped.count == 2


def test_a_service_that_comes_back_counts_from_then_on() -> None:
    found = Services()
    for moment, service in ((1, 9), (2, 11), (3, 9), (4, 9)):
        found._bind({b"\0\2"}, 7, moment, moment, service, PASSIVE)
    assert [found.since(7, b"\0\2", time) for time in range(6)] == [0, 1, 2, 3, 3, 3]
    assert found.serves(9) and found.serves(11) and not found.serves(10)


def test_a_port_is_known_by_the_lid_in_its_request_too() -> None:
    found, _ = learnt(asked(primary_local_port_lid=5), answered())
    assert services_of(found, to((0x60, b"\0\5")), to((0x60, b"\0\3")), to((0x60, b"\0\4"))) == [(0, 0x99, ACTIVE), (1, 0x99, ACTIVE)]


def test_packets_of_no_queue_pair_are_no_messages() -> None:
    found, _ = learnt(asked(), answered())
    assert found.messages(ethernet_table([bytes(60)]))[1:] == ([], [])


def test_what_is_set_by_hand_counts_from_the_beginning() -> None:
    found = Services()
    for service, side in ((9, ACTIVE), (11, PASSIVE)):
        found.assign(b"\0\2", 7, service, side)
    assert services_of(found, to((7, b"\0\2"))) == [(0, 11, PASSIVE)] and not found.serves(9) and found.since(7, b"\0\2", 5) == 0


@pytest.mark.parametrize("rows", [1, 2])
def test_chunks_that_were_fed_are_skipped(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "ROWS", rows)
    found, windows = Services(), list(tables_of(erf_pcap([asked(), answered(), to(PASSIVE_END), to(ACTIVE_END)])))
    for window in (*windows, *windows):
        found.feed(window)
        assert len(found.connections.all) == 1 and found.connections.all[0].tries == 1
    assert found.fed == 4
    before = found.connections.at((3, 0x60), 3)
    found.feed(windows[0])
    assert found.fed == 4 and found.connections.at((3, 0x60), 3) is before is not None

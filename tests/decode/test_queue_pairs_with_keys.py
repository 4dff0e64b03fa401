"""A message to a queue pair that ever served a service with keys is hidden, whatever its path, time and addresses are."""

from __future__ import annotations

import io
import struct
from itertools import chain
from typing import Any

import pytest

import ibdissect
from ibdissect.wire.cm import REQ
from ibdissect.wire.ulp import rpcrdma, rping
from tests.acme import ACTIVE_QP, PASSIVE_QP, SERVICE
from tests.bounds import bound
from tests.craft import LINK_INFINIBAND, build, erf_pcap, ethernet_pcap, gmp, interfaces_pcapng, rc, ud
from tests.decode.hidden.test_cut_keys import trees
from tests.fuzz.container import pcapng
from tests.keyed import HEADER, roce

KEY = bytes.fromhex("a75ce391")
MESSAGE = build(rping.RpingBuffer, address=0x1000, r_key=int.from_bytes(KEY, "big"), length=64)
ALTERNATE = {"primary_subnet_local": 1, "alternate_subnet_local": 1, "alternate_local_port_lid": 11, "alternate_remote_port_lid": 12}


def set_up(service: int = rping.SERVICE, ids: tuple[int, int] = (7, 9), lids: tuple[int, int] = (1, 2), **more: Any) -> list[bytes]:
    """REQ and REP."""
    asked = {"local_communication_id": ids[0], "service_id": service, "local_qpn": ACTIVE_QP, "primary_local_port_lid": lids[0],
             "primary_remote_port_lid": lids[1]} | more  # fmt: skip
    req = build(REQ, **asked)[: REQ.private_data.bit // 8] + HEADER.ljust(92, b"\0")
    rep = build("REP", local_communication_id=ids[1], remote_communication_id=ids[0], local_qpn=PASSIVE_QP)
    return [_cm(0x10, req, *lids), _cm(0x13, rep, *lids[::-1])]


def _cm(attribute: int, body: bytes, slid: int = 1, dlid: int = 2) -> bytes:
    return gmp(7, 3, attribute, body, at=24, slid=slid, dlid=dlid)


def send(slid: int = 1, dlid: int = 2, qp: int = PASSIVE_QP, payload: bytes = MESSAGE, **more: Any) -> bytes:
    return rc(4, payload, bth={"destqp": qp}, slid=slid, dlid=dlid, **more)


def shows(data: bytes, key: bytes = KEY) -> bool:
    """Whether the tree of the last frame shows its key, or filters read it."""
    with ibdissect.open(io.BytesIO(data)) as opened:
        table = list(opened.tables())[-1]
        tree = dict(trees(table))[len(table) - 1]
        begin, size = int(table.chunk.offset[-1]), int(table.chunk.caplen[-1])
        at = table.chunk.data[begin : begin + size].tobytes().find(key)
        assert at >= 0
        hidden = {place for start, stop in tree.secret_bytes for place in range(start, stop)}
        return not hidden.issuperset(range(at, at + len(key)))


WAYS: dict[str, list[bytes]] = {
    "alternate path of the REQ": [*set_up(**ALTERNATE), send(11, 12)],
    "alternate path of a LAP": [
        *set_up(primary_subnet_local=1),
        _cm(0x19, build("LAP", local_communication_id=7, remote_communication_id=9, **dict(list(ALTERNATE.items())[1:]))),
        _cm(0x1A, build("APR", local_communication_id=9, remote_communication_id=7), 2, 1), send(12, 11, ACTIVE_QP),
    ],
    "behind a DREQ": [
        *set_up(), _cm(0x15, build("DREQ", local_communication_id=7, remote_communication_id=9, remote_qpn=PASSIVE_QP)), send()
    ],
    "path bits of a LID": [*set_up(), send(1, 3)],
    "routers": [*set_up(), send(77, 78, grh={"sgid": b"\xfe\xc0" + bytes(14), "dgid": b"\xfe\xc0" + bytes(13) + b"\2"})],
    "another REQ of the queue pair": [*set_up(), set_up(SERVICE, (17, 19))[0], send(2, 1, ACTIVE_QP)],
    "another REP of the queue pair": [*set_up(), *set_up(SERVICE, (27, 29), local_qpn=0x555), send()],
    "a REP alone": [set_up()[1], send()],
    "from the queue pair": [*set_up(), ud(MESSAGE, dest_qp=0x999, src_qp=PASSIVE_QP, slid=2, dlid=1)],
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_messages_of_every_way(way: str) -> None:
    assert not shows(erf_pcap(WAYS[way]))


@pytest.mark.slow
def test_what_is_not_named_is_shown() -> None:
    """Another queue pair, before it was named, another service, an RDMA WRITE."""
    assert shows(erf_pcap([*set_up(), send(qp=0x223)])) and shows(erf_pcap([*set_up(SERVICE), send()]))
    assert shows(erf_pcap([*set_up(), rc(0x0A, MESSAGE, bth={"destqp": PASSIVE_QP}, ext={"RETH": {"dmalen": 16}}, slid=1, dlid=2)]))
    with ibdissect.open(io.BytesIO(erf_pcap([send(3, 4), *set_up(), send(3, 4)]))) as opened:
        (table,) = opened.tables()
        found = dict(trees(table))
    assert [bool(found[row].secret_bytes) for row in (0, 3)] == [False, True]


@pytest.mark.parametrize("times", [(5, 6, 1), (5, 6, 9)])
def test_a_clock_that_is_behind(times: tuple[int, ...]) -> None:
    frames = [*set_up(), send()]
    assert not shows(interfaces_pcapng([(0, frames[0]), (0, frames[1]), (1, frames[2])], times=times))


@pytest.mark.slow
def test_addresses_of_roce() -> None:
    """The message is sent by IPv6 or over RoCE v1; REQ and REP are divided into fragments of IP."""
    before = [roce(one) for one in set_up()]
    for version in (1, 6):
        assert not shows(ethernet_pcap([*before, roce(send(), version)]))
    parts = [(one[:20] + b"\x20\0" + one[22:274], one[:20] + struct.pack(">H", 30) + one[22:34] + one[274:]) for one in before]
    assert not shows(ethernet_pcap([*chain(*parts), roce(send())]))


@pytest.mark.parametrize("size", [88, 120])
def test_a_request_that_is_cut_off_behind_its_queue_pair(size: int) -> None:
    """Its service stands in front of that."""
    rows = [(LINK_INFINIBAND, req := set_up()[0][:size], 290), (LINK_INFINIBAND, last := send(2, 1, ACTIVE_QP), len(last))]
    assert not shows(pcapng(rows)) and len(req) == size


def test_what_was_not_kept_counts_as_such_a_service(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the bound, every message is hidden from then on, and not before."""
    bound(monkeypatch, 2, "decode")
    two = set_up(rpcrdma.SERVICE, (17, 19), (5, 6), local_qpn=0x777)
    assert not shows(erf_pcap([*set_up(), *two, send(8, 9, 0x888)])) and shows(erf_pcap([*set_up(), send(8, 9, 0x888)]))


def test_more_connections_than_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ibdissect.decode.cm_connections.MAX_CONNECTIONS", 1)
    late = set_up(ids=(70, 90), lids=(5, 6), local_qpn=0x777)
    assert not shows(erf_pcap([*set_up(SERVICE, local_qpn=0x1), *late, send(6, 5, 0x777)]))
    assert not shows(erf_pcap([*set_up(SERVICE, local_qpn=0x1)[:1], *late, send(5, 6)]))

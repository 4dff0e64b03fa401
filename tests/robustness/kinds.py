"""Additions beside any traffic, and after it: each kind makes a capture with the same faults of an orderly one, or without any."""

from __future__ import annotations

import io
import struct
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Any

from ibdissect.capture.opening import open_capture
from ibdissect.decode.chunk_table import ChunkTable
from ibdissect.wire.headers import BTH, DETH, LRH
from ibdissect.wire.mad import MAD
from ibdissect.wire.numbers import DIRECTED, GET, GET_RESP, RESPONSE_BIT, SET, SMP_CLASSES
from ibdissect.wire.sa import mask_for
from ibdissect.wire.sa_paths import PathRecord
from ibdissect.wire.sm import SMP, NodeDescription, SMPDirected
from tests.craft import build, put, sa_mad, smp, ud
from tests.subnet.made import node, p_keys, port_info, switch

from .manipulations import ERF, SECOND, Pcap, Record, at_time

MANAGER = 0x3001
"""LID of a host that no proof has; its node and its switch have other GUIDs, too."""
HOST, SWITCH = 0x300, 0x301
MOST_LIDS = 4
"""LIDs that get another owner, and paths that are answered."""
ETHERNET, ETHERTYPE, TAG = 1, 12, bytes.fromhex("81000007")
MS = 1_000_000


def placed(pcap: Pcap) -> list[dict[str, int]]:
    """Where the headers of each record start in its bytes, by name."""
    found: list[dict[str, int]] = []
    for chunk in open_capture(io.BytesIO(pcap.packed())).chunks():
        table = ChunkTable(chunk)
        starts = {name: table.located.at(name) for name in ("lrh", "grh", "bth", "deth", "mad")}
        for row in range(len(table)):
            found.append({name: int(at[row] - chunk.offset[row]) for name, at in starts.items() if at[row] >= 0})
    return found


def erf_record(frame: bytes, time_ns: int) -> Record:
    """A native packet as an ERF record that is in no orderly capture."""
    head = bytes(8) + struct.pack(">BBHHH", 21, 4, 16 + len(frame), 0, len(frame))
    return at_time(Record(0, 0, head + frame, 16 + len(frame)), time_ns, ERF)


def among(pcap: Pcap, more: list[tuple[int, bytes]]) -> Pcap:
    """With further native packets, each behind some record of the capture, a microsecond later than the one before."""
    records, behind = [], {}
    for place, frame in more:
        behind.setdefault(place, []).append(frame)
    for i, record in enumerate(pcap.records):
        records.append(record)
        records += [erf_record(frame, record.time_ns + 1000 * n) for n, frame in enumerate(behind.get(i, ()), 1)]
    return pcap.with_records(records)


def _fields(data: bytes, at: int, *fields: Any) -> list[int]:
    part = data[at:]
    return [int.from_bytes(part[slice(*field.span)], "big") for field in fields]


def second_manager(pcap: Pcap) -> Pcap | None:
    """Another manager, at another host, whose counter of transaction ids has the same high word, reads its switch meanwhile."""
    if pcap.link != ERF:
        return None
    at = placed(pcap)
    mads = [_fields(record.data, place["mad"], MAD.mgmt_class, MAD.transaction_id) for record, place in zip(pcap.records, at, strict=True)
            if "mad" in place]  # fmt: skip
    high = Counter(transaction >> 32 for mgmt_class, transaction in mads if mgmt_class in SMP_CLASSES)
    if not high:
        return None
    word = high.most_common(1)[0][0] << 32
    own = port_info(MANAGER, master_sm_lid=MANAGER)
    asked = [([], 0x11, 0, node(HOST)), ([], 0x15, 0, own), ([1], 0x11, 0, switch(SWITCH)), ([1], 0x15, 1, port_info(0))]
    more, step = [], max(1, len(pcap.records) // len(asked))
    for n, (path, attribute, modifier, body) in enumerate(asked):
        head: dict[str, Any] = {"header": {"transaction_id": word | 0x40000000 + n}, "path": path, "modifier": modifier}
        place = min(n * step, len(pcap.records) - 1)
        more += [(place, smp(GET, attribute, **head)), (place, smp(GET_RESP, attribute, body, **head))]
    return among(pcap, more)


def other_hosts_ids(pcap: Pcap) -> Pcap | None:
    """Another host asks the same agents by LID, with the same transaction ids, while they answer the first one."""
    if pcap.link != ERF:
        return None
    more: list[tuple[int, bytes]] = []
    for i, (record, place) in enumerate(zip(pcap.records, placed(pcap), strict=True)):
        if "mad" not in place or "lrh" not in place:
            continue
        mgmt_class, method, transaction = _fields(record.data, place["mad"], MAD.mgmt_class, MAD.method, MAD.transaction_id)
        (dlid,) = _fields(record.data, place["lrh"], LRH.dlid)
        if method & RESPONSE_BIT or mgmt_class == DIRECTED or not 0 < dlid < 0xC000:
            continue
        body = build(NodeDescription, 64, node_string=b"host")
        head = {"transaction_id": transaction}
        more.append((i, smp(GET, 0x10, slid=MANAGER, dlid=dlid, header=head)))
        more.append((i, smp(GET_RESP, 0x10, body, slid=dlid, dlid=MANAGER, header=head)))
    return among(pcap, more) if more else None


def ids_again(pcap: Pcap) -> Pcap | None:
    """A minute later, the same hosts use the transaction ids again for another attribute."""
    if pcap.link != ERF:
        return None
    more: list[bytes] = []
    for record, place in zip(pcap.records, placed(pcap), strict=True):
        if "mad" not in place or "lrh" not in place:
            continue
        mgmt_class, method, transaction = _fields(record.data, place["mad"], MAD.mgmt_class, MAD.method, MAD.transaction_id)
        slid, dlid = _fields(record.data, place["lrh"], LRH.slid, LRH.dlid)
        if method in (GET, SET) and mgmt_class == 0x01 and 0 < dlid < 0xC000 and "grh" not in place:
            head = {"transaction_id": transaction}
            more.append(smp(GET, 0x10, slid=slid, dlid=dlid, header=head))
            more.append(smp(GET_RESP, 0x10, build(NodeDescription, 64, node_string=b"host"), slid=dlid, dlid=slid, header=head))
    if not more:
        return None
    late = pcap.records[-1].time_ns + 60 * SECOND
    return pcap.with_records([*pcap.records, *(erf_record(frame, late + n * MS) for n, frame in enumerate(more))])


def lids_again(pcap: Pcap) -> Pcap | None:
    """Two seconds later, other hosts get the LIDs of the capture and send to each other."""
    lids = [lid for ends in _ways(pcap) for lid in ends]
    lids = list(dict.fromkeys(lids))[:MOST_LIDS]
    if not lids:
        return None
    more: list[bytes] = []
    for n, lid in enumerate(lids):
        route: dict[str, Any] = {"path": [1, n + 2]}
        shown = port_info(lid, master_sm_lid=MANAGER)
        written = port_info(lid, master_sm_lid=MANAGER, port_state=0, port_physical_state=0)
        said = [(GET, 0x11, 0, b"", node(0x400 + n)), (SET, 0x15, 1, written, shown), (GET, 0x16, 0, b"", p_keys(0xFFFF))]
        for k, (method, attribute, modifier, asks, shows) in enumerate(said):
            head: dict[str, Any] = {**route, "modifier": modifier, "header": {"transaction_id": 0x7777 << 32 | 4 * n + k + 1}}
            more += [smp(method, attribute, asks, **head), smp(GET_RESP, attribute, shows, **head)]
    for near, far in pairwise(lids):
        more.append(ud(bytes(8), dest_qp=0x777, src_qp=0x778, q_key=0x1234, slid=near, dlid=far))
    late = pcap.records[-1].time_ns + 2 * SECOND
    return pcap.with_records([*pcap.records, *(erf_record(frame, late + n * MS) for n, frame in enumerate(more))])


def _ways(pcap: Pcap) -> list[tuple[int, int]]:
    """The pairs of unicast LIDs between which native packets go, in order."""
    found = []
    for record, place in zip(pcap.records, placed(pcap), strict=True) if pcap.link == ERF else ():
        if "lrh" in place:
            slid, dlid = _fields(record.data, place["lrh"], LRH.slid, LRH.dlid)
            if 0 < slid < 0xC000 and 0 < dlid < 0xC000:
                found.append((slid, dlid))
    return list(dict.fromkeys(found))


def paths_answered(pcap: Pcap) -> Pcap | None:
    """The subnet administration answers with a path for each pair of LIDs of the capture, after its first packet."""
    more: list[tuple[int, bytes]] = []
    for n, (slid, dlid) in enumerate(_ways(pcap)[:MOST_LIDS]):
        asked = build(PathRecord, 64, dlid=dlid, slid=slid)
        shown = build(PathRecord, 64, dlid=dlid, slid=slid, p_key=0xFFFF, mtu=4, rate=3, reversible=1)
        head = {"mask": mask_for(PathRecord, ("dlid", "slid")), "transaction_id": 0x5500 + n}
        more.append((0, ud(sa_mad(GET, 0x35, asked, **head), slid=slid, dlid=MANAGER)))
        more.append((0, ud(sa_mad(GET_RESP, 0x35, shown, **head), slid=MANAGER, dlid=slid)))
    return among(pcap, more) if more else None


def other_vlan(pcap: Pcap) -> Pcap | None:
    """Another tenant's packets with the same addresses and queue pairs, a little later, in a VLAN of their own."""
    if pcap.link != ETHERNET or any(len(one.data) < ETHERTYPE for one in pcap.records):
        return None
    tagged = [
        at_time(replace(one, origin=0, data=one.data[:ETHERTYPE] + TAG + one.data[ETHERTYPE:], length=one.length + len(TAG)),
                one.time_ns + 5 * MS, pcap.link)
        for one in pcap.records
    ]  # fmt: skip
    return pcap.with_records(sorted([*pcap.records, *tagged], key=lambda one: one.time_ns))


def answered(pcap: Pcap, frames: set[int]) -> Pcap | None:
    """Each request in some frames is answered at once, with status 0; None if none of them is a management request."""
    if pcap.link != ERF:
        return None
    records, some = [], False
    for record, place in zip(pcap.records, placed(pcap), strict=True):
        records.append(record)
        if record.origin not in frames or "mad" not in place or "deth" not in place:
            continue
        answer = _answer(record, place)
        if answer is not None:
            records.append(at_time(replace(record, origin=0, data=answer), record.time_ns + 20_000, ERF))
            some = True
    return pcap.with_records(records) if some else None


def _answer(record: Record, place: dict[str, int]) -> bytes | None:
    data = bytearray(record.data)
    mad, deth, bth, lrh = (place[name] for name in ("mad", "deth", "bth", "lrh"))
    mgmt_class, method = _fields(record.data, mad, MAD.mgmt_class, MAD.method)
    if method not in (GET, SET) or "grh" in place:
        return None
    put(data, MAD.method, GET_RESP, offset=mad)
    if mgmt_class == DIRECTED:
        put(data, SMPDirected.smp_status, 0x8000, offset=mad)
        put(data, SMPDirected.hop_pointer, 0, offset=mad)
    slid, dlid = _fields(record.data, lrh, LRH.slid, LRH.dlid)
    put(data, LRH.slid, dlid, offset=lrh)
    put(data, LRH.dlid, slid, offset=lrh)
    (source,) = _fields(record.data, deth, DETH.srcqp)
    put(data, BTH.destqp, source, offset=bth)
    put(data, DETH.srcqp, int.from_bytes(record.data[bth + BTH.destqp.span[0] : bth + BTH.destqp.span[1]], "big"), offset=deth)
    data[mad + SMP.data.span[0]] |= 1  # nodes answer with zeros where they have nothing
    return bytes(data[:-6]) + bytes(6)

"""Proofs of the rules about the common header of management datagrams: captures that trigger them, and near-miss twins that must
not."""

from __future__ import annotations

from functools import partial
from typing import Any

from ibdissect.wire.classport import ClassPortInfo
from ibdissect.wire.mad import MAD, RMPP
from ibdissect.wire.pm import PortCounters, PortCountersExtended
from ibdissect.wire.sa import mask_for
from ibdissect.wire.sa_paths import PathRecord
from ibdissect.wire.sa_records import (
    GuidInfoRecord,
    PKeyTableRecord,
    PortInfoRecord,
    SLtoVLMappingTableRecord,
    VLArbitrationTableRecord,
)
from ibdissect.wire.sa_records import LinearForwardingTableRecord as LFTRecord
from ibdissect.words import Struct
from tests.craft import build, erf_pcap, gmp, put, sa_mad, smp, ud
from tests.rules.cases import case
from tests.rules.made.mads import counters, sa, table
from tests.subnet.made import node, p_keys, switch

NODE_INFO, PERF, GET, RESPONSE = 0x11, 0x04, 0x01, 0x81
case("MAD001", smp(1, NODE_INFO, header={"base_version": 2}), smp(1, NODE_INFO))
case("MAD002", sa(1, mask=1, class_version=9), sa(1, mask=1, class_version=2))
case("MAD002", smp(1, NODE_INFO, header={"class_version": 2}), smp(1, NODE_INFO))
case("MAD003", sa(0x20, mask=1), sa(0x12, mask=1))
case("MAD003", gmp(0x21, 6, 0x11), gmp(0x21, 1, 0x11))
case("MAD006", sa(0x81, mask=1, status=0x0020), sa(0x81, mask=1, status=0x0001))
case("MAD006", sa(0x81, mask=1, status=0x0020), sa(1, mask=1, status=0x0020))
case("MAD008", sa(0x81, mask=1, status=0x0014), sa(0x81, mask=1, status=0x001C))
case("MAD009", smp(1, NODE_INFO, header={"reserved": 1}), smp(1, NODE_INFO))
case("MAD010", counters(class_specific=7), counters())
case("MAD011", smp(1, 0x44), smp(1, 0xFF44))
case("MAD011", gmp(0x06, 1, 0x25), gmp(0x06, 1, 0x21))
case("MAD011", gmp(0x03, 1, 0x3F), gmp(0x03, 1, 0x3C))
case("MAD011", gmp(0x07, 3, 0x1D), gmp(0x07, 3, 0x1B))
case("MAD012", smp(1, NODE_INFO, header={"transaction_id": 0}), smp(1, NODE_INFO, header={"transaction_id": 1}))
case("MAD015", table(rmpp_version=3), table())
case("MAD015", table(rmpp_version=0), table(rmpp_version=0, rmpp_type=0, active=0), twin_also=["TXN023"])
case("MAD016", counters(rmpp=build(RMPP, rmpp_version=1, rmpp_type=1, active=1)), counters())
FLAGS = build(RMPP, rmpp_flags=7)
case("MAD016", counters(rmpp=FLAGS), counters(rmpp=FLAGS + bytes(27) + b"\1"))
PORT = build(PortCounters, port_select=1)
ASK = gmp(PERF, GET, 0x12, PORT, slid=1, dlid=2)
SLOW: Any = partial(erf_pcap, step_ns=6_000_000_000)


def lid_counters(attribute: int, struct: type[Struct]) -> bytes:
    """What LID 2 answers."""
    return gmp(PERF, RESPONSE, attribute, build(struct, port_select=1), slid=2, dlid=1)


case("MAD005", [ASK, lid_counters(0x1D, PortCountersExtended)], [ASK, lid_counters(0x12, PortCounters)], frames=[2])
# two requests with one transaction id: which of them is answered?
OTHER = gmp(PERF, GET, 0x1D, build(PortCountersExtended, port_select=1), slid=1, dlid=2)
case("MAD005", [ASK, lid_counters(0x1D, PortCountersExtended)], [OTHER, ASK, lid_counters(0x1D, PortCountersExtended)],
     frames=[2])  # fmt: skip
# another answer has no request in the capture, so a request with the same transaction id may be missing, too
HEARD, UNHEARD = ({"transaction_id": 7}, {"transaction_id": 9})
LOSSY = [gmp(PERF, GET, 0x12, PORT, header=HEARD, slid=1, dlid=2), gmp(PERF, RESPONSE, 0x12, PORT, header=HEARD, slid=2, dlid=1)]
LOSSY += [ASK, gmp(PERF, RESPONSE, 0x12, PORT, header=UNHEARD, slid=2, dlid=1)]
case("MAD005", [*LOSSY, lid_counters(0x1D, PortCountersExtended)], [*LOSSY, lid_counters(0x12, PortCounters)], frames=[5],
     severity="info")  # fmt: skip
# the request or the answer names an attribute that the class does not have: MAD011 says it
UNKNOWN = gmp(PERF, GET, 0x99, PORT, slid=1, dlid=2)
case("MAD011", [UNKNOWN, lid_counters(0x12, PortCounters)], [ASK, lid_counters(0x12, PortCounters)], frames=[1])
case("MAD011", [ASK, lid_counters(0x99, PortCounters)], [ASK, lid_counters(0x12, PortCounters)], frames=[2])
# it sends the asker elsewhere
WHERE = gmp(PERF, RESPONSE, 1, build(ClassPortInfo, base_version=1, class_version=1), header={"status": 2}, slid=2, dlid=1)
case("MAD005", [ASK, lid_counters(0x1D, PortCountersExtended)], [ASK, WHERE], frames=[2])
# from the eleventh second on, to one whose requests the capture shows
ANSWER, STRAY = lid_counters(0x12, PortCounters), gmp(PERF, RESPONSE, 0x12, PORT, header={"transaction_id": 9}, slid=2, dlid=1)
case("MAD004", [ASK, ANSWER, STRAY], [ASK, ANSWER, gmp(PERF, RESPONSE, 0x12, PORT, slid=2, dlid=9)], frames=[3], file=SLOW)
# a repeated request is matched by itself; LID 9 asks nobody
REPEATED = [gmp(PERF, RESPONSE, 0x12, PORT, slid=9, dlid=2), ASK, ASK, ANSWER]
case("MAD004", [*REPEATED, STRAY], [*REPEATED, gmp(PERF, RESPONSE, 0x12, PORT, slid=2, dlid=9)], frames=[5], file=SLOW)
case("MAD004", SLOW([ASK, ANSWER, STRAY]), erf_pcap([ASK, ANSWER, STRAY]), frames=[3], file=None)  # type: ignore[arg-type]
# methods of attributes
case("MAD018", smp(2, NODE_INFO), smp(1, NODE_INFO))
case("MAD018", smp(2, 0x30), smp(1, 0x30))
case("MAD018", smp(5, 0x15), smp(5, 2))
case("MAD018", sa(2, mask=1), sa(1, mask=1))
case("MAD018", sa(0x15, 0x35, mask=1), sa(0x12, 0x35, mask=1))
case("MAD018", gmp(0x21, 2, 0x11), gmp(0x21, 2, 0x12))
case("MAD018", gmp(0x04, 2, 0x11), gmp(0x04, 2, 0x10))
case("MAD018", gmp(0x07, 1, 0x10), gmp(0x07, 3, 0x10))
# an ACK of a table of paths for a MultiPathRecord
case("MAD018", sa(0x14, 0x35, mask=1), sa(0x14, 0x35, mask=1, rmpp={"rmpp_version": 1, "rmpp_type": 2, "active": 1}))
# the modifier of an answer
ASKED = smp(GET, 0x15, modifier=1, slid=1, dlid=2)
case("MAD019", [ASKED, smp(RESPONSE, 0x15, modifier=2, slid=2, dlid=1)], [ASKED, smp(RESPONSE, 0x15, modifier=0x80000001, slid=2, dlid=1)],
     frames=[2], twin_also=["AM009", "SEM005"])  # fmt: skip
# what a request selects and its answer is about
GET_TABLE, TABLE_ANSWER = 0x12, 0x92


def query(method: int, record: type[Struct], *names: str, **values: Any) -> bytes:
    """A query of LID 1 for a record by some of its components; without any, the answer of LID 2."""
    attribute = record.carried_by[0].attr_id
    mask = mask_for(record, names)
    ends = {"slid": 1, "dlid": 2} if method < 0x80 else {"slid": 2, "dlid": 1}
    rmpp = {"rmpp_version": 1, "rmpp_type": 1, "active": 1, "segment_number": 1, "first": 1, "last": 1, "payload_length": 20 + record.size}
    table = {"rmpp": rmpp, "offset": -(-record.size // 8)} if method == TABLE_ANSWER else {}
    return ud(sa_mad(method, attribute, build(record, **values), mask=mask, **table), **ends)


case(
    "MAD020",
    [query(GET, LFTRecord, "lid", lid=9), query(RESPONSE, LFTRecord, lid=3)],
    [query(GET, LFTRecord, "lid", lid=9), query(RESPONSE, LFTRecord, lid=8)],
    frames=[2],
)
case(
    "MAD020",
    [query(GET_TABLE, PortInfoRecord, "end_port_lid", end_port_lid=9), query(TABLE_ANSWER, PortInfoRecord, end_port_lid=3)],
    [query(GET_TABLE, PortInfoRecord, end_port_lid=9), query(TABLE_ANSWER, PortInfoRecord, end_port_lid=3)],
    frames=[2],
)
GID_7, GID_8 = (bytes([0xFE, 0x80, *bytes(13), last]) for last in (7, 8))
case(
    "MAD020",
    [query(GET, PathRecord, "dgid", dgid=GID_7), query(RESPONSE, PathRecord, dgid=GID_8, dlid=8)],
    [query(GET, PathRecord, "dgid", dgid=GID_7), query(RESPONSE, PathRecord, dgid=GID_7, dlid=8)],
    frames=[2],
)
case(
    "MAD020",
    [query(GET, PathRecord, "p_key", p_key=0x8001), query(RESPONSE, PathRecord, p_key=0x8002)],
    [query(GET, PathRecord, "p_key", p_key=0x8001), query(RESPONSE, PathRecord, p_key=0x0001)],
    frames=[2],
)
case(
    "MAD020",
    [ASK, gmp(PERF, RESPONSE, 0x12, build(PortCounters, port_select=2), slid=2, dlid=1)],
    [
        gmp(PERF, GET, 0x12, build(PortCounters, port_select=0xFF), slid=1, dlid=2),
        gmp(PERF, RESPONSE, 0x12, build(PortCounters, port_select=2), slid=2, dlid=1),
    ],
    frames=[2],
)
# OpenSM answers with the block in the byte order of its host, and with the port of an adapter whatever was asked for
BLOCK_1 = query(GET, PKeyTableRecord, "lid", "block_num", "port_num", lid=9, block_num=1)
case(
    "MAD020",
    [BLOCK_1, query(RESPONSE, PKeyTableRecord, lid=9, block_num=2, port_num=1)],
    [BLOCK_1, query(RESPONSE, PKeyTableRecord, lid=9, block_num=0x0100, port_num=1)],
    frames=[2],
)
OF_PORT_3 = query(GET, VLArbitrationTableRecord, "lid", "output_port_num", lid=2, output_port_num=3)
LANES = [OF_PORT_3, query(RESPONSE, VLArbitrationTableRecord, lid=2, output_port_num=1)]
case(
    "MAD020",
    [smp(GET, NODE_INFO, dlid=2), smp(RESPONSE, NODE_INFO, switch(2), slid=2), *LANES],
    [smp(GET, NODE_INFO, dlid=2), smp(RESPONSE, NODE_INFO, node(2), slid=2), *LANES],
    frames=[4],
)
ALL_GUIDS = query(GET, GuidInfoRecord, "lid", "block_num", lid=2, block_num=0xFF)
case(
    "MAD020",
    [query(GET, GuidInfoRecord, "lid", "block_num", lid=2, block_num=1), query(RESPONSE, GuidInfoRecord, lid=2)],
    [ALL_GUIDS, query(RESPONSE, GuidInfoRecord, lid=2)],
    frames=[2],
)
# a status where there is none
case("MAD021", smp(1, NODE_INFO, header={"status": 0x1C}), smp(0x81, NODE_INFO, header={"status": 0x1C}))
case("MAD021", sa(1, mask=1, status=0x0100), sa(0x81, mask=1, status=0x0100))
case("MAD021", counters(status=4), counters())
ACKED = {"rmpp_version": 1, "rmpp_type": 2, "active": 1}
case("MAD021", sa(0x12, 0x35, mask=1, status=0x0100), sa(0x12, 0x35, mask=1, status=0x0100, rmpp=ACKED))
# an answer that refuses a version names its own; one that refuses a method repeats it
case("MAD002", sa(0x81, mask=1, class_version=1), sa(0x81, mask=1, class_version=1, status=0x0004))
case("MAD002", sa(0x81, mask=1, class_version=1, status=0x0008), sa(0x81, mask=1, class_version=1, status=0x0004))
case("MAD003", gmp(6, 0x92, 0x10), gmp(6, 0x92, 0x10, header={"status": 0x0008}))
# bit 0 of its modifier makes a baseboard Send an answer
BASEBOARD = {"status": 0x1C, "attribute_modifier": 0}
case("MAD021", gmp(5, 3, 0x21, header=BASEBOARD), gmp(5, 3, 0x21, header={**BASEBOARD, "attribute_modifier": 1}))
# an SA that does not know the bit of extended speeds
SPEEDS, MODIFIED = 1 << 31, (query(GET, PortInfoRecord, "end_port_lid", end_port_lid=9), query(RESPONSE, PortInfoRecord, end_port_lid=9))


def with_modifier(frame: bytes, modifier: int) -> bytes:
    """A query or its answer with an attribute modifier."""
    data = bytearray(frame[28:284])
    put(data, MAD.attribute_modifier, modifier)
    slid, dlid = (1, 2) if data[3] < 0x80 else (2, 1)
    return ud(bytes(data), slid=slid, dlid=dlid)


case("MAD019", [with_modifier(MODIFIED[0], SPEEDS), with_modifier(MODIFIED[1], 1)],
     [with_modifier(MODIFIED[0], SPEEDS), with_modifier(MODIFIED[1], 0)], frames=[2])  # fmt: skip

# what an answer refuses, it repeats; a manufacturer's traps carry what it likes
case("MAD001", sa(0x81, mask=1, base_version=2), sa(0x81, mask=1, base_version=2, status=0x0004))
case("MAD018", smp(5, 0xFEFF), smp(5, 0xFF00))
REFUSED = [gmp(PERF, RESPONSE, 0x99, PORT, header={"status": 0x000C}, slid=2, dlid=1)]
case("MAD011", [UNKNOWN, *REFUSED], REFUSED, frames=[1], severity="warning")
# who answers it, knows it: a newer standard has that attribute, or that method of it
KNOWN = gmp(PERF, RESPONSE, 0x99, PORT, slid=2, dlid=1)
case("MAD011", [UNKNOWN, KNOWN], KNOWN, frames=[1], severity="info")
WRITTEN = [gmp(PERF, 2, 0x11, PORT, slid=1, dlid=2), *(gmp(PERF, RESPONSE, 0x11, PORT, header={"status": one}, slid=2, dlid=1) for one in
                                                       (0x000C, 0))]  # fmt: skip
case("MAD018", WRITTEN[:2], WRITTEN[1:2], frames=[1], severity="warning")
case("MAD018", WRITTEN[::2], WRITTEN[2:], frames=[1], severity="info")
# another host, whose request was sent before the capture began, shares the transaction id
WRONG, RIGHT = lid_counters(0x1D, PortCountersExtended), lid_counters(0x12, PortCounters)
OF_PORT_2 = gmp(PERF, RESPONSE, 0x12, build(PortCounters, port_select=2), slid=2, dlid=1)
ROUTED = [smp(method, 0x16, p_keys(0x8123), path=[1], modifier=block) for method, block in ((GET, 0), (RESPONSE, 1), (RESPONSE, 0))]
for code, asked, wrong, right in (("MAD005", ASK, WRONG, RIGHT), ("MAD020", ASK, OF_PORT_2, RIGHT), ("MAD019", *ROUTED)):
    case(code, [asked, wrong, right], [asked, right, wrong], frames=[2], severity="info", also=["TXN003"], twin_also=["TXN003"])
# an adapter has one mapping, and the SA answers with it whatever ports were asked for
LANES = [query(GET, SLtoVLMappingTableRecord, "lid", "input_port_num", lid=2, input_port_num=3),
         query(RESPONSE, SLtoVLMappingTableRecord, lid=2, output_port_num=1)]  # fmt: skip
case("MAD020", [smp(GET, NODE_INFO, dlid=2), smp(RESPONSE, NODE_INFO, switch(2), slid=2), *LANES],
     [smp(GET, NODE_INFO, dlid=2), smp(RESPONSE, NODE_INFO, node(2), slid=2), *LANES], frames=[4])  # fmt: skip

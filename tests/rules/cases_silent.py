"""Proofs that rules leave alone what may be in order: other LIDs of a port, transaction ids that an agent completes, IPv6 links."""

from __future__ import annotations

import struct
import zlib

from ibdissect.wire.transport import BTH
from tests.craft import build, ethernet_pcap, gmp, smp
from tests.fabric.made import answer, node, port_info
from tests.rules.cases import case
from tests.rules.cases_connection import reply, request
from tests.rules.cases_trap_state import AT_5, CA, LOCAL, NODE_INFO, PORT, PORT_INFO, repress, trap

GET, RESPONSE, PERF = 0x01, 0x81, 0x04
ASKED = smp(GET, NODE_INFO, slid=1, dlid=2)
COUNTERS = gmp(PERF, GET, 1, slid=1, dlid=2)


def told(lid: int) -> bytes:
    """NodeInfo of the node that was asked, from a LID."""
    return smp(RESPONSE, NODE_INFO, node(2), slid=lid, dlid=1)


def counted(lid: int) -> bytes:
    return gmp(PERF, RESPONSE, 1, slid=lid, dlid=1)


# LMC 7 gives a port 128 LIDs: an answer from another one of them is no other port's.
case("SMP016", [ASKED, told(900)], [ASKED, told(3)], frames=[2])
case("TXN005", [COUNTERS, counted(900)], [COUNTERS, counted(3)], frames=[2])
# The same where a PortInfo said how many LIDs the port has.
WIDE = [answer(4, NODE_INFO, node(4)), answer(4, PORT_INFO, port_info(4, lmc=2))]
case("TRP001", [*WIDE, trap(128, AT_5, slid=4, issuer_lid=8)], [*WIDE, trap(128, AT_5, slid=4, issuer_lid=6)], frames=[3],
     also=["TRP005"], twin_also=["TRP005"])  # fmt: skip
# The high half of a transaction id is the agent's own business.
AGAIN = trap(144, LOCAL)
case("SMP019", [CA, PORT, AGAIN, repress(144, LOCAL, tid=8), AGAIN], [CA, PORT, AGAIN, repress(144, LOCAL, tid=7 << 32 | 7), AGAIN],
     frames=[4])  # fmt: skip
# REPs are counted as REQs are.
ASKING = request(max_cm_retries=1)
case("CM005", [ASKING, *[reply()] * 3], [ASKING, *[reply()] * 2], frames=[4])


def roce6(hops: int, source: bytes, destination: bytes) -> bytes:
    """A RoCE v2 frame over IPv6 (RFC 8200 header) with right lengths, UDP checksum 0 and ICRC."""
    transport = build(BTH, opcode=4, m=1, p_key=0xFFFF, destqp=0x12, psn=1) + bytes(4)
    size = 8 + len(transport) + 4
    ip = struct.pack(">IHBB16s16s", 6 << 28, size, 17, hops, source, destination)
    udp = struct.pack(">HHHH", 49152, 4791, size, 0)
    masked = bytearray(b"\xff" * 8 + ip + udp + transport)
    masked[8:12], masked[15] = b"\x6f\xff\xff\xff", 0xFF  # traffic class, flow label, hop limit
    masked[54:56] = b"\xff\xff"
    masked[60] = 0xFF
    return bytes(range(2, 14)) + b"\x86\xdd" + ip + udp + transport + struct.pack("<I", zlib.crc32(masked))


def address(prefix: str, last: int) -> bytes:
    return bytes.fromhex(prefix).ljust(15, b"\0") + bytes([last])


FAR, NEAR = address("20010db8000000aa", 1), address("20010db8000000bb", 2)
LINK, OTHER_LINK = address("fe80", 1), address("fe80000000000001", 2)
for quiet in (roce6(2, FAR, NEAR), roce6(1, FAR, address("20010db8000000aa", 2)), roce6(1, LINK, OTHER_LINK), roce6(1, LINK, NEAR),
              roce6(1, FAR, address("ff02", 1))):  # fmt: skip
    case("ROC010", roce6(1, FAR, NEAR), quiet, file=ethernet_pcap, frames=[1])

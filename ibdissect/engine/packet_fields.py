# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
"""Fields of a packet that the state of its connection depends on, read from its bytes where the headers are known to start."""

from __future__ import annotations

from array import array
from functools import cache
from typing import Any

from ibdissect.wire import headers
from ibdissect.wire.encapsulation import UDP, IPv4, IPv6
from ibdissect.wire.headers import AETH, BTH, GRH, LRH, RETH
from ibdissect.wire.mad import MAD
from ibdissect.wire.numbers import CM_CLASS
from ibdissect.wire.opcodes import CNP_OPCODE, CONNECTED, OPCODES, SERVICE
from ibdissect.wire.spec import Field

from . import packet_kinds
from .opcode_parts import PARTS

try:
    import cython
except ImportError:
    from . import without_cython as cython
if cython.compiled:
    from cython.cimports.ibdissect.engine.common import (
        CNP,
        NATIVE,
        NOTHING,
        OTHER,
        REQUEST,
        ROCE1,
        ROCE2,
        b16,
        b24,
        b32,
        b64,
        cut,
        fetch,
        fetch64,
        hashed,
        mix,
        u64,
    )
else:
    from .common import b16, b24, b32, b64, cut, fetch, fetch64, hashed, mix, u64
    from .packet_kinds import CNP, NATIVE, NOTHING, OTHER, REQUEST, ROCE1, ROCE2


def _at(field: Field[Any]) -> int:
    return field.bit // 8


@cache
def _kinds() -> bytes:
    """The kind of each OpCode. Unknown OpCodes of the connected services count as none of them: they tell nothing."""
    found = bytearray([packet_kinds.OTHER] * 256)
    for code, opcode in OPCODES.items():
        if code & SERVICE in CONNECTED:
            found[code] = packet_kinds.REQUEST if opcode.request else packet_kinds.ANSWER
    found[CNP_OPCODE] = packet_kinds.CNP
    return bytes(found)


@cache
def _offsets(name: str) -> array[int]:
    """Per OpCode where an extended header starts, from the BTH on; 0: it has none."""
    found = array("q", bytes(8 * 256))
    for code, opcode in OPCODES.items():
        at = BTH.size
        for one in opcode.headers:
            if one == name:
                found[code] = at
            at += getattr(headers, one).size
        if not name:
            found[code] = at
    return found


_OPCODE = cython.declare(cython.Py_ssize_t, _at(BTH.opcode))
_FLAGS = cython.declare(cython.Py_ssize_t, _at(BTH.padcnt))
_P_KEY = cython.declare(cython.Py_ssize_t, _at(BTH.p_key))
_ECN = cython.declare(cython.Py_ssize_t, _at(BTH.fecn))
_QPN = cython.declare(cython.Py_ssize_t, _at(BTH.destqp))
_PSN = cython.declare(cython.Py_ssize_t, _at(BTH.psn))
_BTH = cython.declare(cython.Py_ssize_t, BTH.size)
_MSN = cython.declare(cython.Py_ssize_t, _at(AETH.msn))
_AETH = cython.declare(cython.Py_ssize_t, AETH.size)
_VA = cython.declare(cython.Py_ssize_t, _at(RETH.va))
_DMA = cython.declare(cython.Py_ssize_t, _at(RETH.dmalen))
_RETH = cython.declare(cython.Py_ssize_t, RETH.size)
_SLID = cython.declare(cython.Py_ssize_t, _at(LRH.slid))
_DLID = cython.declare(cython.Py_ssize_t, _at(LRH.dlid))
_LENGTH = cython.declare(cython.Py_ssize_t, LRH.pktlen.bit // 16 * 2)
_SGID = cython.declare(cython.Py_ssize_t, _at(GRH.sgid))
_DGID = cython.declare(cython.Py_ssize_t, _at(GRH.dgid))
_GRH_LENGTH = cython.declare(cython.Py_ssize_t, _at(GRH.pay_len))
_GRH = cython.declare(cython.Py_ssize_t, GRH.size)
_DS = cython.declare(cython.Py_ssize_t, _at(IPv4.dsfield))
_IP_LENGTH = cython.declare(cython.Py_ssize_t, _at(IPv4.total_length))
_FLAGS4 = cython.declare(cython.Py_ssize_t, _at(IPv4.more_fragments))
_SOURCE = cython.declare(cython.Py_ssize_t, _at(IPv4.source))
_DESTINATION = cython.declare(cython.Py_ssize_t, _at(IPv4.destination))
_IP6_LENGTH = cython.declare(cython.Py_ssize_t, _at(IPv6.payload_length))
_IP6 = cython.declare(cython.Py_ssize_t, IPv6.size)
_UDP_LENGTH = cython.declare(cython.Py_ssize_t, _at(UDP.length))
_CHECKSUM = cython.declare(cython.Py_ssize_t, headers.ICRC.size)
_MAPPED = cython.declare(cython.ulonglong, 0xFFFF << 32)
_POSITIVE = cython.declare(cython.ulonglong, (1 << 63) - 1)  # of hashes that are kept among signed numbers
_CM_QPN = cython.declare(cython.int, 1)
_CLASS = cython.declare(cython.Py_ssize_t, _at(MAD.mgmt_class))
_CM_CLASS = cython.declare(cython.int, CM_CLASS)
_LINE = cython.declare(cython.Py_ssize_t, 64)  # bytes of a cache line
_BEFORE = cython.declare(cython.Py_ssize_t, IPv4.size + UDP.size)  # bytes in front of the BTH that tell addresses
_SAME = cython.declare(cython.Py_ssize_t, 64)
_GOES_ON = cython.declare(cython.int, 3)
_LEAVES_OPEN = cython.declare(cython.int, 12)


@cython.final
@cython.cclass
class Packet:
    """One packet. `lane`: a hash of who sends to which queue pair of whom; `content`: of what a packet and its repetition have in common.
    Datagrams have neither but those of connection management. `size`: bytes of payload on the wire, however many were captured.
    `again`: a copy shows marks of congestion that the packet did not have before.
    `length`: its payload as the outer headers say, -1 if none does. `parts`: those of its OpCode. `whole`: only the snap length may cut off
    its extended headers. `gids`: a hash of the GIDs beside its LIDs, `facing` that of its answers; 0: it has none."""

    def __init__(self) -> None:
        self.time = self.frame = self.size = self.dma = 0
        self.src_hi = self.src_lo = self.dst_hi = self.dst_lo = self.content = self.lane = self.va = 0
        self.kind = self.opcode = self.op = self.psn = self.qpn = self.pkey = self.marked = self.again = 0
        self.version = self.syndrome = self.msn = self.network = 0
        self.first = self.last = self.has_reth = self.bad_icrc = self.whole = False
        self.length, self.parts, self.gids, self.facing = -1, 0, 0, 0

    def copy(self) -> Packet:
        """Another packet with the same values, to keep."""
        p: Packet = Packet()
        p.time, p.frame, p.size, p.dma = self.time, self.frame, self.size, self.dma
        p.src_hi, p.src_lo, p.dst_hi, p.dst_lo = self.src_hi, self.src_lo, self.dst_hi, self.dst_lo
        p.content, p.lane = self.content, self.lane
        p.kind, p.opcode, p.op, p.psn, p.qpn, p.pkey = self.kind, self.opcode, self.op, self.psn, self.qpn, self.pkey
        p.marked, p.version, p.syndrome, p.msn = self.marked, self.version, self.syndrome, self.msn
        p.network, p.first, p.last, p.has_reth, p.bad_icrc = self.network, self.first, self.last, self.has_reth, self.bad_icrc
        p.whole, p.length, p.parts = self.whole, self.length, self.parts
        p.gids, p.facing, p.va, p.again = self.gids, self.facing, self.va, self.again
        return p


@cython.final
@cython.cclass
class PacketReader:
    """Reads the packets of one window. `begin` names the window; offsets are those of `decode.locate`, -1 where a header is absent."""

    def __init__(self) -> None:
        self.reth, self.aeth, self.extended = memoryview(_offsets("RETH")), memoryview(_offsets("AETH")), memoryview(_offsets(""))
        self.kinds, self.parts = memoryview(_kinds()), memoryview(PARTS)
        self.first_frame = self.rows = 0

    def begin(self, first_frame: int, data: Any, columns: dict[str, Any]) -> None:
        """A window: its bytes, and int64[n] each of times, end, bth, lrh, grh, ip4, ip6, udp, networks (none if all are one), limit,
        payload, payload_end, sizes (of payloads of incomplete packets), mad; uint8[n] each of bad, snapped, complete, again (marks that
        copies show first)."""
        self.first_frame, self.rows = first_frame, len(columns["bth"])
        self.data = memoryview(data)
        self.times, self.end = memoryview(columns["times"]), memoryview(columns["end"])
        self.bth, self.lrh, self.grh = memoryview(columns["bth"]), memoryview(columns["lrh"]), memoryview(columns["grh"])
        self.ip4, self.ip6, self.udp = memoryview(columns["ip4"]), memoryview(columns["ip6"]), memoryview(columns["udp"])
        self.networks, self.bad = memoryview(columns["networks"]), memoryview(columns["bad"])
        self.mad = memoryview(columns["mad"])
        self.limit, self.payload, self.payload_end = (memoryview(columns[name]) for name in ("limit", "payload", "payload_end"))
        self.sizes, self.again = memoryview(columns["sizes"]), memoryview(columns["again"])
        self.snapped, self.complete = memoryview(columns["snapped"]), memoryview(columns["complete"])

    def addresses(self, i: cython.size_t, p: Packet) -> cython.int:
        """Who sends to whom, the packet's length on the wire, and its mark of congestion.

        The result is where its ICRC ends, 0 if no header says. An IPv4 address is that of its IPv4-mapped GID, a LID is below 65,536.
        """
        at: cython.Py_ssize_t
        stop: cython.Py_ssize_t = 0
        p.src_hi = p.dst_hi = 0
        p.marked = 0
        p.gids = p.facing = 0
        at = self.lrh[i]
        if at >= 0:
            p.version = NATIVE
            p.src_lo, p.dst_lo = b16(self.data, at + _SLID), b16(self.data, at + _DLID)
            stop = at + ((b16(self.data, at + _LENGTH) & 0x7FF) << 2)
            at = self.grh[i]
            if at >= 0:
                source: u64 = mix(b64(self.data, at + _SGID), b64(self.data, at + _SGID + 8))
                target: u64 = mix(b64(self.data, at + _DGID), b64(self.data, at + _DGID + 8))
                p.gids, p.facing = mix(source, target) | 1, mix(target, source) | 1
        elif self.udp[i] >= 0 and self.ip4[i] >= 0:
            p.version = ROCE2
            at = self.ip4[i]
            p.src_lo, p.dst_lo = _MAPPED | b32(self.data, at + _SOURCE), _MAPPED | b32(self.data, at + _DESTINATION)
            p.marked = self.data[at + _DS] & 3 == 3
            stop = self.udp[i] + b16(self.data, self.udp[i] + _UDP_LENGTH)
            if not self.data[at + _FLAGS4] & 0x20:  # more fragments: UDP has the length of all
                stop = min(stop, at + b16(self.data, at + _IP_LENGTH))
        else:
            at = self.grh[i]
            p.version = ROCE1
            if self.udp[i] >= 0 and self.ip6[i] >= 0:
                at = self.ip6[i]
                p.version = ROCE2
                stop = min(at + _IP6 + b16(self.data, at + _IP6_LENGTH), self.udp[i] + b16(self.data, self.udp[i] + _UDP_LENGTH))
            elif at >= 0:
                stop = at + _GRH + b16(self.data, at + _GRH_LENGTH)
            if at < 0:
                return 0
            p.src_hi, p.src_lo = b64(self.data, at + _SGID), b64(self.data, at + _SGID + 8)
            p.dst_hi, p.dst_lo = b64(self.data, at + _DGID), b64(self.data, at + _DGID + 8)
            p.marked = b16(self.data, at) >> 4 & 3 == 3 and p.version == ROCE2
        return stop

    def touch(self, i: cython.size_t) -> cython.int:
        """Ask memory for what `read` needs of row i soon: the packet's bytes, and the columns, of which eight rows share a line."""
        if i >= len(self.bth):
            return 0
        at: cython.Py_ssize_t = self.bth[i]
        if at >= 0:
            fetch(self.data, at - _BEFORE)
            fetch(self.data, at - _BEFORE + _LINE)
            fetch(self.data, at + _BTH + _SAME - 1)
        if not i & 7:
            fetch64(self.times, i)
            fetch64(self.end, i)
            fetch64(self.lrh, i)
            fetch64(self.grh, i)
            fetch64(self.ip4, i)
            fetch64(self.udp, i)
            fetch64(self.limit, i)
            fetch64(self.payload, i)
            fetch64(self.payload_end, i)
        return 0

    def read(self, i: cython.size_t, p: Packet) -> cython.int:
        """Read row i into p; `p.kind` is NOTHING where there is no BTH."""
        at: cython.Py_ssize_t = self.bth[i]
        if at < 0:
            p.kind = NOTHING
            return 0
        stop: cython.Py_ssize_t = self.addresses(i, p)
        if stop <= 0:
            p.kind = NOTHING
            return 0
        p.time, p.frame = self.times[i], self.first_frame + i
        end: cython.Py_ssize_t = min(self.end[i], stop)
        opcode: cython.int = self.data[at + _OPCODE]
        op: cython.int = opcode & 0x1F
        p.opcode, p.op, p.kind = opcode, op, self.kinds[opcode]
        p.pkey, p.qpn, p.psn = b16(self.data, at + _P_KEY), b24(self.data, at + _QPN), b24(self.data, at + _PSN)
        p.marked |= self.data[at + _ECN] >> 7
        p.again = self.again[i]
        p.network, p.bad_icrc = cython.cast(cython.int, self.networks[i]) if len(self.networks) else 0, self.bad[i]
        ext: cython.Py_ssize_t = at + self.extended[opcode]
        p.size = max(0, stop - _CHECKSUM - (self.data[at + _FLAGS] >> 4 & 3) - ext)
        if p.kind == OTHER and p.qpn != _CM_QPN:
            p.lane = 0
            return 0
        p.lane = mix(mix(mix(p.src_hi, p.src_lo), mix(p.dst_hi, p.dst_lo)), cython.cast(u64, p.qpn) << 32 | cython.cast(u64, p.network))
        if p.kind >= CNP:
            return 0
        p.va, p.dma, p.syndrome, p.msn, p.has_reth = 0, 0, -1, -1, False
        p.parts = self.parts[opcode]
        p.first, p.last = not p.parts & _GOES_ON, not p.parts & _LEAVES_OPEN
        p.whole = self.snapped[i] != 0 or self.limit[i] >= ext
        if not self.complete[i]:
            p.length = self.sizes[i]
        else:
            p.length = self.payload_end[i] - self.payload[i] if self.payload[i] >= 0 else 0
            if p.parts & _LEAVES_OPEN:
                p.length += -p.length & 3  # First and Middle packets have no pad bytes, whatever their headers say
        where: cython.Py_ssize_t = self.reth[opcode]
        if where and at + where + _RETH <= end:
            p.va, p.dma, p.has_reth = b64(self.data, at + where + _VA), b32(self.data, at + where + _DMA), True
        where = self.aeth[opcode]
        if where and at + where + _AETH <= end:
            p.syndrome, p.msn = self.data[at + where], b24(self.data, at + where + _MSN)
        if p.kind == REQUEST:  # pad, ICRC and the header's flags may differ in a repetition
            end = min(end, stop - _CHECKSUM if op < 6 or op > 11 else ext)  # so may the memory that a WRITE sends
            p.content = hashed(self.data, at + _BTH, max(at + _BTH, min(end, at + _BTH + _SAME)), mix(opcode, p.size)) & _POSITIVE
        return 0

    def message(self, i: cython.Py_ssize_t) -> bytes:
        """The MAD in row i if it is one of connection management, cut off or not; else nothing."""
        at: cython.Py_ssize_t = self.mad[i]
        if at < 0 or at + _CLASS >= self.end[i] or self.data[at + _CLASS] != _CM_CLASS:
            return b""
        return cut(self.data, at, self.end[i])

    def packet(self, i: int) -> Packet:
        """Row i, for tests and for what is looked at once."""
        p = Packet()
        self.read(i, p)
        return p

"""Packets and captures made by tests: bytes from the declarations, where every header field can be overridden."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Collection, Iterable, Sequence
from functools import cache, lru_cache
from typing import Any

from ibdissect.wire.catalog import builtin
from ibdissect.wire.headers import BTH, DETH, GRH, LRH
from ibdissect.wire.mad import MAD, RMPP
from ibdissect.wire.opcodes import OPCODES
from ibdissect.wire.sa import SAFormat
from ibdissect.wire.sm import SMP, SMPDirected
from ibdissect.wire.spec import Field
from ibdissect.words import Struct

GSI_KEY = 0x80010000
LINK_ETHERNET, LINK_SLL, LINK_ERF, LINK_IPOIB, LINK_INFINIBAND, LINK_SLL2 = 1, 113, 197, 242, 247, 276
LINK_NULL, LINK_PPP, LINK_LOOP = 0, 9, 108
LINKS_RAW_IP = 12, 14, 101, 228, 229
"""Link types as libpcap's registry numbers them."""


def put(buffer: bytearray, field: Field[Any], value: Any, *, offset: int = 0) -> None:
    """Write a field of a structure that starts at `offset`; a repeated field takes a sequence."""
    if isinstance(value, int) and field.count == 1 and not (field.bit | field.bits) & 7:  # most: a number of whole bytes
        size, start = field.bits // 8, offset + field.bit // 8
        buffer[start : start + size] = (int(value) & ((1 << field.bits) - 1)).to_bytes(size, "big")
        return
    values = value if field.count > 1 else (value,)
    for bit, item in zip(field.entries(), values, strict=False):
        if isinstance(item, str):
            item = item.encode()
        if isinstance(item, bytes):
            start = offset + bit // 8
            buffer[start : start + field.bits // 8] = item.ljust(field.bits // 8, b"\0")[: field.bits // 8]
            continue
        end = bit + field.bits
        lo, hi = offset + bit // 8, offset + (end + 7) // 8
        shift = (hi - offset) * 8 - end
        mask = ((1 << field.bits) - 1) << shift
        old = int.from_bytes(buffer[lo:hi], "big")
        buffer[lo:hi] = ((old & ~mask) | ((int(item) << shift) & mask)).to_bytes(hi - lo, "big")


@cache
def named(name: str) -> Any:
    """The only built-in structure of a name, which is that of the attribute: PortInfo."""
    (found,) = (one for one in builtin().structs if one.__name__ == name)
    return found


def build(what: type[Struct] | str, size: int | None = None, **values: Any) -> bytes:
    """The bytes of a structure, or of the built-in one of a name: zero except for `values` (by Python field name)."""
    if isinstance(what, str):
        what = named(what)
    try:
        return _built(what, size, tuple(values.items()))
    except TypeError:  # a list as a value cannot be a key of the cache
        return _built.__wrapped__(what, size, values.items())


def bytes_as(name: str, *place: Any) -> Any:
    """Bytes as the built-in structure of a name: its fields are attributes. `place`: the bytes, where it starts and ends in them."""
    return named(name)(*place)


@lru_cache(1 << 14)
def _built(what: type[Struct], size: int | None, values: Iterable[tuple[str, Any]]) -> bytes:
    buffer = bytearray(what.size if size is None else size)
    for name, value in values:
        put(buffer, getattr(what, name), value)
    return bytes(buffer)


def _crc16() -> list[int]:
    """The remainder of each two bytes, the first one in the low bits."""
    table = [0]
    for bit in range(16):
        rest = 1 << bit
        for _ in range(16):
            rest = (rest >> 1) ^ 0xD008 if rest & 1 else rest >> 1
        table += [rest ^ other for other in table]
    return table


CRC16 = _crc16()


def vcrc(data: bytes) -> bytes:
    """Variant CRC: reflected CRC-16, polynomial 0x100B, little-endian (two bytes at a time: an independent second opinion)."""
    crc, even = 0xFFFF, len(data) & ~1
    for pair in struct.unpack(f"<{even // 2}H", data[:even]):
        crc = CRC16[crc ^ pair]
    for byte in data[even:]:
        crc = (crc >> 8) ^ CRC16[((crc ^ byte) & 0xFF) << 8]
    return struct.pack("<H", crc ^ 0xFFFF)


def flipped(frame: bytes, at: int, bits: int = 1) -> bytes:
    """The frame with bits of one byte inverted."""
    data = bytearray(frame)
    data[at] ^= bits
    return bytes(data)


def sealed(frame: bytes) -> bytes:
    """The frame with its VCRC made right again."""
    return frame[:-2] + vcrc(frame[:-2])


def native(
    opcode: int = 0x04,
    payload: bytes = b"",
    *,
    headers: bytes = b"",
    slid: int = 1,
    dlid: int = 2,
    grh: dict[str, Any] | None = None,
    lrh: dict[str, Any] | None = None,
    bth: dict[str, Any] | None = None,
    crc: bool = True,
) -> bytes:
    """A native InfiniBand packet LRH..VCRC with correct lengths, pad and CRCs; `lrh`, `grh`, `bth` override single fields."""
    pad = -len(payload) % 4
    b = {"opcode": opcode, "m": 1, "padcnt": pad, "p_key": 0xFFFF, "destqp": 0x12, "psn": 1, **(bth or {})}
    transport = build(BTH, **b) + headers + payload + bytes(pad)
    network = b""
    if grh is not None:
        network = build(GRH, **{"ipver": 6, "pay_len": len(transport) + 4, "nxt_hdr": 0x1B, "hop_lmt": 1, **grh})
    words = (8 + len(network) + len(transport) + 4) // 4
    link = build(LRH, **{"lnh": 3 if network else 2, "dlid": dlid, "pktlen": words, "slid": slid, **(lrh or {})})
    masked = bytearray(link + network + transport)
    if network:
        masked[0:8] = b"\xff" * 8
        masked[8] |= 0x0F
        masked[9:12] = b"\xff" * 3
        masked[15] = 0xFF
    else:
        masked[0] |= 0xF0
    masked[8 + len(network) + 4] = 0xFF
    icrc = struct.pack("<I", zlib.crc32(masked)) if crc else bytes(4)
    data = link + network + transport + icrc
    return data + (vcrc(data) if crc else bytes(2))


def headers_of(opcode: int, **values: dict[str, Any]) -> bytes:
    """The extended headers that an OpCode requires; values by class name: headers_of(0x0A, RETH={"dmalen": 4})."""
    from ibdissect.wire import headers

    return b"".join(build(getattr(headers, name), **values.get(name, {})) for name in OPCODES[opcode].headers)


def rc(opcode: int, payload: bytes = b"", *, ext: dict[str, dict[str, Any]] | None = None, **kw: Any) -> bytes:
    """A packet of any service with the extended headers of its OpCode."""
    return native(opcode, payload, headers=headers_of(opcode, **(ext or {})), **kw)


def ud(payload: bytes, *, dest_qp: int = 1, src_qp: int = 1, q_key: int = GSI_KEY, bth: dict[str, Any] | None = None, **kw: Any) -> bytes:
    """A UD SEND Only."""
    deth = build(DETH, q_key=q_key, srcqp=src_qp)
    return native(0x64, payload, headers=deth, bth={"destqp": dest_qp, "m": 0, **(bth or {})}, **kw)


def mad(mgmt_class: int, method: int, attr_id: int, body: bytes = b"", *, at: int = 24, size: int = 256, **header: Any) -> bytes:
    """A management datagram: common header, and `body` at byte `at`."""
    version = {0x03: 2, 0x07: 2, 0x21: 2}.get(mgmt_class, 1)
    head = {
        "base_version": 1, "mgmt_class": mgmt_class, "class_version": version, "method": method, "transaction_id": 0x1234,
        "attribute_id": attr_id, **header,
    }  # fmt: skip
    data = bytearray(size)
    data[:24] = build(MAD, **head)
    data[at : at + len(body)] = body
    return bytes(data[:size])


def sa_mad(
    method: int, attr_id: int, record: bytes = b"", *, mask: int = 0, offset: int = 0, sm_key: int = 0, rmpp: dict[str, Any] | None = None,
    **header: Any,
) -> bytes:  # fmt: skip
    """A management datagram of subnet administration."""
    data = bytearray(mad(0x03, method, attr_id, record, at=56, **header))
    data[24 : 24 + RMPP.size] = build(RMPP, **(rmpp or {}))
    put(data, SAFormat.component_mask, mask)
    put(data, SAFormat.attribute_offset, offset)
    put(data, SAFormat.sm_key, sm_key)
    return bytes(data)


def smp(
    method: int,
    attr_id: int,
    attribute: bytes = b"",
    *,
    modifier: int = 0,
    m_key: int = 0,
    path: list[int] | None = None,
    dr: dict[str, Any] | None = None,
    header: dict[str, Any] | None = None,
    **kw: Any,
) -> bytes:
    """A subnet management packet on QP0; `path` (hops after the origin) makes it directed-route."""
    head = {"attribute_modifier": modifier, **(header or {})}
    if path is None:
        data = bytearray(mad(0x01, method, attr_id, attribute, at=64, **head))
        put(data, SMP.m_key, m_key)
    else:
        data = bytearray(mad(0x81, method, attr_id, attribute, at=64, **head))
        back = method & 0x80
        fields = {
            "d": 1 if back else 0, "hop_count": len(path), "hop_pointer": 0 if back else min(1, len(path)), "m_key": m_key,
            "dr_slid": 0xFFFF, "dr_dlid": 0xFFFF, "initial_path": bytes([0, *path]), **(dr or {}),
        }  # fmt: skip
        for name, value in fields.items():
            put(data, getattr(SMPDirected, name), value)
        kw = {"slid": 0xFFFF, "dlid": 0xFFFF, **kw}
    lrh = {"vl": 15, **kw.pop("lrh", {})}
    kw = {"dest_qp": 0, "src_qp": 0, "q_key": 0, **kw}
    return ud(bytes(data), lrh=lrh, **kw)


def gmp(
    mgmt_class: int, method: int, attr_id: int, body: bytes = b"", *, at: int = 64, header: dict[str, Any] | None = None, **kw: Any
) -> bytes:
    """A general-services datagram on QP1, attribute at byte `at` of the MAD."""
    return ud(mad(mgmt_class, method, attr_id, body, at=at, **(header or {})), **kw)


def erf_pcap(
    frames: Iterable[bytes], *, start_ns: int = 1_700_000_000_000_000_000, step_ns: int = 1_000_000, lost: Collection[int] | None = None,
    times: Sequence[int] | None = None,
) -> bytes:  # fmt: skip
    """A pcap of link type 197, one frame every `step_ns` or at `times`, as ibdump writes it.

    `lost`: as a card writes it, which pads records and counts a packet lost before each of these frames, from 1.
    """
    out = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 197)]
    for i, frame in enumerate(frames):
        ns = times[i] if times else start_ns + i * step_ns
        seconds, rest = divmod(ns, 1_000_000_000)
        erf = struct.pack("<Q", (seconds << 32) | ((rest << 32) // 1_000_000_000))
        record = frame + bytes(8 - len(frame) % 8 if lost is not None else 0)
        erf += struct.pack(">BBHHH", 21, 4, 16 + len(record), int(i + 1 in (lost or ())), len(frame))
        out.append(struct.pack("<IIII", seconds, rest // 1000, 16 + len(record), 16 + len(record)) + erf + record)
    return b"".join(out)


def ethernet_pcap(frames: Iterable[bytes], *, start_ns: int = 1_700_000_000_000_000_000, step_ns: int = 1_000_000, link: int = 1) -> bytes:
    """A nanosecond pcap of link type 1 or another (247: plain InfiniBand)."""
    out = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, link)]
    for i, frame in enumerate(frames):
        seconds, rest = divmod(start_ns + i * step_ns, 1_000_000_000)
        out.append(struct.pack("<IIII", seconds, rest, len(frame), len(frame)) + frame)
    return b"".join(out)


def interfaces_pcapng(
    frames: Iterable[tuple[int, bytes]], *, start_ns: int = 1_700_000_000_000_000_000, step_ns: int = 1_000_000, link: int = 247,
    times: Sequence[int] | None = None,
) -> bytes:  # fmt: skip
    """A pcapng with four interfaces, a frame every `step_ns` or at `times`; each with the number of the interface that recorded it."""

    def block(kind: int, body: bytes) -> bytes:
        size = struct.pack("<I", len(body) + 12)
        return struct.pack("<I", kind) + size + body + size

    out = [block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))]
    out += [block(1, struct.pack("<HHI", link, 0, 0) + struct.pack("<HHB3xHH", 9, 1, 9, 0, 0))] * 4
    for i, (interface, frame) in enumerate(frames):
        high, low = divmod(times[i] if times else start_ns + i * step_ns, 1 << 32)
        out.append(block(6, struct.pack("<IIIII", interface, high, low, len(frame), len(frame)) + frame + bytes(-len(frame) % 4)))
    return b"".join(out)


def roce2(
    opcode: int = 0x04, payload: bytes = b"", *, headers: bytes | None = None, ext: dict[str, dict[str, Any]] | None = None,
    bth: dict[str, Any] | None = None, ip: dict[str, Any] | None = None, udp: dict[str, Any] | None = None,
    vlan: int | None = None, crc: bool = True,
) -> bytes:  # fmt: skip
    """A RoCE v2 frame over IPv4 with correct lengths and ICRC."""
    from ibdissect.wire.encapsulation import UDP, IPv4

    pad = -len(payload) % 4
    b = {"opcode": opcode, "m": 1, "padcnt": pad, "p_key": 0xFFFF, "destqp": 0x12, "psn": 1, **(bth or {})}
    extended = headers_of(opcode, **(ext or {})) if headers is None else headers
    transport = build(BTH, **b) + extended + payload + bytes(pad)
    length = len(transport) + 4
    u = build(UDP, **{"source_port": 49152, "destination_port": 4791, "length": 8 + length, **(udp or {})})
    i = bytearray(
        build(
            IPv4,
            **{
                "version": 4, "header_length": 5, "total_length": 28 + length, "dont_fragment": 1, "ttl": 64, "protocol": 17,
                "source": bytes([192, 168, 0, 1]), "destination": bytes([192, 168, 0, 2]), **(ip or {}),
            },
        )
    )  # fmt: skip
    if not any(i[10:12]):
        total = sum(struct.unpack(">10H", i))
        total = (total & 0xFFFF) + (total >> 16)
        i[10:12] = struct.pack(">H", ~(total + (total >> 16)) & 0xFFFF)
    masked = bytearray(b"\xff" * 8 + bytes(i) + u + transport)
    masked[9] = masked[16] = 0xFF
    masked[18:20] = masked[34:36] = b"\xff\xff"
    masked[40] = 0xFF
    icrc = struct.pack("<I", zlib.crc32(masked)) if crc else bytes(4)
    tag = struct.pack(">HH", 0x8100, vlan) if vlan is not None else b""
    return bytes(range(2, 14)) + tag + b"\x08\x00" + bytes(i) + u + transport + icrc

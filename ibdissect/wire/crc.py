"""CRCs of packets: ICRC (native, RoCE v1 and v2), VCRC and the link packet CRC.

All values are plain numbers; on the wire they are little-endian (IBA 7.8; verified on real captures).
"""

from __future__ import annotations

import zlib
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_LRH, _GRH, _ONES_LRH = 8, 40, b"\xff" * 8


def icrc_native(data: bytes, has_grh: bool) -> int:
    """ICRC (32 bits) of a native packet; `data` is the LRH up to and including the pad bytes after the payload.

    LRH.VL and BTH byte 4 are masked with ones; with a GRH also the whole LRH and TClass, FlowLabel and HopLimit (IBA 7.8.1).
    """
    masked = bytearray(data)
    if has_grh:
        masked[:_LRH] = _ONES_LRH
        return _icrc_of_grh(masked)
    masked[:1] = bytes([data[0] | 0xF0]) if data else b""
    _ones(masked, _LRH + 4)
    return zlib.crc32(masked)


def icrc_roce1(data: bytes) -> int:
    """ICRC (32 bits) of a RoCE v1 packet; `data` is the GRH up to and including the pad bytes, preceded by an LRH of ones (Annex A16)."""
    return _icrc_of_grh(bytearray(_ONES_LRH + data))


def icrc_roce2(data: bytes) -> int:
    """ICRC (32 bits) of a RoCE v2 packet; `data` is the IPv4 or IPv6 header up to and including the pad bytes.

    It is preceded by an LRH of ones; TOS, TTL, checksum (IPv4), traffic class, flow label, hop limit (IPv6), UDP
    checksum and BTH byte 4 are masked with ones (RoCEv2 Annex A17.3.3).
    """
    masked = bytearray(data)
    if data[:1] and data[0] >> 4 == 4:
        udp = (data[0] & 15) * 4
        for at in (1, 8, 10, 11):
            _ones(masked, at)
    else:
        udp = 40
        masked[:4] = bytes([(data[0] if data else 0) | 0x0F, 0xFF, 0xFF, 0xFF])
        _ones(masked, 7)
    for at in (udp + 6, udp + 7, udp + 12):
        _ones(masked, at)
    return zlib.crc32(masked, zlib.crc32(_ONES_LRH))


def vcrc(data: bytes) -> int:
    """VCRC (16 bits) of LRH up to and including the ICRC: polynomial 0x100B reflected, initial value and final XOR ones (IBA 7.8.2)."""
    return crc16()(bytes(data))


def lpcrc(data: bytes) -> int:
    """CRC (16 bits) of the first four bytes of a flow-control packet; same generator as the VCRC (IBA 7.9.4)."""
    return crc16()(bytes(data[:4]))


@cache
def crc16() -> Callable[[bytes | memoryview], int]:
    """The function used by `vcrc` and `lpcrc`, for callers with many packets."""
    import anycrc  # imported only if needed

    calculate: Callable[[bytes | memoryview], int] = anycrc.CRC(16, 0x100B, 0xFFFF, True, True, 0xFFFF).calc
    return calculate


def _icrc_of_grh(masked: bytearray) -> int:
    """The ICRC of `masked`: 8 bytes of ones, GRH, BTH and the rest."""
    if len(masked) > _LRH:
        masked[_LRH] |= 0x0F
    for at in (9, 10, 11, _LRH + 7, _LRH + _GRH + 4):
        _ones(masked, at)
    return zlib.crc32(masked)


def _ones(masked: bytearray, at: int) -> None:
    """Set the byte at `at` to ones, if there is one."""
    if at < len(masked):
        masked[at] = 0xFF

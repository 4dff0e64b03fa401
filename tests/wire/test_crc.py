"""ICRC and VCRC are what their polynomials say, and count exactly the bits that no switch or router may change."""

from __future__ import annotations

import random

from ibdissect.wire import crc
from tests.cases import every

DICE = random.Random(7)
NATIVE = DICE.randbytes(8 + 12 + 24)
GLOBAL = DICE.randbytes(8 + 40 + 12 + 24)
OVER_IPV4 = b"\x45" + DICE.randbytes(19 + 8 + 12 + 24)
OVER_IPV4_OPTIONS = b"\x46" + DICE.randbytes(23 + 8 + 12 + 24)
OVER_IPV6 = b"\x60" + DICE.randbytes(39 + 8 + 12 + 24)


def _bitwise(data: bytes, width: int, polynomial: int) -> int:
    """A reflected CRC by the definition: ones first, one bit at a time, complemented."""
    mirrored = int(f"{polynomial:0{width}b}"[::-1], 2)
    register = (1 << width) - 1
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = register >> 1 ^ (mirrored if register & 1 else 0)
    return register ^ (1 << width) - 1


def test_polynomials() -> None:
    assert crc.vcrc(NATIVE) == _bitwise(NATIVE, 16, 0x100B)
    assert crc.lpcrc(NATIVE) == _bitwise(NATIVE[:4], 16, 0x100B)
    masked = bytearray(NATIVE)
    masked[0] |= 0xF0
    masked[12] = 0xFF
    assert crc.icrc_native(NATIVE, False) == _bitwise(masked, 32, 0x04C11DB7)


def test_roce1_is_native_below_an_lrh_of_ones() -> None:
    assert crc.icrc_roce1(GLOBAL[8:]) == crc.icrc_native(GLOBAL, True)


CASES = {
    "local": (NATIVE, lambda data: crc.icrc_native(data, False), {0: 0xF0, 12: 0xFF}),
    "global": (
        GLOBAL,
        lambda data: crc.icrc_native(data, True),
        {**dict.fromkeys(range(8), 0xFF), 8: 0x0F, 9: 0xFF, 10: 0xFF, 11: 0xFF, 15: 0xFF, 52: 0xFF},
    ),
    "RoCE v2, IPv4": (OVER_IPV4, crc.icrc_roce2, {1: 0xFF, 8: 0xFF, 10: 0xFF, 11: 0xFF, 26: 0xFF, 27: 0xFF, 32: 0xFF}),
    "RoCE v2, IPv4 with options": (OVER_IPV4_OPTIONS, crc.icrc_roce2, {1: 0xFF, 8: 0xFF, 10: 0xFF, 11: 0xFF, 30: 0xFF, 31: 0xFF, 36: 0xFF}),
    "RoCE v2, IPv6": (OVER_IPV6, crc.icrc_roce2, {0: 0x0F, 1: 0xFF, 2: 0xFF, 3: 0xFF, 7: 0xFF, 46: 0xFF, 47: 0xFF, 52: 0xFF}),
}


@every("name", CASES)
def test_what_does_not_count_is_ones(name: str) -> None:
    """RoCE v2 has eight bytes of ones in front, where InfiniBand has the LRH."""
    data, calculate, variant = CASES[name]
    masked = bytes(byte | variant.get(at, 0) for at, byte in enumerate(data))
    assert calculate(data) == _bitwise(bytes(8 * b"\xff") * ("RoCE" in name) + masked, 32, 0x04C11DB7)


@every("name", CASES)
def test_which_bits_count(name: str) -> None:
    data, calculate, variant = CASES[name]
    right = calculate(data)
    for at in range(1 if data[0] >> 4 in (4, 6) and "IP" in name else 0, len(data)):
        for bit in range(8):
            changed = bytearray(data)
            changed[at] ^= 1 << bit
            counts = not variant.get(at, 0) >> bit & 1
            assert (calculate(bytes(changed)) != right) == counts, (at, bit)


def test_any_length_is_taken() -> None:
    for size in range(64):
        data = NATIVE[:1] * size
        assert 0 <= crc.vcrc(data) < 1 << 16
        for value in (crc.icrc_native(data, False), crc.icrc_native(data, True), crc.icrc_roce1(data), crc.icrc_roce2(data)):
            assert 0 <= value < 1 << 32

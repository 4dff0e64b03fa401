# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
"""Numbers read from bytes, and their hashes. For the interpreter; `common.pxd` says the same to the compiler."""

from __future__ import annotations

from collections.abc import Sequence

try:
    import cython
except ImportError:  # built without Cython, or run without it
    from . import without_cython as cython

from . import psn_gaps

COMPILED = cython.compiled
MASK = 0xFFFFFFFFFFFFFFFF
if not cython.compiled:
    i64 = int
    u64 = int

    def b16(p: Sequence[int], at: int) -> int:
        """16 bits, most significant byte first."""
        return p[at] << 8 | p[at + 1]

    def b24(p: Sequence[int], at: int) -> int:
        """24 bits."""
        return p[at] << 16 | p[at + 1] << 8 | p[at + 2]

    def b32(p: Sequence[int], at: int) -> int:
        """32 bits."""
        return p[at] << 24 | p[at + 1] << 16 | p[at + 2] << 8 | p[at + 3]

    def b64(p: Sequence[int], at: int) -> int:
        """64 bits."""
        return b32(p, at) << 32 | b32(p, at + 4)

    def cut(p: Sequence[int], at: int, end: int) -> bytes:
        """Some of the bytes, as many as there are."""
        return bytes(p[at:end])

    def mix(a: int, b: int) -> int:
        """A hash of two numbers of 64 bits."""
        h = (a ^ (b * 0x9E3779B97F4A7C15 & MASK)) * 0xD6E8FEB86659FD93 & MASK
        h = (h ^ h >> 32) * 0xD6E8FEB86659FD93 & MASK
        return h ^ h >> 29

    def distance(a: int, b: int) -> int:
        """How far PSN (or MSN) `a` is ahead of `b`; negative if it is behind."""
        return psn_gaps.distance(a, b)

    def hashed(p: Sequence[int], at: int, end: int, h: int) -> int:
        """A hash of bytes and of a hash before them: one product follows the other for each 16 bytes, `mix` comes last."""
        size, rest = end - at, 0
        while end - at >= 16:
            h = (h ^ b64(p, at) ^ (b64(p, at + 8) * 0x9E3779B97F4A7C15 & MASK)) * 0xD6E8FEB86659FD93 & MASK
            h ^= h >> 32
            at += 16
        if end - at >= 8:
            h = mix(h, b64(p, at))
            at += 8
        while at < end:
            rest = rest << 8 | p[at]
            at += 1
        return mix(h ^ rest, size & MASK)

    def fetch(p: Sequence[int], at: int) -> int:
        """Ask memory for a byte that is needed soon. Compiled, this takes no time; a byte that does not exist is none."""
        return 0

    def fetch64(p: Sequence[int], at: int) -> int:
        """The same of a number."""
        return 0

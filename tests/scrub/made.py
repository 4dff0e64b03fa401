"""Scrubbed captures, and the sum of an Internet checksum, for tests."""

from __future__ import annotations

import io

from ibdissect import Capture
from ibdissect.scrub.rewrite import Scrubber, write_scrubbed


def scrub(capture: bytes, container: str = "pcap") -> tuple[bytes, Scrubber]:
    """The capture without secrets and identities, and what replaced them."""
    out = io.BytesIO()
    with Capture(io.BytesIO(capture)) as opened:
        _, scrubber = write_scrubbed(opened, out, container)
    return out.getvalue(), scrubber


def scrubbed(capture: bytes, container: str = "pcap") -> bytes:
    """The capture without secrets and identities."""
    return scrub(capture, container)[0]


def ones(data: bytes) -> int:
    """The sum that an Internet checksum makes all ones, word by word (RFC 1071)."""
    total = 0
    for i in range(0, len(data), 2):
        total += int.from_bytes(data[i : i + 2].ljust(2, b"\0"), "big")
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total

"""Marks of packets and messages with keys in bytes that nobody reads here, behind whatever headers. `engine` hides those bytes."""

from __future__ import annotations

from collections.abc import Sequence

from .encapsulation import ETHERTYPE_ROCE
from .ulp.smc import SMC_D, SMC_R

MARKS = ETHERTYPE_ROCE.to_bytes(2, "big"), SMC_R, SMC_D
"""The Ethertype of RoCE v1, and the words of SMC. The UDP ports of RoCE v2 are such marks, too."""
ERF_WITHOUT_PACKETS = frozenset({13, 14, 27, 48})
"""Types of ERF records that carry none: counters, metadata, padding."""


def marks(roce_ports: Sequence[int]) -> tuple[bytes, ...]:
    """All marks; `roce_ports`: the UDP ports of RoCE v2."""
    return *(port.to_bytes(2, "big") for port in roce_ports), *MARKS

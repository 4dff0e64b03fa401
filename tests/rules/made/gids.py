"""GIDs, for proofs of several families."""

from __future__ import annotations

from ipaddress import IPv6Address


def gid(text: str) -> bytes:
    """A GID from its IPv6 text."""
    return IPv6Address(text).packed

"""Which causes do several connections have in common with one host?"""

from __future__ import annotations

from collections import defaultdict

from .connection import Connection, SharedCause
from .words import shared_words

LEAST, SHARE = 2, 3
"""Connections that a cause must have in common with a host, and which part of the host's connections they must be: a third."""


def shared_causes(connections: list[Connection]) -> list[SharedCause]:
    """Causes by the host they belong to: the blamed one, else the end that has it in a large part of its connections."""
    of_host: dict[str, int] = defaultdict(int)
    groups: dict[tuple[str, str], list[Connection]] = defaultdict(list)
    for one in connections:
        for address in {end.address for end in one.ends}:
            of_host[address] += 1
        if one.healthy or one.cause == "slow-by-application":
            continue
        sides = (0, 1) if one.blamed is None else (one.blamed,)
        for side in sides:
            groups[one.cause, one.ends[side].address].append(one)
    found = []
    for (cause, host), some in groups.items():
        if len(some) >= LEAST and len(some) * SHARE >= of_host[host]:
            found.append(SharedCause(cause, host, len(some), shared_words(cause, host, some, of_host[host]), of_host[host]))
    return sorted(found, key=lambda one: (-one.connections, one.cause, one.host))

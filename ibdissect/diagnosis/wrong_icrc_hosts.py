"""Hosts nearly all of whose ICRCs are wrong in a capture, and whether their packets were whole where they arrived."""

from __future__ import annotations

from typing import Any

from ibdissect.decode.icrc_mistakes_of_hosts import CONSTANT, OTHER

from .connections_from_lanes import Raw

LEAST_WRONG, LEAST_IRREGULAR = 3, 10
"""So many wrong ICRCs of a host show that it writes them so; where nothing tells how they are wrong, fewer may be damage on the way."""
WRONG_SHARE = 0.9
"""A host whose ICRCs are wrong in this part of its packets writes them wrongly; fewer were damaged on the way."""


def mostly_wrong(host: Any, how: str | None) -> bool:
    """Whether so many ICRCs of a host are wrong that no damage explains it. `how`: in which known way."""
    least = LEAST_IRREGULAR if how in (None, OTHER) else LEAST_WRONG
    return bool(host.wrong >= max(least, WRONG_SHARE * host.checked))


def all_taken(raw: Raw, how: object) -> bool:
    """Whether each side acknowledges most of what the other one sends, and nothing is sent again or no ICRC of its sender is right, if the
    capture shows answers at all: then the ICRCs were right where they arrived, as far as it shows. Not if they are wrong in a known way,
    `how`: two hosts that compute it so take it from each other.
    """
    halves = [(raw.half(side), raw.hosts[side]) for side in (0, 1)]
    seen = [(half, host) for half, host in halves if half is not None and half.since]
    return bool(seen) and all(_taken(half, host) for half, host in seen) and how in (None, CONSTANT, OTHER)


def _taken(half: Any, sender: Any) -> bool:
    """Whether what one side sends is taken, as far as the capture shows."""
    if not half.answers:
        return not half.again
    return 2 * (half.front - half.una) < half.requests and (not half.again or 0 < sender.checked == sender.wrong)

"""A cause with what proves it, and what all connections of a capture share when causes are looked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct as Record
from msgspec import field

from ibdissect.decode.identity import HostNumber, QpNumber

from .asked_hosts import AskedHosts
from .connection import ERROR, FAILED
from .connections_from_lanes import Raw
from .refused_accesses import Access
from .signs_of_life import Nearby

if TYPE_CHECKING:
    from ibdissect.engine.waiting_packets import Path


class CauseFound(Record):
    """A cause with what proves it."""

    cause: str
    verdict: str = FAILED
    severity: str = ERROR
    first: int | None = None
    decisive: int | None = None
    blamed: int | None = None
    """Which end it belongs to."""
    detail: dict[str, object] = field(default_factory=dict)
    half: Any = None
    facts: dict[str, Any] = field(default_factory=dict)


class CaptureContext(Record):
    """What all connections of a capture share."""

    goes_on: Callable[[int, int], int]
    """For how many nanoseconds the interface of a frame was captured after a time (`Scopes.goes_on`)."""
    start_ns: int
    """Time of its first one."""
    how_wrong: Callable[[Any], str | None]
    """How a host writes the ICRC wrongly; None if it does not."""
    earlier: dict[tuple[HostNumber, QpNumber], list[Raw]]
    """Connections by an end's host (its number) and queue pair."""
    access: Callable[[int], Access | None] = lambda frame: None
    """What a request in a frame wants to access, if that is remembered."""
    asked: AskedHosts = field(default_factory=AskedHosts)
    nearby: Nearby = field(default_factory=Nearby)
    by_pair: dict[tuple[QpNumber | None, QpNumber | None], list[tuple[Raw, int]]] = field(default_factory=dict)
    """Connections by the queue pairs of both ends, which are known, with the side of the first one; each from both sides."""
    one_of_paths: bool = False
    """Whether answers to requests that are not captured show that connections take several paths."""
    large_only: set[Path] = field(default_factory=set)
    """The paths on which several queue pairs were given up, each with packets larger than any that was acknowledged there."""
    small_lost: dict[Path, list[tuple[int, int]]] = field(default_factory=dict)
    """By path, between which times others were tried that were given up."""


def asking_side(found: CauseFound, raw: Raw) -> int:
    """Which end sends the requests that a cause is about."""
    return raw.requester if found.half is None or found.half is raw.main else 1 - raw.requester

"""Paths that a message of connection management asks for: a REQ names one or two, a LAP another one for its connection."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ibdissect.lint.rule import Seen
from ibdissect.wire.cm import LAP, REQ
from ibdissect.wire.mad import MAD
from ibdissect.wire.numbers import SEND
from ibdissect.wire.spec import Field


class RequestedPath(NamedTuple):
    """One path that a REQ or a LAP names."""

    view: REQ | LAP
    name: str
    """primary or alternate."""

    def field(self, what: str) -> Field[Any]:
        """The field of this path by what its name ends with."""
        found: Field[Any] = getattr(type(self.view), f"{self.name}_{what}")
        return found

    def value(self, what: str) -> Any:
        return getattr(self.view, f"{self.name}_{what}")

    @property
    def lids(self) -> tuple[int, int]:
        return self.value("local_port_lid"), self.value("remote_port_lid")

    @property
    def gids(self) -> tuple[bytes, bytes]:
        return self.value("local_port_gid"), self.value("remote_port_gid")


def paths(view: REQ | LAP, seen: Seen) -> Iterator[RequestedPath]:
    """The paths of a message: the primary path of a REQ, and the alternate path if it names one."""
    if seen.value(MAD.method) != SEND:
        return
    if isinstance(view, REQ):
        yield RequestedPath(view, "primary")
    alternate = RequestedPath(view, "alternate")
    if any(alternate.lids) or any(map(any, alternate.gids)):
        yield alternate

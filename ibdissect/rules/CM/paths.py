"""Which connection requests name a path that does not exist: by a LID that no port can have, or that is another port's?"""

from __future__ import annotations

from typing import Any

from ibdissect.lint.rule import ERROR, WARNING, Rule, Seen
from ibdissect.rules.shared.path_lids import PathLidsRule
from ibdissect.table import Bool, ChunkTable
from ibdissect.table.mask import occurrences_where
from ibdissect.wire.cm import REQ
from ibdissect.wire.expr import Expr, Or
from ibdissect.wire.headers import LRH
from ibdissect.wire.mad import MAD
from ibdissect.wire.numbers import LAST_UNICAST, SEND

PATHS = {
    "primary": (REQ.primary_local_port_lid, REQ.primary_remote_port_lid),
    "alternate": (REQ.alternate_local_port_lid, REQ.alternate_remote_port_lid),
}
LOCAL = {"primary": REQ.primary_subnet_local, "alternate": REQ.alternate_subnet_local}


def _impossible() -> Expr:
    """A LID that no port has, or one end of an alternate path without the other, in a path of this subnet on InfiniBand."""
    parts: list[Expr] = []
    for name, (near, far) in PATHS.items():
        wrong = (near > LAST_UNICAST) | (far > LAST_UNICAST)
        if name == "alternate":
            wrong |= ((near == 0) & (far != 0)) | ((near != 0) & (far == 0))
        parts.append(wrong & (LOCAL[name] == 1))
    return Or(tuple(parts))


class ImpossiblePath(Rule):
    """A connection request names a path with a LID that no port has.

    The other end answers with REJ 12 or 13 (invalid GID, invalid LID), or uses the path: then no packet arrives, or only until the
    connection moves to it.

    Look at the path record that the application used, and at how it makes the REQ.

    One REQ of a native connection in one subnet: its primary path, or its alternate path if it has one.
    """

    code, name, severity = "CM019", "req-lid-impossible", ERROR
    reference = "IBA 12.7.11, 12.7.12, 12.7.21, 4.1.3"
    when = _impossible() & (MAD.method == SEND) & (LRH.slid != 0)  # the REQs of RoCE have the permissive LID
    message = "REQ with {path} path from LID {near} to LID {far}: LIDs of ports are 1 to 49151 (0xbfff)"
    example = "a REQ with Alternate Remote Port LID 0xc001"

    def computed(self, seen: Seen, i: int) -> dict[str, Any]:
        view: Any = seen.table.view(REQ, i)
        for name, fields in PATHS.items():
            near, far = (field.__get__(view, REQ) for field in fields)
            if max(near, far) > LAST_UNICAST or (name == "alternate" and bool(near) != bool(far)):
                return {"path": name, "near": near, "far": far}
        raise AssertionError


class AnotherPortsPath(PathLidsRule):
    """A connection request names a LID that the port with its GID does not have.

    Packets on this path reach another port or none: the connection fails after its retries, or when it moves to its alternate path.

    The application uses an outdated path record: let it ask the SA again, and clear path caches.

    The GUID in a NodeInfo, and the port's LID: the capture shows its Sets, or it answered the same LID before and after the REQ.
    """

    code, name, severity = "CM020", "req-lid-of-another-port", WARNING
    reference = "IBA 12.7.11, 12.7.12, 12.7.21"
    message = "REQ with {which} {lid} for port GUID 0x{guid:016x}, which had LID {held} and never that one"
    example = "PortInfo with LID 5 of a port, set and answered, and a REQ with Alternate Remote Port LID 9 for its GID"
    struct = REQ
    ends = (
        ("Primary Local Port LID", REQ.primary_local_port_gid, REQ.primary_local_port_lid, REQ.primary_local_port_gid),
        ("Primary Remote Port LID", REQ.primary_remote_port_gid, REQ.primary_remote_port_lid, REQ.primary_local_port_gid),
        ("Alternate Local Port LID", REQ.alternate_local_port_gid, REQ.alternate_local_port_lid, REQ.alternate_local_port_gid),
        ("Alternate Remote Port LID", REQ.alternate_remote_port_gid, REQ.alternate_remote_port_lid, REQ.alternate_local_port_gid),
    )

    def judged(self, table: ChunkTable) -> Bool:
        return occurrences_where(MAD.method == SEND, table, REQ)

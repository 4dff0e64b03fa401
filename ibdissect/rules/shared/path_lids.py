"""Base of rules about paths that name a port by its GID, and by a LID that the port never had."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from ibdissect.decode import Bool, ChunkTable, Int
from ibdissect.decode.bit_fields import extract
from ibdissect.decode.equal_rows import groups, parts, run_starts
from ibdissect.decode.history import AFTER_ALL
from ibdissect.decode.identity import Guid
from ibdissect.lint.finding import Severity
from ibdissect.lint.rule import Context, Hit, Seen, fault, on_event
from ibdissect.rules.shared.not_seen import LearntFactRule
from ibdissect.subnet import SWITCH, ChunkFollowed, FabricFollower, Port
from ibdissect.subnet.lid_writes import LidWrites
from ibdissect.subnet.visible_managers import CONFIGURED_NS
from ibdissect.wire.numbers import FIRST_MULTICAST, PORT_INFO
from ibdissect.wire.spec import Field, Struct

PathEnd = tuple[str, Field[Any], Field[Any], Field[Any]]
"""What the message calls a LID, the GID and the LID, and a GID of this subnet, whose prefix the first must have."""


class PathLidsRule(LearntFactRule):
    """Base of rules about structures that name both ends of a path by GID and by LID."""

    needs: ClassVar[tuple[type[Any], ...]] = (LidWrites,)
    written = (PORT_INFO,)
    holds_ns = CONFIGURED_NS

    structs: ClassVar[Mapping[type[Struct], tuple[PathEnd, ...]]]
    """The structures, and the ends that each names."""

    def judged(self, table: ChunkTable, struct: type[Struct]) -> Bool:
        """Which occurrences say something."""
        raise NotImplementedError

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, context: Context) -> Iterator[Hit]:
        """Each distinct pair of GUID and LID once; GIDs of other subnets and alias GUIDs are not known and not judged."""
        for struct, ends in self.structs.items():
            yield from self._named(event, context, struct, ends)

    def _named(self, event: ChunkFollowed, context: Context, struct: type[Struct], ends: tuple[PathEnd, ...]) -> Iterator[Hit]:
        table, writes = event.table, context.get(LidWrites)
        found = table.occurrences(struct)
        if not len(found):
            return
        good = self.judged(table, struct)
        rows, edges = table.matrix(struct), dict[Guid, Int]()
        for which, gid, field, local in ends:
            near, guids = extract(rows, gid.bit, 64) == extract(rows, local.bit, 64), extract(rows, gid.bit + 64, 64)
            index = np.flatnonzero(good & near & (guids != 0))
            if not len(index):
                continue
            pairs = guids[index], table.values(field)[index]
            first, of_pair = groups(pairs)
            by_pair, stops = index[np.argsort(of_pair, kind="stable")], np.cumsum(np.bincount(of_pair)).tolist()
            for k in np.lexsort((pairs[1][first], pairs[0][first])).tolist():
                guid, lid = Guid(int(pairs[0][first[k]])), int(pairs[1][first[k]])
                frame = table.chunk.first + int(found.rows[index[first[k]]])
                port = next((one for one in event.once(_by_guid).get(guid, ()) if one.frame <= frame < one.node.until), None)
                if port is None or not 0 < lid < FIRST_MULTICAST or port.has_had(lid, frame):
                    continue
                mine = by_pair[stops[k - 1] if k else 0 : stops[k]]
                if guid not in edges:  # a port may have shown its LID in most frames, and be wrong in as many records
                    edges[guid] = np.sort(np.fromiter(port.changes(table.chunk.first) | writes.change_frames(port), np.int64))
                piece = np.searchsorted(edges[guid], table.chunk.first + found.rows[mine], "right")
                for part in parts(mine, run_starts(piece)):
                    seen = Seen(table, int(found.rows[part[0]]))
                    shown, (held, since) = writes.last_shown(port, seen.frame), port.lids.at(seen.frame)
                    if not shown or held is None or since >= seen.frame or port.has_had(lid, seen.frame):
                        continue
                    yield fault(
                        seen, {"struct": struct.__name__, "which": which, "lid": lid, "guid": guid, "held": held[0]}, field,
                        of=table.view(struct, int(part[0])), proof=[(shown, "the port's LID")], rows=found.rows[part], key=(port.key, lid),
                        about=(port.node.slot,),
                    )  # fmt: skip

    def stands(self, hit: Hit, context: Context) -> bool:
        """Not if the port's LID may have changed unseen, or another port has its number since."""
        port = context.get(FabricFollower).subnet.by_key(hit.key[0])
        if port is None or port.guid != hit.arguments["guid"]:
            return False
        return context.get(LidWrites).is_certain(port, hit.frame, until=AFTER_ALL)

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        """Also INFO if the port gets the LID later: managers tell of paths before they have written all ports."""
        key, lid = hit.key
        port = context.get(FabricFollower).subnet.by_key(key)
        gets = port is not None and port.has_had(lid, AFTER_ALL)
        return Severity.INFO if gets else super().severity_at_end(hit, context)


def _by_guid(event: ChunkFollowed) -> dict[Guid, list[Port]]:
    """Ports by GUID, those of nodes that were dropped in this chunk as well; the latest first."""
    found: dict[Guid, list[Port]] = {}
    for node in (*reversed(event.subnet.slots.values()), *event.subnet.gone.values()):
        for port in node.ports.values():
            if port.guid and (port.number == 0 or node.kind != SWITCH):
                found.setdefault(Guid(port.guid), []).append(port)
    return found

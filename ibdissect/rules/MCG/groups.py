"""Which switches have no room for the multicast groups of the subnet?"""

from __future__ import annotations

from collections.abc import Iterator

from ibdissect.bounded import BoundedDict
from ibdissect.dropped import Dropped
from ibdissect.fabric.events import ChunkFollowed
from ibdissect.fabric.model import SWITCH
from ibdissect.lint.rule import WARNING, Context, Hit, Rule, Seen, on_event
from ibdissect.wire.numbers import FIRST_MULTICAST

MAX_SWITCHES = 49152


class TooManyGroups(Rule):
    """The subnet has more multicast LIDs than a switch has entries.

    The switch cannot forward the last groups: it drops their packets or floods them, and the subnet manager refuses joins.

    Let groups share multicast LIDs (opensm: `consolidate_ipv6_snm_req`), or replace the switch.
    """

    code, name, severity = "MCG006", "mft-cap-exceeded", WARNING
    reference = "IBA 14.2.5.4; seed000, seed003 MulticastFDBCap"
    message = "{groups} multicast LIDs in use, switch 0x{switch:016x} has {cap} entries"
    example = "SwitchInfo.MulticastFDBCap 2, then MCMemberRecords with three multicast LIDs"

    def __init__(self) -> None:
        self.dropped = Dropped("switches with too many groups")
        self.told = BoundedDict[int, bool](MAX_SWITCHES, self.dropped)
        """Slots of the switches that were reported."""

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, context: Context) -> Iterator[Hit]:
        groups = event.subnet.groups.by_mgid
        if len(groups) < 2:
            return
        first: dict[int, int] = {}
        for group in groups.values():
            if group.facts.now is not None and group.facts.now.mlid >= FIRST_MULTICAST:
                mlid, frame = group.facts.now.mlid, group.facts.since
                first[mlid] = min(frame, first.get(mlid, frame))
        used = sorted(first.values())
        for node in event.subnet.slots.values():
            switch, since = (node.switch.now, node.switch.since) if node.kind == SWITCH else (None, 0)
            if switch is None or not 0 < switch.multicast_fdb_cap < len(used) or node.slot in self.told:
                continue
            self.told.put(node.slot, True)
            frame = max(used[switch.multicast_fdb_cap], since)
            row = max(0, frame - event.table.chunk.first)
            yield Seen(event.table, row).found(
                {"groups": switch.multicast_fdb_cap + 1, "switch": node.guid, "cap": switch.multicast_fdb_cap},
                proof=[(since, "SwitchInfo")],
                key=node.slot,
            )

"""Which switches have too few entries for the multicast groups of the subnet?"""

from __future__ import annotations

from collections.abc import Iterator

from ibdissect.bounded import BoundedDict
from ibdissect.dropped import Dropped
from ibdissect.fabric.events import ChunkFollowed
from ibdissect.fabric.model import SWITCH
from ibdissect.lint.rule import WARNING, Context, Hit, Rule, Seen, on_event

MAX_SWITCHES = 49152


class TooManyGroups(Rule):
    """The subnet has more multicast LIDs than a switch has entries.

    The switch cannot forward the last groups: it drops their packets or floods them, and the subnet manager refuses joins.

    Let groups share multicast LIDs (opensm: `consolidate_ipv6_snm_req`), or replace the switch.

    The MulticastFDBCap in SwitchInfo, and the multicast LIDs in MCMemberRecords.
    """

    code, name, severity = "MCG006", "mft-cap-exceeded", WARNING
    reference = "IBA 14.2.5.4; Omni-Path manual MulticastFDBCap"
    message = "{groups} multicast LIDs in use, switch 0x{switch:016x} has {cap} entries"
    example = "SwitchInfo.MulticastFDBCap 2, then MCMemberRecords with three multicast LIDs"

    def __init__(self) -> None:
        self.dropped = Dropped("switches with too many groups")
        self.told = BoundedDict[int, bool](MAX_SWITCHES, self.dropped)
        """Slots of the switches that were reported."""

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, context: Context) -> Iterator[Hit]:
        first, in_use = event.table.chunk.first, event.subnet.groups.in_use
        for node in event.subnet.slots.values() if in_use.now else ():
            if node.kind != SWITCH or node.slot in self.told:
                continue
            for frame in sorted({frame for frame in (*in_use.changes(), *node.switch.changes()) if frame >= first}):
                switch, since = node.switch.at(frame)
                number = in_use.at(frame)[0] or 0
                if switch is not None and 0 < switch.multicast_fdb_cap < number:
                    seen = Seen(event.table, frame - first)
                    self.told.put(node.slot, True, seen.frame, seen.time_ns)
                    yield seen.found(
                        {"groups": number, "switch": node.guid, "cap": switch.multicast_fdb_cap}, proof=[(since, "SwitchInfo")],
                        key=node.slot,
                    )  # fmt: skip
                    break

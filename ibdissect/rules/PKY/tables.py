"""P_Key tables that do not fit their port or change a membership, and packets that a port reports or counts for their P_Key."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from ibdissect.bounded import KeptDict
from ibdissect.decode import ChunkTable, Int
from ibdissect.decode.capture_places import Scopes
from ibdissect.decode.history import AFTER_ALL
from ibdissect.decode.identity import Code, Frame
from ibdissect.decode.native_packets import Native
from ibdissect.lint.finding import Severity, Span
from ibdissect.lint.rule import ERROR, INFO, WARNING, Context, FaultDetails, Hit, Seen, fault, on_event
from ibdissect.lint.sequence import previous
from ibdissect.rules.PKY.unusual_p_keys import block_numbers, twice
from ibdissect.rules.shared.attribute_rule import (
    OF_SWITCH,
    WRITTEN,
    AttributeRule,
    Fault,
    Mask,
    ViolationCounted,
    beyond,
    of_node,
    of_switch,
    switches,
)
from ibdissect.rules.shared.mad_conditions import HAS_CONTENT
from ibdissect.rules.shared.not_seen import PATIENCE_NS, LearntFactRule
from ibdissect.rules.shared.trap_rule import ReportedPackets
from ibdissect.subnet import SWITCH, ChunkFollowed, FabricFollower, Node, Port
from ibdissect.subnet.attribute_smps import AttributeSmp, AttributeSmps
from ibdissect.subnet.events import BlockOfSeveralLearnt
from ibdissect.subnet.p_keys import BLOCK, keys_in
from ibdissect.subnet.visible_managers import CONFIGURED_NS
from ibdissect.wire.expr import Where
from ibdissect.wire.mad import MAD, METHODS
from ibdissect.wire.notice import TrapPKey
from ibdissect.wire.numbers import BASE, FULL, GET, P_KEY_TABLE, SA_CLASS
from ibdissect.wire.sa_records import PKeyTableRecord
from ibdissect.wire.sm import SwitchInfo
from ibdissect.wire.sm_port import PortInfo
from ibdissect.wire.sm_tables import PKeyTable

MAX_SIZES = 4096


class BlockPastTable(AttributeRule):
    """A P_KeyTable request names a block, or a switch port, that is not there.

    A write there has no effect and a read gives zeros: P_Keys that the subnet manager wrote are not in force.

    Compare with PartitionCap (NodeInfo) or PartitionEnforcementCap (SwitchInfo, for external ports, which have no table if it is 0).

    A Set. A Get is an `info`: it changes nothing, and tools read until nothing comes.
    """

    code, name, severity = "PKY011", "block-past-capability", ERROR
    reference = "IBA 14.2.5.7"
    message = "{method}(P_KeyTable) of block {block} of {port}, whose table has {cap:entry}"
    example = "NodeInfo with PartitionCap 64, then SubnSet(P_KeyTable) with AttributeModifier 5"
    at = PKeyTable.p_key_table_block
    refusable = True

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        """An info for a Get."""
        return INFO if hit.arguments["method"] == METHODS[GET] else super().severity_at_end(hit, context)

    def suspicious(self, smps: AttributeSmps) -> Mask:
        entry, external = (smps.modifier & 0xFFFF) * BLOCK, switches(smps) & (smps.modifier >> 16 > 0)
        enforced = of_switch(smps, lambda switch: switch.partition_enforcement_cap)
        size = np.where(external, enforced, of_node(smps, lambda node: node.partition_cap))
        missing = external & ((smps.modifier >> 16 > smps.ports) | (enforced == 0))
        return ~smps.answers & (((entry > 0) & beyond(smps, entry, size)) | missing | (external & smps.changed))

    def judge(self, smp: AttributeSmp) -> FaultDetails | None:
        node, block = smp.node, smp.modifier & 0xFFFF
        if not node.kind:
            return None
        facts, since = node.facts_at(smp.frame)
        cap = facts.partition_cap
        if node.kind == SWITCH and smp.modifier >> 16:  # an external port
            number = smp.modifier >> 16
            if facts.num_ports and number > facts.num_ports:
                return {"block": block, "cap": 0, "port": f"port {number} of {smp.node_name}, which has {facts.num_ports} ports"}, [
                    (since, f"NodeInfo: {facts.num_ports} ports")
                ]
            switch, since = smp.switch
            cap = switch.partition_enforcement_cap if switch is not None else 0
            if switch is not None and not cap:
                return {"block": block, "cap": 0, "port": f"{smp.node_name} port {number}"}, [(since, "PartitionEnforcementCap 0")]
        return ({"block": block, "cap": cap}, [(since, "capacity of the table")]) if cap and block * BLOCK >= cap else None

    def flow_of(self, smp: AttributeSmp) -> Any:
        return smp.slot, smp.modifier


class PartitionTwice(LearntFactRule):
    """The same P_Key is in a P_Key table twice.

    Software that looks up the index of a key may find either; a later change to one of them breaks half of the connections.

    Look for the partition in the subnet manager's configuration: it is probably defined twice.

    One block with both entries; an `info` if the capture does not show how many the port has. Or two blocks that the port showed with the
    key, if both still hold it at the end of the capture, a second later or more; an `info` if the capture may have missed a change. Entries
    beyond the port's capacity are not compared, and blocks only if that is known. Both membership forms of one partition side by side are
    legal and not reported.
    """

    code, name, severity = "PKY009", "pkey-table-duplicate", WARNING
    reference = "Shanley, membership; kernel qib add_pkey"
    on = PKeyTable
    when = HAS_CONTENT & Where(PKeyTable, twice, of_content=True)
    message = "P_Key 0x{p_key:04x} is twice in block {block} of the P_Key table, as entries {first} and {second}"
    example = "SubnSet(P_KeyTable) with 0xFFFF, 0x8001, 0x8001"
    written = (P_KEY_TABLE,)
    holds_ns = CONFIGURED_NS

    def __init__(self) -> None:
        self.sizes = KeptDict[tuple[Frame, Code], int](MAX_SIZES, "P_Key tables that hold a key twice")
        """Entries of the port's table, by the place of such a block: frame and offset."""

    @on_event(ChunkFollowed)
    def note_sizes(self, event: ChunkFollowed, _context: Context) -> None:
        table, found = event.table, event.table.occurrences(PKeyTable)
        for i in np.flatnonzero(twice(table)).tolist() if len(found) else ():
            seen, at = Seen(table, int(found.rows[i])), _place(table, i)
            port = _port_of(event, seen, i)
            size = port.p_key_capacity(seen.frame) if port is not None else None
            if size:
                self.sizes.keep((seen.frame, at), size, seen.frame, seen.time_ns)

    def computed(self, seen: Seen, i: int) -> dict[str, Any]:
        keys = keys_in(seen.table.matrix(PKeyTable)[i].tobytes())
        second, key = next((at, key) for at, key in enumerate(keys) if key & BASE and key in keys[:at])
        number = int(block_numbers(seen.table)[i])
        block = str(number)
        if number and not number & 0xFF and seen.value(MAD.mgmt_class) == SA_CLASS:  # a condition does not know the size of the table
            block += f" ({number >> 8} if the SA sends it in the byte order of its host, as OpenSM does)"
        entry = number * BLOCK + second
        return {"p_key": key, "block": block, "first": keys.index(key), "second": second, "entry": entry, "at": _place(seen.table, i)}

    @on_event(BlockOfSeveralLearnt)
    def learnt(self, event: BlockOfSeveralLearnt, context: Context) -> Iterator[Hit]:
        """A block holds a key of another one: perhaps the manager is only moving it."""
        size = event.port.p_key_capacity(event.frame) or 0  # what a node answers beyond the end of its table means nothing
        blocks = [one for one in (event.port.p_keys.blocks if event.port.p_keys is not None else ()) if one.number * BLOCK < size]
        if all(one.number != event.block for one in blocks):
            return
        mine, *others = sorted(((one, *one.at(event.frame)) for one in blocks), key=lambda one: one[0].number != event.block)
        for other, entries, since in others:
            for key in sorted({key for key in keys_in(entries) if key & BASE} & {*keys_in(mine[1])}):
                seen = Seen(context.table, event.frame - context.table.chunk.first)
                at = seen.start(PKeyTable) + 2 * keys_in(mine[1]).index(key)
                yield fault(
                    seen, {"p_key": key, "port": str(event.port), "block": event.block, "other": other.number},
                    spans=(Span(event.frame, at, 2),), proof=[(since, f"showed block {other.number}")],
                    key=(event.port.key, other.number, event.block), about=(event.port.node.slot,),
                    message="P_Key 0x{p_key:04x} is in blocks {other} and {block} of the P_Key table of {port}",
                )  # fmt: skip

    def stands(self, hit: Hit, context: Context) -> bool:
        if hit.key is None:
            size = self.sizes.get((hit.frame, hit.arguments["at"]), AFTER_ALL)
            return int(hit.arguments["entry"]) < size  # one block holds it twice
        port = context.get(FabricFollower).subnet.by_key(hit.key[0])
        table = port.p_keys if port is not None else None
        held = [table.block(hit.arguments[name]) for name in ("block", "other")] if table is not None else []
        still = all(block is not None and hit.arguments["p_key"] in keys_in(block.now) for block in held)
        return bool(held) and still and context.get(Scopes).goes_on(hit.frame, hit.time_ns) >= PATIENCE_NS

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        """Also INFO for one block of a table whose size is not known: what is behind its end means nothing."""
        unsure = hit.key is None and (hit.frame, hit.arguments["at"]) not in self.sizes
        return INFO if unsure else super().severity_at_end(hit, context)

    def facts_used_of(self, hit: Hit, context: Context) -> Collection[Node] | None:
        """The node with the table."""
        port = context.get(FabricFollower).subnet.by_key(hit.key[0])
        return None if port is None else [port.node]


def _place(table: ChunkTable, i: int) -> int:
    """The offset of a block in its frame."""
    found = table.occurrences(PKeyTable)
    return int(found.at[i] - table.chunk.offset[found.rows[i]])


def _port_of(event: ChunkFollowed, seen: Seen, i: int) -> Port | None:
    """The port whose table a block belongs to, in an SMP or a record of the SA."""
    table = event.table
    records = table.occurrences(PKeyTableRecord)
    start = int(table.occurrences(PKeyTable).at[i]) - PKeyTableRecord.p_key_table.span[0]
    at = np.flatnonzero(records.at == start)
    if len(at):
        record: PKeyTableRecord = table.view(PKeyTableRecord, int(at[0]))
        owner = event.subnet.owner(record.lid, seen.frame)[0]
        node, number = owner.node if owner is not None else None, record.port_num
    else:
        place = np.flatnonzero(event.smps.rows == seen.row)
        node = event.subnet.by_slot(int(event.smps.slot[place[0]])) if len(place) else None
        number = seen.value(MAD.attribute_modifier) >> 16 & 0xFF
    if node is None or node.kind == SWITCH:
        return node.ports.get(number) if node is not None else None
    return next(iter(node.ports.values()), None)  # all of an adapter's have the same size


class MembershipChanged(AttributeRule):
    """A Set changes a port's membership of a partition from limited to full, or back.

    Nothing is wrong by itself, but from here on this port may or may not talk to other ports than before.

    Compare with partitions.conf if nobody changed it.
    """

    code, name, severity = "PKY012", "membership-upgrade", INFO
    reference = "IBA 10.9"
    message = "Set(P_KeyTable) of {port} makes it a {kind} member of partition 0x{base:04x}"
    example = "GetResp(P_KeyTable) with 0x1234, then SubnSet(P_KeyTable) with 0x9234 in its place"
    at = PKeyTable.p_key_table_block
    why = "showed the other membership"

    def suspicious(self, smps: AttributeSmps) -> Mask:
        return smps.sets & (smps.since > 0) & (smps.bodies != smps.before).any(axis=1)

    def judge(self, smp: AttributeSmp) -> FaultDetails | None:
        now, before = ({*body.view(">u2").tolist()} for body in (smp.body, smp.before))
        for key in sorted(now - before):
            if key & BASE and key ^ FULL in before and key ^ FULL not in now:
                return {"kind": "full" if key & FULL else "limited", "base": key & BASE}, self.earlier(smp)
        return None


class EnforcementWithoutCap(AttributeRule):
    """A Set switches partition enforcement on at a switch that cannot enforce it.

    The administrator believes that the switch keeps partitions apart; it passes everything.

    Let the subnet manager read PartitionEnforcementCap first (opensm: `part_enforce off` for such switches).

    The SwitchInfo before the Set: PartitionEnforcementCap 0, or only the other of the two directions offered. Switches that offer neither
    direction but show a capacity leave these bits empty, and are not judged. Nor is a Set that repeats what the port showed.
    """

    code, name, severity = "PKY016", "switch-pkey-enforce-without-cap", ERROR
    reference = "IBA 14.2.5.4"
    message = "Set(PortInfo) of {port} enforces partitions on {what} packets, which SwitchInfo does not offer"
    example = "SwitchInfo with PartitionEnforcementCap 0, then SubnSet(PortInfo) with PartitionEnforcementInbound 1"
    at = PortInfo.partition_enforcement_inbound
    refusable = True

    why = "SwitchInfo"
    cap = previous(SwitchInfo.partition_enforcement_cap)
    entering, leaving = PortInfo.partition_enforcement_inbound, PortInfo.partition_enforcement_outbound
    inbound, outbound = previous(SwitchInfo.inbound_enforcement_cap), previous(SwitchInfo.outbound_enforcement_cap)
    # OpenSM checks only the capacity, and switches that show both capability bits 0 accept its Sets
    when = WRITTEN & OF_SWITCH & ((MAD.attribute_modifier & 0xFF) > 0)
    faults = (
        Fault(((cap == 0) | (inbound < outbound)) & (entering == 1) & ~(previous(entering) == 1), "inbound"),
        Fault(((cap == 0) | (outbound < inbound)) & (leaving == 1) & ~(previous(leaving) == 1), "outbound"),
    )


class BadPKeyReported(ReportedPackets):
    """A port complains about a packet's P_Key, and the capture holds the packet.

    The port dropped it: it is not a member of that partition, or both are limited members.

    Compare the partitions of both ports (smpquery pkeys).
    """

    code, name, severity = "PKY013", "trap257-crossref", WARNING
    reference = "IBA 14.2.5.1; opensm ntc_257_258"
    message = "{port} complains (trap 257) of P_Key {key} from LID {slid} to LID {dlid} QP 0x{qp:x}, last seen in frame {packet}"
    example = "a packet with P_Key 0x1234, then SubnTrap 257 that names both its ends and that P_Key"
    numbers, details, key_mask = (257,), TrapPKey, 0xFFFF

    def keys(self, table: ChunkTable, native: Native, some: slice) -> Int:
        return native.p_key[some]

    def key_text(self, key: int) -> Any:
        return f"0x{key:04x}"


class PKeyViolations(ViolationCounted):
    """A port counted packets with a wrong P_Key between two readings.

    Somebody sends to this port in a partition that it is not a member of; those packets are dropped silently.

    Compare the partitions of the port with those of its peers; trap 257 of the port names both ends of such a packet.
    """

    code, name, severity = "PKY015", "pkey-violations-increment", WARNING
    reference = "IBA 14.2.5.6"
    message = "{port} counts {now} P_Key violations, up from {before}"
    example = "two GetResp(PortInfo) of a port, P_KeyViolations 0 and 3"
    at = PortInfo.p_key_violations

"""P_Keys that are wrong or unusual in one packet."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ibdissect.bounded import KeptDict
from ibdissect.decode import Bool, ChunkTable, Int
from ibdissect.decode.bit_fields import extract
from ibdissect.decode.equal_rows import places_in
from ibdissect.decode.history import AFTER_ALL
from ibdissect.decode.identity import Frame
from ibdissect.lint.finding import Severity
from ibdissect.lint.rule import ERROR, INFO, WARNING, Context, Hit, Rule, Seen, on_event
from ibdissect.rules.shared.answered_packets import Reply
from ibdissect.rules.shared.mad_conditions import HAS_CONTENT
from ibdissect.rules.shared.not_seen import LearntFactRule
from ibdissect.rules.shared.packet_flows import PacketRule, gid_bytes, is_ipoib
from ibdissect.rules.shared.site_forbids import forbidden_entries
from ibdissect.subnet import SWITCH, ChunkFollowed
from ibdissect.subnet.earlier_answers import PKeyTables
from ibdissect.subnet.p_keys import BLOCK
from ibdissect.wire.expr import Where, present
from ibdissect.wire.headers import BTH, GRH, LRH
from ibdissect.wire.mad import MAD
from ibdissect.wire.notice import TrapSwitchPKey
from ibdissect.wire.numbers import BASE, FULL, SET, SMP_CLASSES, TRAP
from ibdissect.wire.opcodes import MANUFACTURER
from ibdissect.wire.port_kinds import END_PORTS
from ibdissect.wire.sa_records import PKeyTableRecord
from ibdissect.wire.sm import SMPDirected
from ibdissect.wire.sm_tables import PKeyEntry, PKeyTable

Keys = npt.NDArray[np.uint16]
DEFAULT = frozenset({0xFFFF, 0x7FFF})
MAX_HARMLESS = 4096


def _table_keys(table: ChunkTable) -> Keys:
    """The 32 keys of each P_KeyTable block, uint16[k, 32]."""
    return np.ascontiguousarray(table.matrix(PKeyTable)).view(">u2").astype(np.uint16)


def block_numbers(table: ChunkTable) -> Int:
    """The number of each P_KeyTable block, int64[k]: in an SMP the modifier has it, in a record of the SA the record."""
    blocks, records = table.occurrences(PKeyTable), table.occurrences(PKeyTableRecord)
    record = places_in(records.at + PKeyTableRecord.p_key_table.span[0], blocks.at)
    of_record = np.append(table.values(PKeyTableRecord.block_num), 0)[record]
    return np.where(record >= 0, of_record, table.values_at(MAD.attribute_modifier, blocks.rows) & 0xFFFF).astype(np.int64)


def _no_default(table: ChunkTable) -> Bool:
    """First blocks with keys whose first entry is empty."""
    keys = _table_keys(table)
    empty: Bool = (keys[:, 0] & BASE == 0) & (keys & BASE != 0).any(axis=1) & (block_numbers(table) == 0)
    return empty


def twice(table: ChunkTable) -> Bool:
    """Blocks that hold the same valid key twice."""
    keys = np.sort(_table_keys(table), axis=1)
    same: Bool = ((keys[:, 1:] == keys[:, :-1]) & (keys[:, 1:] & BASE != 0)).any(axis=1)
    return same


def _other_partition(table: ChunkTable) -> Bool:
    """Multicast packets of IP over InfiniBand whose P_Key differs from that in the group's GID (ignoring membership)."""
    gid = table.values(GRH.dgid)
    in_gid = extract(gid, 32, 16)
    packet = table.values_at(BTH.p_key, table.occurrences(GRH).rows)
    other: Bool = is_ipoib(gid) & (in_gid & BASE != 0) & ((in_gid ^ packet) & BASE != 0)
    return other


class PKeyZero(PacketRule):
    """A packet belongs to no partition: its P_Key is 0x0000 or 0x8000.

    Partition 0 does not exist, so every receiver drops the packet and counts a P_Key violation. Only queue pair 0 does not check P_Keys.

    Check the P_Key index of the sender's queue pair: it points to an empty entry of its table.
    """

    code, name, severity = "PKY002", "pkey-zero", ERROR
    reference = "opensm ib_pkey_is_invalid (C10-116)"
    when = ((BTH.p_key & BASE) == 0) & (BTH.destqp != 0) & (BTH.opcode < MANUFACTURER)
    message = "P_Key 0x{p_key:04x} belongs to partition 0, which does not exist"
    example = "an RC packet with P_Key 0x8000"


class ManagementPKey(Rule):
    """A subnet management packet carries a P_Key other than the default.

    It is legal, since subnet management does not check P_Keys. The sender selects partitions even for its management traffic.

    Nothing.
    """

    code, name, severity = "PKY006", "smp-pkey-nondefault", INFO
    is_note = True
    reference = "Shanley, queue pair 0"
    on = MAD
    when = (BTH.destqp == 0) & ~BTH.p_key.isin(DEFAULT)
    at = BTH.p_key
    flow = (LRH.slid, BTH.p_key)
    message = "a subnet management packet with P_Key 0x{BTH.p_key:04x}; the default is 0xffff or 0x7fff"
    example = "SubnGet(NodeInfo) with P_Key 0x8001"


class GeneralManagementPKey(Rule):
    """A general management datagram carries a P_Key other than the default.

    It is legal where nodes are not members of the default partition. Both sides need the partition in their tables.

    Nothing, unless the datagram goes unanswered; then compare the P_Key tables of both ports.
    """

    code, name, severity = "PKY007", "gmp-pkey-unusual", INFO
    is_note = True
    reference = "Shanley, queue pair 1; infiniband-diags --pkey-idx"
    on = MAD
    when = (BTH.destqp == 1) & ~BTH.p_key.isin(DEFAULT) & ((BTH.p_key & BASE) != 0)
    at = BTH.p_key
    flow = (LRH.slid, LRH.dlid, BTH.p_key)
    message = "a management datagram with P_Key 0x{BTH.p_key:04x}; the default is 0xffff or 0x7fff"
    example = "PerfGet(PortCounters) with P_Key 0x8002"


class DefaultPartitionMissing(Rule):
    """The first entry of a P_Key table holds no partition, though others do.

    Software uses index 0 by default. With an empty entry its packets leave with P_Key 0 and are dropped. Some adapters keep entry 0 free,
    and a manager that removes the default partition from a port leaves the other entries where they are.

    Let the subnet manager put the default partition (0xFFFF or 0x7FFF) first; see the `pkeys` options of its configuration.
    """

    code, name, severity = "PKY008", "default-table-missing", INFO
    reference = "Shanley, non-volatile memory"
    on = PKeyTable
    when = HAS_CONTENT & Where(PKeyTable, _no_default, of_content=True)
    ports = END_PORTS
    flow = (LRH.slid, LRH.dlid, MAD.attribute_modifier, SMPDirected.initial_path)
    message = "entry 0 of the P_Key table is empty while others hold partitions"
    example = "SubnSet(P_KeyTable) of block 0 with 0x0000, 0x8001"


class FullMemberOfNothing(LearntFactRule):
    """A subnet manager writes the P_Key 0x8000 into a table.

    Partition 0 does not exist; an empty entry is 0x0000. Ports may refuse the whole block, or count the entry as used.

    Look for a partition with number 0 in the subnet manager's configuration.

    The Set, and the size of the table. Silent for entries behind its end, and for those that the port showed with 0x8000 before. An `info`
    if that size is unknown, or if the port answers that it took the block. With a site policy, partitions that it does not allow are
    reported as well.
    """

    code, name, severity = "PKY010", "pkey-set-invalid-value", WARNING
    reference = "opensm ib_pkey_is_invalid"
    when = (MAD.method == SET) & MAD.mgmt_class.isin(SMP_CLASSES) & (PKeyEntry.p_key == FULL)  # sweeps read a thousand times as many
    at = PKeyEntry.p_key
    message = "Set(P_KeyTable) with an entry 0x8000: partition 0 does not exist, an empty entry is 0x0000"
    example = "SubnSet(P_KeyTable) with an entry 0x8000"
    refutable = True

    def __init__(self) -> None:
        self.harmless = KeptDict[Frame, bool](MAX_HARMLESS, "Sets with an entry 0x8000")
        """Whether they change nothing; those that may, to tables of unknown size, are not here."""

    @on_event(ChunkFollowed)
    def note_harmless(self, event: ChunkFollowed, context: Context) -> None:
        smps = context.get(PKeyTables).of(event)
        for smp in smps.each(smps.sets & (smps.bodies.view(">u2") == FULL).any(axis=1)) if len(smps) else ():
            ports = smp.node.ports
            port = ports.get(smp.modifier >> 16) if smp.node.kind == SWITCH else next(iter(ports.values()), None)
            size = port.p_key_capacity(smp.frame) if port is not None else None
            first = (smp.modifier & 0xFFFF) * BLOCK
            news = (smp.body.view(">u2") == FULL) & ((smp.before.view(">u2") != FULL) | (smp.since == 0))
            changes = bool(news[: max((size or AFTER_ALL) - first, 0)].any())
            if size or not changes:
                self.harmless.keep(smp.frame, not changes, smp.frame, smp.time_ns)

    def stands(self, hit: Hit, context: Context) -> bool:
        return bool(hit.message) or not self.harmless.get(hit.frame, False)  # the site's policy has a message of its own

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        """Also INFO where the entry may be behind the end of the table."""
        return INFO if not hit.message and hit.frame not in self.harmless else super().severity_at_end(hit, context)

    def refutes(self, hit: Hit, reply: Reply, context: Context) -> bool:
        """An answer with the same entries."""
        return reply.good and reply.repeats(PKeyTable.p_key_table_block)

    site = forbidden_entries


LID1_VALID, LID2_VALID, PKEY_VALID = 0x8001, 0x4002, 0x2004
"""Bits of DataValid, counted from the lowest, or, as in Omni-Path, from the highest; sources do not agree."""


class SwitchPKeyTrap(Rule):
    """A switch reports a packet whose P_Key it did not let through (trap 259).

    Two ports try to talk across a partition boundary. Their connection will not work, or one of them probes for other partitions.

    Look up both LIDs; then either give them a common partition, or find out who sent the packet.

    One trap is enough. An `info` if its DataValid says that it names no LIDs.
    """

    code, name, severity = "PKY014", "trap259-pkey", WARNING
    reference = "python-rdma trap 259; opensm _ntc_259"
    when = MAD.method == TRAP
    at = TrapSwitchPKey.pkey
    flow = (TrapSwitchPKey.swlidaddr, TrapSwitchPKey.portno, TrapSwitchPKey.lidaddr1, TrapSwitchPKey.lidaddr2, TrapSwitchPKey.pkey)
    message = "switch LID {swlidaddr} port {portno} refused {what}"
    example = "a trap 259"

    def computed(self, seen: Seen, i: int) -> dict[str, Any]:
        trap: TrapSwitchPKey = seen.table.view(TrapSwitchPKey, i)
        p_key, *lids = f"P_Key 0x{trap.pkey:04x}", f"from LID {trap.lidaddr1}", f"to LID {trap.lidaddr2}"
        said = zip((PKEY_VALID, LID1_VALID, LID2_VALID), (p_key, *lids), strict=True)
        return {"what": " ".join(text for bits, text in said if trap.data_valid & bits) or "a P_Key that it does not name"}

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        """An info if the switch names no packet."""
        return None if "LID" in hit.arguments["what"] else INFO


class IpoibLimited(Rule):
    """A limited member of a partition sends to a group of IP over InfiniBand.

    Limited members cannot hear each other, so address resolution works with full members only. Often this is why hosts of a partition
    cannot ping each other.

    Make the hosts full members in the subnet manager's partition configuration, unless the isolation is intended.
    """

    code, name, severity = "PKY019", "ipoib-limited-membership", INFO
    reference = "Shanley, partitions; opensm partition configuration"
    on = GRH
    when = gid_bytes(GRH.dgid, is_ipoib) & ((BTH.p_key & FULL) == 0)
    at = BTH.p_key
    flow = (LRH.slid, BTH.p_key)
    message = "a limited member (P_Key 0x{BTH.p_key:04x}) sends to the group {dgid}: other limited members do not hear it"
    example = "an ARP request over InfiniBand with P_Key 0x7FFF"


class IpoibOtherPartition(Rule):
    """A packet to a group of IP over InfiniBand carries the P_Key of another partition.

    The group's GID names its partition. Members have a queue pair in that partition and drop the packet.

    Check the sender's interface: its P_Key and its broadcast address must agree.

    One packet is enough. A GID with P_Key 0 names no partition and is not judged, nor is the membership bit.
    """

    code, name, severity = "PKY020", "p-key-bth-vs-mgid", ERROR
    reference = "RFC 4391; opensm MGID format"
    when = Where(GRH.dgid, _other_partition) & present(BTH)
    flow = (LRH.slid, GRH.dgid, BTH.p_key)
    message = "P_Key 0x{BTH.p_key:04x} to the group {dgid}, which is of partition 0x{partition:04x}"
    example = "P_Key 0xFFFF to ff12:401b:8001::ffff:ffff"

    def computed(self, seen: Seen, i: int) -> dict[str, Any]:
        return {"partition": int(extract(seen.table.values(GRH.dgid)[i : i + 1], 32, 16)[0]) & BASE}

"""Forwarding tables and SwitchInfo that do not fit the switch."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import numpy as np

from ibdissect.decode.bit_fields import extract
from ibdissect.lint.rule import ERROR, INFO, WARNING, FaultDetails, Hit
from ibdissect.lint.sequence import previous
from ibdissect.rules.shared.attribute_rule import WRITTEN, AttributeRule, Fault, Mask
from ibdissect.subnet import SWITCH
from ibdissect.subnet.attribute_smps import AttributeSmp, AttributeSmps
from ibdissect.subnet.switch_tables import PORTS, UNREACHABLE
from ibdissect.wire.expr import present
from ibdissect.wire.numbers import FIRST_MULTICAST, GET_RESP, LAST_MULTICAST, LAST_UNICAST, LID_COUNT, NODE_INFO
from ibdissect.wire.sm import NodeInfo, SwitchInfo
from ibdissect.wire.sm_tables import LIDPortEntry, LinearForwardingTable, MulticastForwardingTable, RandomForwardingTable

NOBODY = (0, 0xBFFF)
"""MulticastFDBTop that names no entry."""
LINEAR_BLOCK = 64
OF_THE_SWITCH = "SwitchInfo of the switch"


class _PortRange(AttributeRule):
    """One finding per node and port that it does not have. An info where the switch answers and its top is not known."""

    of_size, read = True, (NODE_INFO,)

    def flow_of(self, smp: AttributeSmp) -> Any:
        return smp.slot, self.beyond(smp)[1]

    def judge(self, smp: AttributeSmp) -> FaultDetails | None:
        (lid, number), ports = self.beyond(smp), smp.ports
        since = smp.node.facts_at(smp.frame)[1]
        return {"lid": lid, "number": number, "ports": ports}, [(since, f"NodeInfo: {ports} ports")]

    def beyond(self, smp: AttributeSmp) -> tuple[int, int]:
        """The first LID of a table that leaves by a port which the switch does not have, and that port."""
        raise NotImplementedError

    @staticmethod
    def wrong(smps: AttributeSmps) -> Any:
        """Which entries of the tables name such a port, one row for each SMP; not 0."""
        raise NotImplementedError

    def _entries(self, smps: AttributeSmps) -> Any:
        return smps.cached("entries beyond the ports", partial(self.wrong, smps))

    def suspicious(self, smps: AttributeSmps) -> Mask:
        return (smps.answers | smps.sets) & (smps.kind == SWITCH) & (smps.ports > 0) & (self._entries(smps) != 0).any(axis=1)

    def first(self, smp: AttributeSmp) -> int:
        """The first such entry."""
        return int(np.flatnonzero(self._entries(smp.columns)[smp.i])[0])

    def made(self, smp: AttributeSmp, arguments: dict[str, Any], proof: Any) -> Hit:
        hit = super().made(smp, arguments, proof)
        hit.severity = INFO if smp.method == GET_RESP and smp.switch[0] is None else None  # nobody wrote what is above the top
        return hit


class LinearPortRange(_PortRange):
    """A linear forwarding table sends a LID to a port that the switch does not have.

    Packets to that LID are dropped at this switch.

    Look at the subnet manager that wrote the block, or at the switch firmware if it answers with another block.

    The SMP, and NodeInfo of the switch. Not judged: the entry of LID 0, which nobody has, and entries above LinearFDBTop.
    """

    code, name, severity = "SEM027", "lft-port-range", ERROR
    reference = "IBA 14.2.5.10; python-rdma; opensm OSM_NO_PATH 255"
    message = "{method}(LinearForwardingTable) of {port}: LID {lid} leaves by port {number}, the switch has {ports}"
    example = "NodeInfo of a switch with 8 ports, then SubnSet(LinearForwardingTable) with an entry 99"
    at = LinearForwardingTable.port

    @staticmethod
    def wrong(smps: AttributeSmps) -> Any:
        found = (smps.bodies > smps.ports[:, None]) & (smps.bodies != UNREACHABLE)
        found[smps.modifier == 0, 0] = False  # LID 0 is nobody's
        return found

    def judge(self, smp: AttributeSmp) -> FaultDetails | None:
        """Entries above LinearFDBTop, or behind the end of the table, lead nowhere."""
        facts, top = smp.switch[0], smp.node.linear_top.at(smp.frame)[0]
        last = min(top if top is not None else LAST_UNICAST, (facts.linear_fdb_cap or LID_COUNT) - 1 if facts is not None else LAST_UNICAST)
        return super().judge(smp) if self.beyond(smp)[0] <= last else None

    def beyond(self, smp: AttributeSmp) -> tuple[int, int]:
        entry = self.first(smp)
        return smp.modifier * LINEAR_BLOCK + entry, int(smp.body[entry])


class RandomPortRange(_PortRange):
    """A random forwarding table sends a LID to a port that the switch does not have.

    Packets to that LID are dropped at this switch.

    Look at the subnet manager that wrote the block, or at the switch firmware if it answers with another block.

    The SMP, and NodeInfo of the switch. Entries that are not valid are not judged.
    """

    code, name, severity = "SEM072", "rft-port-range", ERROR
    reference = "IBA 14.2.5.11"
    message = "{method}(RandomForwardingTable) of {port}: LID {lid} leaves by port {number}, the switch has {ports}"
    example = "NodeInfo of a switch with 8 ports, then SubnSet(RandomForwardingTable) with a valid entry of port 99"
    at = RandomForwardingTable.lid_port_block

    @staticmethod
    def wrong(smps: AttributeSmps) -> Any:
        entries = smps.bodies.reshape(-1, LIDPortEntry.size)
        columns = (extract(entries, field.bit, field.bits) for field in (LIDPortEntry.valid, LIDPortEntry.port))
        valid, number = (column.reshape(len(smps), -1) for column in columns)
        return (valid != 0) & (number > smps.ports[:, None]) & (number != UNREACHABLE)

    def beyond(self, smp: AttributeSmp) -> tuple[int, int]:
        view = LIDPortEntry(smp.body.tobytes(), self.first(smp) * LIDPortEntry.size)
        return view.lid, view.port


class MulticastPortRange(_PortRange):
    """A multicast forwarding table sends a group to a port that the switch does not have.

    The bit is ignored or refused; the member behind the intended port gets nothing.

    Look at the subnet manager: the position in the modifier may be off by one (16 ports each).
    """

    code, name, severity = "SEM029", "mft-port-mask-range", WARNING
    reference = "IBA 14.2.5.12"
    message = "{method}(MulticastForwardingTable) of {port}: LID 0x{lid:04x} leaves by port {number}, the switch has {ports}"
    example = "NodeInfo of a switch with 8 ports, then SubnSet(MulticastForwardingTable) with bit 15 of a mask"
    at = MulticastForwardingTable.port_mask

    @staticmethod
    def wrong(smps: AttributeSmps) -> Any:
        masks = smps.bodies.reshape(-1, 32, 2).astype(np.int64) @ np.array([256, 1])
        room = np.clip(smps.ports + 1 - (smps.modifier >> 28) * PORTS, 0, PORTS)
        return masks >> room[:, None]

    def judge(self, smp: AttributeSmp) -> FaultDetails | None:
        """Masks above MulticastFDBTop, or behind the end of the table, lead nowhere."""
        facts, top = smp.switch[0], smp.node.multicast_top.at(smp.frame)[0] or 0
        last = FIRST_MULTICAST + facts.multicast_fdb_cap - 1 if facts is not None else LAST_MULTICAST
        last = min(last, top) if top not in (0, None) else last
        return super().judge(smp) if self.beyond(smp)[0] <= last else None

    def beyond(self, smp: AttributeSmp) -> tuple[int, int]:
        entry, position = self.first(smp), smp.modifier >> 28
        bits = int(self._entries(smp.columns)[smp.i, entry])
        room = max(0, min(PORTS, smp.ports + 1 - position * PORTS))
        number = position * PORTS + room + (bits & -bits).bit_length() - 1
        return FIRST_MULTICAST + (smp.modifier & 0x1FF) * 32 + entry, number


class MulticastTop(AttributeRule):
    """A Set writes a MulticastFDBTop that is not in the switch's table.

    Groups above the top are treated as not in the table; a top beyond the table means nothing.

    Let the subnet manager read MulticastFDBCap first.

    The Set, and the SwitchInfo that the switch answered before. Silent where the Set repeats the top that the switch showed.
    """

    code, name, severity = "SEM049", "mcastfdbtop-range", WARNING
    reference = "IBA 14.2.5.4; Omni-Path manual MulticastFDBTop"
    message = "Set(SwitchInfo) of {port} with MulticastFDBTop 0x{now:04x}, the table has {cap:entry}"
    example = "GetResp(SwitchInfo) with MulticastFDBCap 1024, then SubnSet with MulticastFDBTop 0xd000"
    at = SwitchInfo.multicast_fdb_top
    why = OF_THE_SWITCH
    cap = previous(SwitchInfo.multicast_fdb_cap)
    when = WRITTEN & ~at.isin(NOBODY) & present(cap) & (at != previous(at)) & ((at < FIRST_MULTICAST) | (at >= cap + FIRST_MULTICAST))
    says: ClassVar = {"cap": cap}


class LinearTop(AttributeRule):
    """A Set writes a LinearFDBTop beyond the switch's table.

    LIDs up to the top are looked up in the table, but it has no entries for the highest of them.

    Let the subnet manager read LinearFDBCap first, or assign smaller LIDs.

    The Set, and the SwitchInfo that the switch answered before. Silent where the Set repeats the top that the switch showed.
    """

    code, name, severity = "SEM050", "linearfdbtop-range", ERROR
    reference = "IBA 14.2.5.4; Omni-Path manual"
    message = "Set(SwitchInfo) of {port} with LinearFDBTop {now}, the table has {cap:entry}"
    example = "GetResp(SwitchInfo) with LinearFDBCap 1024, then SubnSet with LinearFDBTop 1024"
    at = SwitchInfo.linear_fdb_top
    why = OF_THE_SWITCH
    cap = previous(SwitchInfo.linear_fdb_cap)
    when = WRITTEN & (cap > 0) & (at != previous(at)) & (at >= cap)
    says: ClassVar = {"cap": cap}


class DefaultPortRange(AttributeRule):
    """A Set names a default port that the switch does not have.

    Packets that no table knows leave by the default port; here they are lost.

    Use a port of the switch, or 255 for none.

    The Set, and NodeInfo and SwitchInfo of the switch. DefaultPort belongs to the random forwarding table; other switches do not use it.
    Silent where the Set repeats what the switch showed.
    """

    code, name, severity = "SEM053", "defaultport-range", WARNING
    reference = "IBA 14.2.5.4"
    message = "Set(SwitchInfo) of {port} with {what}, the switch has {ports:port}"
    example = "NodeInfo of a switch with 8 ports, then SubnSet(SwitchInfo) with DefaultPort 99"
    at = SwitchInfo.default_port
    why = OF_THE_SWITCH
    random, held = previous(SwitchInfo.random_fdb_cap), previous(NodeInfo.num_ports)
    multicast = SwitchInfo.default_multicast_primary_port, SwitchInfo.default_multicast_not_primary_port
    given, changed = present(random), [one != previous(one) for one in multicast]
    when = WRITTEN & (held > 0)
    faults = (
        Fault((random > 0) & (at > held) & (at != UNREACHABLE) & (at != previous(at)), "DefaultPort {now}"),
        Fault(given & changed[0] & (multicast[0] > held) & (multicast[0] != UNREACHABLE), "DefaultMulticastPrimaryPort {primary}"),
        Fault(given & changed[1] & (multicast[1] > held) & (multicast[1] != UNREACHABLE), "DefaultMulticastNotPrimaryPort {other}"),
    )
    says: ClassVar = {"ports": held, "primary": multicast[0], "other": multicast[1]}

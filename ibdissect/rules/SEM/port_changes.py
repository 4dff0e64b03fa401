"""PortInfo that contradicts its port or node, and port states that a manager requests in the wrong order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from ibdissect.bounded import Dropped, KeptDict
from ibdissect.decode import ChunkTable, Int
from ibdissect.decode.capture_places import Scopes
from ibdissect.decode.conditions import occurrences_where
from ibdissect.decode.history import History
from ibdissect.decode.identity import Frame, PortId, PortNumber, SenderNumber
from ibdissect.lint.rule import ERROR, INFO, WARNING, Context, FaultDetails, Hit, each, fault, on_chunk, on_event
from ibdissect.lint.sequence import previous
from ibdissect.rules.shared.answered_packets import RepliesToFindings
from ibdissect.rules.shared.attribute_rule import ANSWERED, OF_SWITCH, WRITTEN, AttributeRule, Fault, Mask
from ibdissect.rules.shared.mad_conditions import READ
from ibdissect.rules.shared.not_seen import PATIENCE_NS
from ibdissect.subnet.attribute_smps import AttributeSmp, AttributeSmps
from ibdissect.subnet.earlier_answers import NO_KEY
from ibdissect.subnet.events import TrapSeen
from ibdissect.subnet.nodes import ACTIVE, ARMED, DOWN, INIT
from ibdissect.traffic.capture_loss import CaptureLoss
from ibdissect.wire.expr import Or
from ibdissect.wire.headers import LRH
from ibdissect.wire.mad import MAD
from ibdissect.wire.notice import Notice
from ibdissect.wire.numbers import PORT_INFO, STATUS
from ibdissect.wire.sm import NodeInfo, SwitchInfo
from ibdissect.wire.sm_port import PortInfo
from ibdissect.wire.spec import Field

NO_CHANGE_WIDTHS = (0, 255)
"""LinkWidthEnabled values that name no width: no change, and all supported."""
TWO_SECONDS = 19
"""4.096 us * 2^19: SubnetTimeOut."""
LOCAL_CHANGE = 144
MAX_PORTS = 16384
COMPARED = 0xFFFFFFFF ^ 1 << 1
"""CapabilityMask without IsSM."""


class LmcOnSwitchPort(AttributeRule):
    """An external port of a switch, or a base port 0, has an LMC.

    The LIDs of a switch belong to its port 0, and only an enhanced port 0 may have several. Whoever wrote an LMC elsewhere may rely on LIDs
    that do not exist.

    Look at the subnet manager's `lmc` and `lmc_esp0` options.

    For port 0 the SMP and SwitchInfo; for an external port a Set with an LMC where the port itself showed 0: managers copy what they read.
    """

    code, name, severity = "SEM001", "portinfo-lmc-switch", ERROR
    reference = "IBA 14.2.5.6"
    message = "{method}(PortInfo) of {port}: LMC {now}, which only an adapter, a router or an enhanced port 0 may have"
    example = "SubnSet(PortInfo) of port 0 of a switch without EnhancedPortZero, LMC 2"
    at = PortInfo.lmc
    when = (at > 0) & OF_SWITCH
    zero = (MAD.attribute_modifier & 0xFF) == 0
    faults = (
        Fault(zero & (WRITTEN | ANSWERED) & (previous(SwitchInfo.enhanced_port_zero) == 0), why="SwitchInfo: EnhancedPortZero 0"),
        Fault(~zero & WRITTEN & (previous(at) == 0), why="LMC 0"),
    )


class WidthNotSupported(AttributeRule):
    """A Set enables link widths that the port does not have.

    The port ignores the Set or answers with an error; the link may not come up when it is trained again.

    Enable widths from LinkWidthSupported, or 255 for all of them.

    The Set, and what the port itself showed before it. Silent for port 0 of a switch, which has no link, and where the Set repeats what
    the port had enabled; an `info` where the capture may have missed a change in between, or the answer shows that the port has them, or
    no answer is seen and the port showed so much since that what it showed next is forgotten.
    """

    code, name, severity = "SEM008", "linkwidth-enabled-not-supported", ERROR
    reference = "IBA 14.2.5.6; kernel qib"
    message = "Set(PortInfo) of {port} enables widths 0x{now:02x}, it supports 0x{supported:02x}"
    example = "GetResp(PortInfo) with LinkWidthSupported 3, then SubnSet(PortInfo) with LinkWidthEnabled 8"
    at = PortInfo.link_width_enabled
    why, among = "LinkWidthSupported", PortInfo.link_width_supported
    supported = previous(PortInfo.link_width_supported)
    when = WRITTEN & ~at.isin(NO_CHANGE_WIDTHS) & (supported > 0) & ((at & supported) != at) & (at != previous(at))
    says: ClassVar = {"supported": supported}


class ExtSpeedsNotOffered(AttributeRule):
    """A Set of PortInfo enables extended link speeds that are reserved, or that the port does not have.

    Bits 0 to 3 stand for 14 to 106 Gb/s, 30 disables extended speeds, 31 enables all that are supported. What a port does with 16 to 29, or
    with a speed that it lacks, is undefined.

    Correct the subnet manager or the tool that sent the Set.

    For 16 to 29 the Set alone. For 1 to 15 the LinkSpeedExtSupported that the port itself showed before; silent where it showed none, and
    where the Set repeats what the port had enabled. An `info` if the answer shows that the port has it, or no answer is seen and the port
    showed so much since that what it showed next is forgotten.
    """

    code, name, severity = "SEM010", "linkspeedext-enabled-wrong", WARNING
    reference = "IBA 14.2.5.6; opensm ib_types; libibmad"
    message = "Set(PortInfo) of {port}: LinkSpeedExtEnabled {now}, {what}"
    example = "SubnSet(PortInfo) with LinkSpeedExtEnabled 16"
    at = PortInfo.link_speed_ext_enabled
    why, among = "LinkSpeedExtSupported", PortInfo.link_speed_ext_supported
    supported = previous(PortInfo.link_speed_ext_supported)
    when = WRITTEN
    faults = (
        Fault(at.isin(range(16, 30)), "which is reserved"),
        Fault((at < 16) & ((at & supported) != at) & (at != previous(at)), "it supports {supported}"),
    )
    says: ClassVar = {"supported": supported}


class ExtSpeeds2NotOffered(AttributeRule):
    """A Set of PortInfo enables an extended link speed above 106 Gb/s (XDR) that the port does not have.

    Bit 0 stands for 212.5 Gb/s, 7 enables all that are supported. What a port does with a speed that it lacks is undefined; the link may
    train at a lower speed or not at all.

    Correct the subnet manager or the tool that sent the Set.

    The LinkSpeedExtSupported2 that the port itself showed before; silent where it showed none, where the Set repeats what the port had
    enabled, and for 4 to 7: public sources define only 7 (all). An `info` if the answer shows that the port has it, or no answer is seen
    and the port showed so much since that what it showed next is forgotten.
    """

    code, name, severity = "SEM064", "linkspeedext2-enabled-not-supported", WARNING
    reference = "IBA 14.2.5.6; libibmad; ib_types.h as trex-core carries it"
    message = "Set(PortInfo) of {port}: LinkSpeedExtEnabled2 {now}, it supports {supported}"
    example = "GetResp(PortInfo) with LinkSpeedExtSupported2 0, then SubnSet(PortInfo) with LinkSpeedExtEnabled2 1"
    at = PortInfo.link_speed_ext_enabled2
    why, among = "LinkSpeedExtSupported2", PortInfo.link_speed_ext_supported2
    supported = previous(PortInfo.link_speed_ext_supported2)
    when = WRITTEN & (at < 4) & ((at & supported) != at) & (at != previous(at))
    says: ClassVar = {"supported": supported}


class SubnetTimeoutHigh(AttributeRule):
    """A Set of PortInfo raises the port's SubnetTimeOut above two seconds.

    All timeouts include it: traps and requests are repeated after seconds or minutes, and a lost packet stalls whatever waits for it. The
    default of OpenSM is 18 (1 s).

    Lower the manager's subnet timeout, unless the fabric really is that slow.

    The value that the port itself showed before. Silent where it showed none, where the Set repeats it, and at external ports of a switch.
    """

    code, name, severity = "SEM017", "subnettimeout-high", WARNING
    reference = "IBA 14.2.5.6; opensm default 18"
    message = "Set(PortInfo) of {port}: SubnetTimeOut {now} (4.096 us * 2^{now}), it had {before}"
    example = "GetResp(PortInfo) with SubnetTimeOut 18, then SubnSet(PortInfo) with SubnetTimeOut 31"
    at = PortInfo.subnet_time_out
    why = "showed its SubnetTimeOut"
    when = WRITTEN & (at > TWO_SECONDS) & (at > previous(at))


class CounterWritten(AttributeRule):
    """A Set writes a violation counter with a value that is neither 0 nor what the port last showed.

    Writing 0 clears the counter; anything else falsifies it, and the alarms that rely on it.

    Nothing if the sender copies an older PortInfo (as OpenSM does); otherwise correct the tool.

    The Set, and the PortInfo that the port answered before; silent if it showed the same number at any time before, which the sender
    may have copied. An `info` where the capture may have missed a packet in between, for
    instance if the port was asked again and the answer is missing, and where it shows no PortInfo that the sender of the Set read: that was
    before the capture.
    """

    code, name, severity = "SEM014", "violation-counter-nonzero-set", WARNING
    reference = "IBA 14.2.5.6; opensm copies the whole PortInfo"
    message = "Set(PortInfo) of {port} writes {counter} {now}, the port showed {before}"
    example = "GetResp(PortInfo) with P_KeyViolations 3, then SubnSet(PortInfo) with P_KeyViolations 7"
    at = PortInfo.m_key_violations
    why = "showed its counters"
    counters = (PortInfo.m_key_violations, PortInfo.p_key_violations, PortInfo.q_key_violations)
    read = (PORT_INFO,)
    when = WRITTEN & Or(tuple(one > previous(one) for one in counters))

    def __init__(self) -> None:
        self.readers = KeptDict[tuple[PortNumber, SenderNumber], None](MAX_PORTS // 2, "ports whose PortInfo somebody read")
        """Ports, and who got their answers."""

    def suspicious(self, smps: AttributeSmps) -> Mask:
        came, times = np.flatnonzero(smps.answers), smps.event.table.chunk.time_ns
        readers = [*zip(smps.key[came].tolist(), _askers(smps, came, LRH.dlid).tolist(), strict=True)]
        fresh = set(readers).difference(self.readers)
        for i, reader in zip(came.tolist(), readers, strict=True) if fresh else ():
            if reader not in self.readers:
                self.readers.keep(reader, None, int(smps.frames[i]), int(times[smps.rows[i]]))
        return super().suspicious(smps)

    def made(self, smp: AttributeSmp, arguments: dict[str, Any], proof: Any) -> Hit:
        hit = super().made(smp, arguments, proof)
        asker = int(_askers(smp.columns, np.array([smp.i]), LRH.slid)[0])
        read = (PortNumber(smp.key), SenderNumber(asker)) in self.readers
        hit.severity = None if read else INFO
        return hit

    def judge(self, smp: AttributeSmp) -> FaultDetails | None:
        for one in self.counters:
            now, before = smp.now(one), smp.was(one)
            if now > before and not _showed(smp, one, now):  # a lower number may come from an earlier reading
                return {"counter": one.label, "now": now, "before": before}, self.earlier(smp)
        return None


def _askers(smps: AttributeSmps, index: Int, lid: Field[int]) -> Int:
    """Who sent or gets some SMPs, as `SenderNumber`; `lid`: where the LID of it is."""
    found: Int = np.where(smps.directed[index], smps.sender[index], ~smps.event.table.values_at(lid, smps.rows[index]).astype(np.int64))
    return found


def _showed(smp: AttributeSmp, of: Field[int], value: int) -> bool:
    """Whether the port showed a value of a component at any time before."""
    port = smp.columns.event.subnet.by_key(smp.key)
    bodies = [body for body, frame in port.infos.values() if frame < smp.frame and body is not None] if port is not None else []
    return any(of.__get__(PortInfo(body), PortInfo) == value for body in bodies)


class LocalPortRange(AttributeRule):
    """A port shows a LocalPortNum that its node does not have.

    LocalPortNum is the port through which the request came in; OpenSM discards such a PortInfo, and the port stays unmanaged.

    Update the firmware of the node.

    A NodeInfo (SMP or record) whose LocalPortNum is above its own NumPorts, or a PortInfo compared with the NumPorts of its node.
    """

    code, name, severity = "SEM038", "localportnum-range", WARNING
    reference = "IBA 14.2.5.6; opensm osm_port_info_rcv"
    message = "{port} shows LocalPortNum {now}; its node has {ports:port}"
    example = "NodeInfo with NumPorts 1, then GetResp(PortInfo) with LocalPortNum 40"
    at = PortInfo.local_port_num
    why = "NodeInfo"
    held = previous(NodeInfo.num_ports)
    when = ANSWERED & (held > 0) & (at > held)
    says: ClassVar = {"ports": held}

    @on_chunk
    def nodes(self, table: ChunkTable, _context: Context) -> Iterator[Hit]:
        """A NodeInfo, of an SMP or a record, holds both numbers itself."""
        if not len(table.occurrences(NodeInfo)):
            return
        number, ports = table.values(NodeInfo.local_port_num), table.values(NodeInfo.num_ports)
        wrong = (ports > 0) & (number > ports)
        for _, seen, node in each(table, NodeInfo, wrong & occurrences_where(READ, table, NodeInfo)) if wrong.any() else ():
            arguments = {"port": f"node 0x{node.node_guid:016x}", "now": node.local_port_num, "ports": node.num_ports}
            yield fault(seen, arguments, NodeInfo.local_port_num, of=node, key=node.node_guid)


class CapabilityChanged(AttributeRule):
    """A port's CapabilityMask changed without a trap 144.

    The subnet manager reads once what a port can do, and does not notice a change that nobody reports to it.

    Look for a firmware change or a tool that configures the adapter; restart the sweep of the subnet manager.

    Two answers of the port, and no trap 144 of it in between. The bit IsSM is not compared.
    """

    code, name, severity = "SEM056", "capmask-changed", INFO
    reference = "IBA 14.2.5.6"
    message = "{port} shows CapabilityMask 0x{now:08x}, it showed 0x{before:08x} before, and sent no trap 144"
    example = "two GetResp(PortInfo) of a port with different CapabilityMask"
    at = PortInfo.capability_mask
    why = "showed another mask"
    when = ANSWERED & ((at & COMPARED) != (previous(at) & COMPARED))

    def __init__(self) -> None:
        self.announced = KeptDict[PortId, History[int]](MAX_PORTS, "ports that announced a change")
        """Frames of traps 144 by port."""

    @on_event(TrapSeen)
    def trap(self, event: TrapSeen, context: Context) -> None:
        if event.port is None or Notice(event.notice).trap_number != LOCAL_CHANGE:
            return
        track = self.announced.get_or_make(event.port.id, History, event.frame, event.time_ns)
        if track is not None:
            track.learn(event.frame, event.frame)

    def judge(self, smp: AttributeSmp) -> FaultDetails | None:
        track = self.announced.get(PortId.of(smp.key))
        if track is not None and track.at(smp.frame)[1] > smp.since:
            return None
        return super().judge(smp)


MAX_SET_PORTS, MAX_FALLEN = 32768, 1024
ANY = PortNumber(NO_KEY)


class ActiveWithoutArmed(AttributeRule):
    """A manager sets a port Active that was never armed.

    A link goes from Initialize to Armed to Active. A port in Initialize refuses to become Active, and the link carries no data.

    Set the port, and the one it faces, to Armed first.

    The port showed Initialize, and the answer to the Set is an error: a port that accepts it was armed. A port that does not answer counts
    as refusing where the capture goes on for a second, shows that it misses nothing (in ERF by its traffic, elsewhere no packet is missing
    within ten seconds) and does not change the order of Sets. Ports that were armed are judged again after they told the sender of the Set
    that they went down, or are in Initialize after a later state. No port is judged after a Set to Armed of a port that is not known yet.
    Other changes of state are not judged either, since a port may go down and come up unseen.
    """

    code, name, severity = "SEM012", "portstate-active-unarmed", ERROR
    reference = "IBA 14.2.5.6 (PortState); kernel qib_set_linkstate (LINKACTIVE needs LINKARMED)"
    message = "Set(PortInfo) of {port} to Active; it is in Initialize and nobody has set it to Armed since"
    example = "GetResp(PortInfo) with PortState Initialize, then a Set to Active that is refused"
    needs = (CaptureLoss,)
    at = PortInfo.port_state
    why = "PortState Initialize"

    def __init__(self) -> None:
        self.dropped = Dropped("ports that are set to a state")
        self.armed = KeptDict[PortNumber, Frame](MAX_SET_PORTS, self.dropped)
        """Ports that somebody set to Armed, and the last frame. An answer may still show the previous state, so one Set is enough. A port
        that was not known then, `ANY`, may be any.
        """
        self.fallen = KeptDict[PortNumber, Frame](MAX_FALLEN, self.dropped)
        """Ports that were armed and showed that they went down since, and the frame."""
        self.aware = KeptDict[tuple[PortNumber, SenderNumber], Frame](MAX_FALLEN, self.dropped)
        """Who was told that, and the last frame."""

    def stands(self, hit: Hit, context: Context) -> bool:
        reply, loss = context.get(RepliesToFindings).reply(hit), context.get(CaptureLoss)
        if reply is not None:
            return bool(reply.status & STATUS)
        waited = context.get(Scopes).goes_on(hit.frame, hit.time_ns) >= PATIENCE_NS
        return waited and loss.proves_silence(hit.time_ns) and not loss.unsettled(hit.frame, hit.time_ns)

    def suspicious(self, smps: AttributeSmps) -> Mask:
        """Walks Sets and changes of state in frame order, as a port may be armed, fall back and be armed again."""
        state, was = smps.now(PortInfo.port_state), smps.was(PortInfo.port_state)
        arms = smps.sets & (state == ARMED)
        falls = smps.answers & (smps.since > 0) & (state != was) & ((state == DOWN) | ((state == INIT) & (was >= ARMED)))
        wanted = smps.sets & (state == ACTIVE) & (smps.since > 0) & (was == INIT)
        never = np.zeros(len(smps), np.bool_)
        tells = smps.answers & (state <= INIT) & np.isin(smps.key, [*self.fallen, *smps.key[falls].tolist()])
        some = np.flatnonzero(arms | falls | tells | wanted)
        asker = np.where(smps.answers[some], _askers(smps, some, LRH.dlid), _askers(smps, some, LRH.slid))
        times = smps.event.table.chunk.time_ns[smps.rows[some]]
        columns = some, smps.key[some], asker, smps.frames[some], times, smps.since[some], arms[some], falls[some], wanted[some]
        for i, port, who, frame, time_ns, since, arm, fall, want in zip(*(column.tolist() for column in columns), strict=True):
            if arm:
                self.armed.keep(port, frame, frame, time_ns)
                continue
            armed = self.armed.get(port, 0)
            if fall and 0 < armed < since:  # an answer to the Set may still show the state before it
                self.fallen.keep(port, frame, frame, time_ns)
            if want:
                aware = self.aware.get((port, who), 0)
                never[i] = not (armed > aware or ANY in self.armed or self.dropped.count)
            elif self.fallen.get(port, 0) > armed:
                self.aware.keep((port, who), frame, frame, time_ns)
        return never

"""Traps that come too often or go to the wrong manager, and wrong TrapRepresses."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from ibdissect.bounded import BoundedDict, Dropped
from ibdissect.decode.identity import Code, Frame, LidId, NodeId, PortId, TrapId
from ibdissect.lint.rule import INFO, WARNING, Context, FaultDetails, Hit, Seen, fault, on_end, on_event
from ibdissect.rules.shared.attribute_rule import AttributeRule
from ibdissect.rules.shared.not_seen import LearntFactRule, warm
from ibdissect.rules.shared.trap_rule import MAX_TRAPS, TrapRule, repetition_ns
from ibdissect.subnet import ChunkFollowed, FabricFollower, Node, Port
from ibdissect.subnet.attribute_smps import AttributeSmp, AttributeSmps
from ibdissect.subnet.earlier_answers import others
from ibdissect.subnet.events import RepressSeen, TrapSeen
from ibdissect.subnet.visible_managers import AGES_NS
from ibdissect.wire.convert import timeout_ns
from ibdissect.wire.headers import LRH
from ibdissect.wire.mad import MAD
from ibdissect.wire.notice import Notice
from ibdissect.wire.numbers import GET, GET_RESP, LID_COUNT, MASTER, PERMISSIVE, PORT_INFO
from ibdissect.wire.sm import SMInfo
from ibdissect.wire.sm_port import PortInfo


class TrapRepeated(TrapRule):
    """A port repeats a trap earlier than its SubnetTimeOut allows.

    A trap is repeated until it is answered, but no faster than the subnet manager can be expected to answer.

    Nothing, unless the traps load the subnet manager; then update the firmware of the port.

    The same notice twice from one LID with the same transaction id, no TrapRepress in between, and the port's SubnetTimeOut.
    """

    code, name, severity = "SMP020", "trap-repeated-early", INFO
    is_note = True
    reference = "IBA 13.4.9"
    message = "{port} repeats trap {trap} after {after:.0f} us; SubnetTimeOut is {allowed:.0f} us"
    example = "GetResp(PortInfo) with SubnetTimeOut 18, then the same SubnTrap twice within a millisecond"

    def __init__(self) -> None:
        self.sent = BoundedDict[TrapId, tuple[int, Frame]](MAX_TRAPS, "traps")
        """Time and frame of the latest repetition."""

    @on_event(RepressSeen)
    def repressed(self, event: RepressSeen, context: Context) -> None:
        self.sent.clear()

    def judge(self, event: TrapSeen, context: Context) -> FaultDetails | None:
        info = event.port.info if event.port is not None else None
        if info is None or not event.transaction:  # without a transaction id a second event looks like a repetition
            return None
        key = TrapId(event.origin, event.transaction, event.notice)
        before = self.sent.get(key)
        self.sent.put(key, (event.time_ns, event.frame), event.frame, event.time_ns)
        allowed = timeout_ns(info.subnet_time_out)
        if before is None or not 0 <= event.time_ns - before[0] < allowed:
            return None
        return {"after": (event.time_ns - before[0]) / 1000, "allowed": allowed / 1000}, [(before[1], "sent before")]


class RepressUnknown(LearntFactRule):
    """A TrapRepress does not carry the transaction id of its trap, and the port repeats the trap.

    The port does not recognise the answer, so it goes on repeating the trap and loads the subnet manager.

    Let the subnet manager copy the transaction id of the trap.

    The trap, a TrapRepress with another transaction id, and then the same trap again. Silent if a matching TrapRepress comes as well, or if
    the port sent no such trap before: the answer may be to one that the capture missed, or recorded later. An `info` where the capture
    misses packets in between, and where it began less than ten seconds, or two of the port's SubnetTimeOuts, before the TrapRepress: the
    trap that it answers may be older.
    """

    code, name, severity = "SMP019", "trap-repress-other-tid", WARNING
    reference = "IBA 13.4.9"
    message = "TrapRepress to {port} for trap {trap} with transaction id 0x{tid:016x}, its trap had 0x{sent:016x}"
    example = "SubnTrap with transaction id 7, then SubnTrapRepress to that port with transaction id 8, then the trap again"

    def __init__(self) -> None:
        self.sent = BoundedDict[tuple[PortId, Code], BoundedDict[Code, Frame]](MAX_TRAPS, "traps")
        """Frames by transaction id, by port and trap number."""
        self.wrong: dict[tuple[PortId, Code], tuple[int, Hit]] = {}
        """Possible findings about TrapRepresses that match no trap, with the transaction id of the latest trap; one per key of `sent`."""
        self.found: dict[tuple[PortId, Code], Hit] = {}
        """Those of them after which the trap was repeated."""

    @on_event(TrapSeen)
    def trap(self, event: TrapSeen, context: Context) -> None:
        if event.port is not None:
            key = event.port.id, Notice(event.notice).trap_number
            known = self.sent.get(key)
            if known is None:
                known = BoundedDict(16)
                gone = self.sent.put(key, known, event.frame, event.time_ns)
                if gone is not None:
                    self.wrong.pop(gone[0], None)
                    self.found.pop(gone[0], None)
            known.put(event.transaction, event.frame)
            tid, hit = self.wrong.get(key, (0, None))
            if hit is not None and hit.arguments["tid"] & PRIVATE == event.transaction & PRIVATE:
                del self.wrong[key]  # the trap that it answers was recorded behind it
                self.found.pop(key, None)
            elif hit is not None and tid == event.transaction:
                self.found[key] = hit

    @on_event(RepressSeen)
    def repress(self, event: RepressSeen, context: Context) -> None:
        if event.port is None:
            return
        trap = Notice(event.notice).trap_number
        key = event.port.id, trap
        known = self.sent.get(key)
        if not known or len(known) >= 16:
            return
        fits = [sent for sent in known if sent & PRIVATE == event.transaction & PRIVATE]
        if fits:
            if key in self.wrong and self.wrong[key][0] in fits:
                del self.wrong[key]
                self.found.pop(key, None)
            return
        sent, frame = next(reversed(known.items()))
        early = not warm(event, context, repetition_ns(event.port))
        if key not in self.wrong or (self.wrong[key][1].severity is INFO and not early):
            arguments = {"port": str(event.port), "trap": trap, "tid": event.transaction, "sent": sent}
            self.wrong[key] = sent, fault(event, arguments, proof=[(frame, "the trap")], key=key[0], severity=INFO if early else None)

    @on_end
    def end(self, context: Context) -> Iterator[Hit]:
        yield from self.found.values()


PRIVATE = 0xFFFFFFFF
"""The part of a transaction id that is compared: the high half is private to the agent (Linux ib_mad)."""
MAX_FRAMES = 16
"""TrapRepress of one transaction remembered."""


class RepressAnswered(AttributeRule):
    """A port answers a TrapRepress.

    TrapRepress ends an exchange; nobody waits for an answer to it, and another requester may take it for its own.

    Update the firmware of the port.

    The TrapRepress, and later a response of that port with the same transaction id. A Get or Set with that id that was not answered before
    accounts for it; an `info` where the capture may have missed one.
    """

    code, name, severity = "SMP018", "trap-repress-answered", WARNING
    reference = "IBA 13.4.9; kernel qib o14-3.a4"
    message = "{port} answers the TrapRepress with transaction id 0x{tid:016x}"
    example = "SubnTrapRepress with transaction id 7, then GetResp(Notice) of that port with transaction id 7"
    source = others(0x02)
    holds_ns = AGES_NS

    def __init__(self) -> None:
        dropped = Dropped("repressed traps")
        self.repressed = BoundedDict[tuple[PortId, Code, LidId], tuple[Frame, ...]](MAX_TRAPS, dropped)
        """Frames of the TrapRepress by port, transaction id, and LID of its sender: ids are each requester's own."""
        self.asked = BoundedDict[tuple[PortId, Code, LidId], Frame](MAX_TRAPS, dropped)
        """Gets and Sets that were not answered yet."""

    @on_event(RepressSeen)
    def repress(self, event: RepressSeen, context: Context) -> None:
        if event.port is not None:
            key = event.port.id, event.transaction, LidId(event.slid)
            frames = (*self.repressed.get(key, ())[-MAX_FRAMES:], event.frame)
            self.repressed.put(key, frames, event.frame, event.time_ns)

    def suspicious(self, smps: AttributeSmps) -> Any:
        return (smps.answers | smps.sets | (smps.method == GET)) & (smps.slot >= 0)

    def judge(self, smp: AttributeSmp) -> FaultDetails | None:
        tid, of_asker = smp.transaction, LRH.dlid if smp.answers else LRH.slid
        asker = Seen(smp.columns.event.table, smp.rows).value(of_asker)
        key = PortId(NodeId(smp.slot), smp.entered), tid, LidId(asker)
        if smp.answers and self.asked.pop(key, None) is not None:
            return None
        if not smp.answers:
            self.asked.put(key, smp.frame, smp.frame, smp.time_ns)
        frames = self.repressed.get(key, ())
        later = tuple(frame for frame in frames if frame > smp.frame)
        if len(later) == len(frames):
            return None
        self.repressed[key] = later  # a request with the same transaction id accounts for the answer
        latest = max(frame for frame in frames if frame <= smp.frame)
        return ({"tid": tid}, [(latest, "the TrapRepress")]) if smp.answers else None


class MasterSmLid(TrapRule):
    """A trap goes to a LID other than the MasterSMLID of its port, or with another service level than MasterSMSL.

    The trap does not reach the master; the port repeats it, and nobody acts on it.

    Nothing around a handover; otherwise update the firmware of the sender.

    The trap, and the PortInfo that its port answered before. Silent for a LID or level that any PortInfo names, and for a LID that
    acknowledges traps or calls itself master: a Set that the capture does not show may have written it. Silent, too, for another LID of the
    master's port (LMC). An `info` where the capture misses packets in between, a Set of PortInfo was not answered, or the port was down or
    in Initialize, so that its manager was to write it next.
    """

    code, name, severity = "SMP014", "trap-not-to-master", WARNING
    reference = "IBA 14.2.2.1"
    message = "trap {trap} from {port} goes to {way}, its {field} is {named}"
    example = "GetResp(PortInfo) with MasterSMLID 1, then SubnTrap of that port to LID 9"
    written = (PORT_INFO,)
    holds_ns = AGES_NS

    def __init__(self) -> None:
        self.masters = np.zeros(LID_COUNT, np.bool_)
        """LIDs that some PortInfo names, that acknowledge traps, or whose SMInfo says Master."""
        self.levels = np.zeros(16, np.bool_)
        """Service levels that some PortInfo names."""

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, context: Context) -> None:
        table = event.table if event.table.news is None else event.table.news
        self.masters[table.values(PortInfo.master_sm_lid)] = True
        self.levels[table.values(PortInfo.master_smsl)] = True
        of_manager = table.occurrences(SMInfo).rows[table.values(SMInfo.sm_state) == MASTER]
        answers = of_manager[table.values_at(MAD.method, of_manager) == GET_RESP]
        self.masters[table.values_at(LRH.slid, answers)] = True

    @on_event(RepressSeen)
    def repressed(self, event: RepressSeen, context: Context) -> None:
        self.masters[event.slid] = True

    def stands(self, hit: Hit, context: Context) -> bool:
        dlid, level = hit.arguments["dlid"], hit.arguments["level"]
        if level is not None:
            return not self.levels[level]
        return not (self.masters[dlid] or any(port.owns(dlid, hit.frame) is not False for port in self._masters(hit, context)))

    @staticmethod
    def _masters(hit: Hit, context: Context) -> set[Port]:
        """The ports that had the LID of the manager since the sender showed it."""
        return context.get(FabricFollower).subnet.owners(hit.arguments["named"], hit.related[0].frame)

    def ports_passed(self, hit: Hit, context: Context) -> Iterator[Port]:
        """The sender: in Initialize it still has what its last manager wrote."""
        port = context.get(FabricFollower).subnet.by_key(hit.key[0].key) if isinstance(hit.key[0], PortId) else None
        return iter(() if port is None else (port,))

    def facts_used_of(self, hit: Hit, context: Context) -> Collection[Node] | None:
        """The manager's own LIDs, too."""
        nodes = super().facts_used_of(hit, context)
        masters = self._masters(hit, context) if hit.arguments["level"] is None else ()
        return [*nodes, *(port.node for port in masters)] if nodes is not None else None

    def judge(self, event: TrapSeen, context: Context) -> FaultDetails | None:
        info = event.port.info if event.port is not None else None
        if event.port is None or info is None or event.directed or event.dlid == PERMISSIVE:
            return None
        if info.master_sm_lid and info.master_sm_lid != event.dlid:
            about = {"way": f"LID {event.dlid}", "field": "MasterSMLID", "named": info.master_sm_lid, "level": None}
        elif info.master_sm_lid and info.master_smsl != event.sl:
            about = {"way": f"SL {event.sl}", "field": "MasterSMSL", "named": info.master_smsl, "level": event.sl}
        else:
            return None
        return {**about, "dlid": event.dlid}, [(event.port.info_frame, "PortInfo of the port")]

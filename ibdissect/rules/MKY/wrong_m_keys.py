"""M_Keys that contradict what the capture showed of a port, and ports that two managers write to."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from msgspec import Struct as Record
from msgspec.structs import replace

from ibdissect.bounded import BoundedDict, KeptDict
from ibdissect.decode import ChunkTable
from ibdissect.decode.history import AFTER_ALL, SECOND_NS
from ibdissect.decode.identity import Code, Frame, KeyValue, LidId, PortId, SenderId, one_range
from ibdissect.lint.finding import Evidence, Severity, value_of
from ibdissect.lint.rule import ERROR, INFERRED, INFO, LEARNT, SEEN, WARNING, Context, Hit, Rule, fault, on_chunk, on_end, on_event
from ibdissect.mad.transactions import Transactions
from ibdissect.rules.shared.answered_packets import Reply
from ibdissect.rules.shared.not_seen import LearntFactRule
from ibdissect.rules.shared.site_forbids import also, foreign_keys, foreign_keys_held
from ibdissect.rules.shared.smp_senders import port_of_sender, senders_of
from ibdissect.rules.shared.trap_rule import BAD_M_KEY, MAX_TRAPS
from ibdissect.subnet import ChunkFollowed, Port
from ibdissect.subnet.earlier_answers import PortInfos
from ibdissect.subnet.early_writes import EarlyWrites
from ibdissect.subnet.events import MKeyShown, TrapSeen, WrongMKey
from ibdissect.subnet.m_keys import refuses
from ibdissect.subnet.smp_columns import DATA_AT
from ibdissect.wire.notice import Notice, TrapMKey
from ibdissect.wire.numbers import GET, LID_ROUTED, SM_INFO, SMP_CLASSES, STATUS, TRAP_REPRESS
from ibdissect.wire.sm import SMP
from ibdissect.wire.sm_port import PortInfo

MAX_WAITING = 65536
"""Requests that may still be answered."""
MAX_ALIKE = 64
"""Equal requests that wait for a trap."""


class _Alike(NamedTuple):
    """What requests have in common that a port accepts or refuses alike: if it answers one, it did not refuse the others for their key."""

    port: Port
    sender: LidId | SenderId
    method: Code
    attribute: Code
    presented: KeyValue
    shown: Frame


class _Fact(NamedTuple):
    """What a port showed of its M_Key."""

    port: Port
    shown: Frame
    of_reads: bool
    """What follows for reading, or for writing: protect bits tell these apart."""


class _WrongKey(LearntFactRule):
    """Base of rules about requests with a wrong M_Key: one finding per sender and port, with the resulting trap."""

    evidence = (
        "The M_Key that the port showed in PortInfo, and no good answer to the request. An `info` where the capture may have "
        "missed a packet since that PortInfo, where the port answered a request with another key since then, and for SMInfo without a "
        "trap, as many adapters hand it to the manager without a look at the key (kernel mlx4, mlx5). Silent for a "
        "TrapRepress to a port that sends its traps to the sender, although it named another manager in that PortInfo: the capture "
        "missed that it was set up again."
    )

    def __init__(self) -> None:
        self.without_trap = BoundedDict[tuple[Port, Code, Code, KeyValue], deque[WrongMKey]](MAX_TRAPS)
        """The latest requests without a trap so far, by port, method, attribute and key."""
        self.waiting = KeptDict[Frame, WrongMKey](MAX_WAITING, "requests with a wrong M_Key")
        """Requests that may still be answered, by frame: a port that accepts one holds another key than it showed."""
        self.outdated = KeptDict[_Fact, None](MAX_WAITING, "ports that hold other M_Keys than they showed")
        """What ports showed that answered a request although it has another key, as `_fact`."""
        self.receivers = KeptDict[tuple[Port, LidId], None](MAX_WAITING, "receivers of traps")
        """Ports that sent traps, and the LIDs that these went to."""

    def concerns(self, event: WrongMKey) -> bool:
        """Whether this rule is about the request."""
        raise NotImplementedError

    def reports(self, event: WrongMKey) -> bool:
        """Whether it is, but not if the port sends its traps to the sender of a TrapRepress, having named another manager with its key."""
        master = event.port.info.master_sm_lid if event.port.info is not None else event.sender
        outdated = event.method == TRAP_REPRESS and master != event.sender and (event.port, event.asker) in self.receivers
        return self.concerns(event) and not outdated

    @on_event(WrongMKey)
    def request(self, event: WrongMKey, context: Context) -> None:
        if not self.reports(event):
            return
        self.waiting.keep(event.frame, event, event.frame, event.time_ns)
        if not event.trap:
            what = (event.port, event.method, event.attribute, event.presented)
            if what not in self.without_trap:
                self.without_trap.put(what, deque(maxlen=MAX_ALIKE))
            self.without_trap[what].append(event)

    @on_event(TrapSeen)
    def trap(self, event: TrapSeen, context: Context) -> None:
        """Assign the trap to the first request in the second before it that it describes and that has no trap yet."""
        if event.port is not None:
            self.receivers.keep((event.port, LidId(event.dlid)), None, event.frame, event.time_ns)
        if event.port is None or event.number != BAD_M_KEY:
            return
        bad = TrapMKey(event.notice, Notice.data_details.bit // 8)
        candidates = self.without_trap.get((event.port, bad.method, bad.attributeid, bad.mkey), deque())
        while candidates and event.time_ns - candidates[0].time_ns > SECOND_NS:
            candidates.popleft()
        if candidates and (request := candidates.popleft()).frame in self.waiting:
            self.waiting[request.frame] = replace(request, trap=event.frame)

    @on_chunk
    def settle(self, table: ChunkTable, context: Context) -> None:
        answers = context.get(Transactions).matched
        if self.waiting and answers is not None:
            good = np.isin(answers.mgmt_class, list(SMP_CLASSES)) & (answers.status & STATUS == 0)
            done = np.concatenate((answers.request_frames[good], answers.last_frames[good]))
            taken = {_alike(self.waiting[frame]): frame for frame in sorted(set(done.tolist()) & self.waiting.keys())}
            for frame in taken.values():
                self.outdated.keep(_fact(self.waiting[frame]), None, frame, self.waiting[frame].time_ns)
            for frame in [frame for frame, one in self.waiting.items() if frame <= taken.get(_alike(one), 0)] if taken else ():
                del self.waiting[frame]  # it, and the tries before it

    @on_end
    def rest(self, context: Context) -> Iterator[Hit]:
        repeated, tried = context.get(Transactions).repeated(), dict[_Alike, Frame]()
        for frame, one in sorted(self.waiting.items(), key=itemgetter(0)):
            alike = _alike(one)
            tried[alike] = max(tried.get(alike, 0), repeated.get(frame, 0))
            if tried[alike] < frame:  # else it is a try of what the port took
                yield self.found(one, LEARNT, context)

    def found(self, event: WrongMKey, evidence: Evidence, context: Context) -> Hit:
        """The finding about a request."""
        presented, request = value_of(SMP.m_key, event.presented), context.catalog.request_text(LID_ROUTED, event.method, event.attribute)
        held, trap = value_of(SMP.m_key, event.held.key), [(event.trap, "trap 256 of the port")] if event.trap else []
        return fault(
            event, {"request": request, "port": str(event.port), "presented": presented if event.presented else "no M_Key",
                    "held": held, "protect": event.held.protect},
            SMP.m_key, presented, start=event.mad, evidence=evidence, proof=[(event.shown, "showed the port's M_Key"), *trap],
            key=(event.port.key, event.sender, evidence), about=(event.port.node.slot,),
            severity=INFO if _fact(event) in self.outdated or (event.attribute == SM_INFO and not event.trap) else None,
        )  # fmt: skip


def _alike(event: WrongMKey) -> _Alike:
    return _Alike(event.port, event.asker, event.method, event.attribute, event.presented, event.shown)


def _fact(event: WrongMKey) -> _Fact:
    return _Fact(event.port, event.shown, event.method == GET)


class _WrongWrite(_WrongKey):
    """Base of rules about requests that a port refuses at any protect bits, also those before its key was learnt."""

    needs = (EarlyWrites,)

    @on_end
    def end(self, context: Context) -> Iterator[Hit]:
        for event in context.get(EarlyWrites).refusals():
            if self.reports(event):
                yield self.found(event, INFERRED, context)


class SetWithoutMKey(_WrongWrite):
    """A Set or TrapRepress carries no M_Key, but its port has one.

    Whatever its protect bits are, a port drops a SubnSet or SubnTrapRepress without its M_Key, counts a violation and may send trap 256.
    The sender waits in vain for an answer, and its change does not happen.

    Give the subnet manager or the tool the subnet's key (opensm: `m_key`; infiniband-diags: `-y`). If it should change nothing here, find
    out who runs it.
    """

    code, name, severity = "MKY001", "mkey-set-without-key", ERROR
    explains = ("TXN001",)
    reference = "IBA 14.2.4; kernel qib check_mkey"
    message = "{request} without M_Key to {port}, which holds {held}: the port drops it"
    example = "GetResp(PortInfo) with an M_Key, then SubnSet to the same port with SMP M_Key 0"

    def concerns(self, event: WrongMKey) -> bool:
        return event.method != GET and event.presented == 0

    site = also(foreign_keys, zero=True)


class MKeyMismatch(_WrongWrite):
    """A Set or TrapRepress carries another M_Key than the port holds.

    Whatever its protect bits are, the port drops it, counts a violation and may send trap 256. Typical causes are two subnet managers with
    different keys, an outdated key file, or somebody who guesses.

    Compare the configured keys of all subnet managers (opensm: `m_key` and the guid2mkey file), and find the sender.
    """

    code, name, severity = "MKY002", "mkey-mismatch", ERROR
    explains = ("TXN001",)
    reference = "IBA 14.2.4; kernel qib check_mkey"
    message = "{request} with {presented} to {port}, which holds {held}: the port drops it"
    example = "GetResp(PortInfo) with an M_Key, then SubnSet to the same port with another one"

    def concerns(self, event: WrongMKey) -> bool:
        return event.method != GET and event.presented != 0

    site = also(foreign_keys, zero=False)


class ProtectedGet(_WrongKey):
    """A Get without the right M_Key goes to a port that only answers those who know it.

    At protect bits 2 or 3 a port answers only requests with its M_Key: the Get is dropped, and the sender takes the port for dead.

    Give the tool the key (infiniband-diags: `-y`), or lower `m_key_protection_level` if everybody may read.
    """

    code, name, severity = "MKY003", "mkey-protected-get", WARNING
    explains = ("TXN001",)
    reference = "IBA 14.2.4; kernel qib check_mkey; opensm manual"
    message = "{request} with {presented} to {port}, whose protect bits {protect} forbid reading without its key"
    example = "GetResp(PortInfo) with an M_Key and M_KeyProtectBits 2, then SubnGet to the same port with SMP M_Key 0"

    def concerns(self, event: WrongMKey) -> bool:
        return event.method == GET and not event.local and refuses(event.held, event.method, event.presented)


class MKeyExposed(Rule):
    """A port shows its M_Key in answer to a Get without that key, although its protect bits hide it.

    At protect bits 1, an answer to a Get without the right key must show M_Key 0. Whoever asks this port can reconfigure it.

    Update the firmware of the device; until then treat the key as known, and use protect bits 2 with a new one.

    A Get without the key, and its answer with a non-zero M_Key and protect bits 1.
    """

    code, name, severity = "MKY004", "mkey-exposed", WARNING
    reference = "IBA 14.2.4; kernel subn_get_portinfo"
    message = "{port} shows {held} at protect bits 1 to a Get that came with {presented}"
    example = "SubnGet(PortInfo) with SMP M_Key 0, answered with a non-zero PortInfo.M_Key and M_KeyProtectBits 1"

    @on_event(MKeyShown)
    def answer(self, event: MKeyShown, context: Context) -> Iterator[Hit]:
        yield fault(
            event,
            {"port": str(event.port), "held": value_of(PortInfo.m_key, event.held.key),
             "presented": value_of(SMP.m_key, event.presented) if event.presented else "no M_Key"},
            PortInfo.m_key, value_of(PortInfo.m_key, event.held.key), proof=[(event.asked, "the Get without the key")], evidence=SEEN,
            start=event.mad + DATA_AT, key=(event.port.key, event.sender),
        )  # fmt: skip


MAX_KEYS = 65536
"""Ports whose writers are remembered."""


class SetSender(Record, frozen=True):
    """The sender of a Set, as far as it is known."""

    lid: int
    """0 for the sender of a directed route."""
    port: Port | None

    def differs(self, other: SetSender) -> bool:
        """Whether two senders are certainly different."""
        if self.port is not None and other.port is not None:
            return self.port is not other.port
        if not 0 < self.lid != other.lid > 0:
            return False
        for port, lid in ((self.port, other.lid), (other.port, self.lid)):
            if port is not None:
                return port.owns(lid, AFTER_ALL) is False
        return not one_range(self.lid, other.lid)


class TwoWriters(LearntFactRule):
    """Two senders give a port different M_Keys.

    Two subnet managers that do not know of each other fight for the port; the one whose key is in force locks the other out.

    Give all subnet managers the same key (opensm: `m_key`), or keep the second one out of the subnet.

    Two Sets from LIDs that no LMC joins, or from different ports as NodeInfo and PortInfo showed them. A directed route names no sender:
    its origin must be known from a NodeInfo of the manager's own port, because one manager that restarts, or that changes from
    directed routes to LIDs, looks like two. A Set that repeats the key that it presents, or that the port showed, does not count: tools
    write back what they read; nor does what was written before the port showed that it holds no key, as after a restart. An `info` where
    the second one presents the key in force, and the first one gives the port no key again: it is the successor, and knows the key. With a
    site policy that names M_Keys, any other key is reported, whoever wrote it.
    """

    code, name, severity = "MKY013", "mkey-changed-by-second-sm", WARNING
    ages = False
    reference = "IBA 14.2.4"
    message = "Set(PortInfo) of {port} writes {key}, another sender wrote {before}"
    example = "SubnSet(PortInfo) of a port from LID 1 with an M_Key, then from LID 2 with another one"

    def __init__(self) -> None:
        self.writers = KeptDict[PortId, tuple[int, SetSender, int]](MAX_KEYS, "ports whose M_Key was written")
        """Key, sender and frame by port."""
        self.returned = KeptDict[PortId, int](MAX_KEYS, "ports to which a manager came back")
        """The latest Set of a manager after another one took over, by port."""
        self.predecessors = KeptDict[PortId, SetSender](MAX_KEYS, "ports whose manager another one succeeded")

    site = also(foreign_keys_held, zero=False)

    def refutes(self, hit: Hit, reply: Reply, context: Context) -> bool:
        """That the port accepts the Set is what this is about."""
        return False

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        """An info about a successor: the first one never comes back."""
        succeeds = hit.arguments.get("knows") and self.returned.get(hit.key, 0) <= hit.frame
        return INFO if succeeds else super().severity_at_end(hit, context)

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, context: Context) -> Iterator[Hit]:
        smps = context.get(PortInfos).of(event)
        if not len(smps):
            return
        keyed = smps.sets & (smps.key != -1)
        if not len(self.writers) and not (smps.bodies[:, slice(*PortInfo.m_key.span)].any(axis=1) & keyed).any():
            return  # no key is written, and none can be taken off
        senders, hidden = senders_of(event.table, smps, keyed)
        for smp, number, directed in zip(smps.each(keyed), senders.tolist(), hidden.tolist(), strict=True):
            frame, port, key = smp.frame, PortId.of(smp.key), smp.now(PortInfo.m_key)
            sender = SetSender(0 if directed else number, port_of_sender(event, context, number, directed, frame)[0])
            known, former = self.writers.get(port), self.predecessors.get(port)
            if known is not None and smp.since > known[2] and not smp.was(PortInfo.m_key) and not smp.was(PortInfo.m_key_protect_bits):
                del self.writers[port]  # it has no key any more
                known = None
            if not key:  # taken off, if the sender knows it
                if known is not None and (smp.m_key == known[0] or not known[1].differs(sender)):
                    del self.writers[port]
                continue
            repeats = key == smp.m_key or (smp.since > 0 and key == smp.was(PortInfo.m_key))
            if known is not None and repeats:  # a tool writes back what it read
                if known[0] != key:
                    del self.writers[port]  # nobody saw who wrote it
                continue
            if former is not None and not former.differs(sender):
                self.returned.keep(port, frame, frame, smp.time_ns)
            if known is None or not known[1].differs(sender):
                self.writers.keep(port, (key, sender, frame), frame, smp.time_ns)
                continue
            if known[0] == key:
                continue
            yield fault(
                smp,
                {"port": smp.name, "key": value_of(PortInfo.m_key, key), "before": value_of(PortInfo.m_key, known[0]),
                 "knows": smp.m_key == known[0]},
                PortInfo.m_key, value_of(PortInfo.m_key, key), start=smp.body_at,
                proof=[(known[2], "the other sender's Set")], key=port,
            )  # fmt: skip
            if smp.m_key == known[0]:
                self.predecessors.keep(port, known[1], frame, smp.time_ns)
                self.writers.keep(port, (key, sender, frame), frame, smp.time_ns)

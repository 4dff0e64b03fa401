"""Ports that report or count bad M_Keys, and senders that guess keys."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import numpy as np

from ibdissect.bounded import BoundedDict, Dropped, KeptDict
from ibdissect.decode import Bool, ChunkTable, Int
from ibdissect.decode.history import SECOND_NS
from ibdissect.decode.identity import Content, Frame, KeyValue, LidId, PortId
from ibdissect.lint.finding import Severity, value_of
from ibdissect.lint.rule import INFO, WARNING, Context, FaultDetails, Hit, fault, on_chunk, on_event
from ibdissect.lint.setting import Setting
from ibdissect.mad.transactions import SWAPPED_NS, Transactions
from ibdissect.rules.shared.attribute_rule import ViolationCounted
from ibdissect.rules.shared.not_seen import LearntFactRule, lowered_severity, warm
from ibdissect.rules.shared.smp_senders import senders_of
from ibdissect.rules.shared.trap_rule import BAD_M_KEY, DETAILS_AT, LOOK_BACK, MAX_TRAPS, TrapRule, repetition_ns
from ibdissect.subnet import ChunkFollowed, FabricFollower
from ibdissect.subnet.events import RepressSeen, TrapSeen, WrongMKey
from ibdissect.subnet.smp_columns import DATA_AT
from ibdissect.traffic.capture_loss import CaptureLoss
from ibdissect.wire.headers import LRH
from ibdissect.wire.mad import METHODS
from ibdissect.wire.notice import Notice, TrapMKey
from ibdissect.wire.numbers import MAX_LMC, STATUS
from ibdissect.wire.sm import SMP
from ibdissect.wire.sm_port import PortInfo

MAX_TRIES = 65536
"""Requests with a wrong M_Key whose answers are awaited."""
MAX_REPORTED = 64
"""Reported traps of a port within a second that its manager may still quiet: more are a storm, even if it does."""
COPY_NS = 1_000_000
"""No port repeats a trap as fast as that, but a second mirror does."""


class BadMKeyStorm(TrapRule):
    """A port keeps sending bad M_Key traps, and nobody represses them.

    Somebody tries M_Keys, or a manager without the key works in vain; the traps themselves load the master.

    Look at the sender that the trap names, and at why the subnet manager does not answer with TrapRepress.

    The traps, and no TrapRepress between them, nor later within a second of the first one; the same trap again within a millisecond does
    not count. An `info` where the capture may have missed the TrapRepress, or shows none from the receiver of the traps to that port at
    all, where the traps may be of two subnets, and where there are more of them than are remembered (CAP016).
    """

    code, name, severity = "MKY011", "trap256-storm", WARNING
    reference = "IBA 14.2.5.1"
    message = "{port} sent {count} bad M_Key traps within a second without TrapRepress"
    example = "four SubnTrap 256 of one port within a second"
    numbers = (BAD_M_KEY,)
    needs = (CaptureLoss,)
    allowed = Setting(3, "traps within a second that are not reported", 1)

    def __init__(self) -> None:
        self.dropped = Dropped("senders of traps")
        self.latest = BoundedDict[PortId | LidId, list[TrapSeen]](MAX_TRAPS, self.dropped)
        """The latest unanswered traps by sender."""
        self.managers = BoundedDict[PortId | LidId, set[LidId]](MAX_TRAPS, self.dropped)
        """LIDs that traps were sent to, by sender."""
        self.represses = BoundedDict[tuple[PortId | LidId, LidId], None](MAX_TRAPS, self.dropped)
        """Receiver and sender of any TrapRepress."""
        self.storms = BoundedDict[PortId | LidId, deque[tuple[Frame, int]]](MAX_TRAPS, self.dropped)
        """By sender, the latest traps that are reported, and the time of the first one of each storm."""
        self.quieted = KeptDict[Frame, None](MAX_TRAPS, self.dropped)
        """Reported traps whose manager was only a little later."""

    @on_event(RepressSeen)
    def repressed(self, event: RepressSeen, context: Context) -> None:
        port = event.target
        self.represses.put((port, LidId(event.slid)), None, event.frame, event.time_ns)
        if Notice(event.notice).trap_number == BAD_M_KEY:
            self.latest.pop(port, None)
            for frame, since_ns in self.storms.pop(port, ()):
                if event.time_ns - since_ns <= SECOND_NS:
                    self.quieted.keep(frame, None, event.frame, event.time_ns)

    def stands(self, hit: Hit, context: Context) -> bool:
        return Frame(hit.frame) not in self.quieted

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        """An info unless the capture shows what the receivers of its traps send to the port, and misses nothing."""
        if self.dropped.count:
            return INFO  # which traps were quieted is not known any more
        port = hit.key[0]
        represses = all((port, manager) in self.represses for manager in self.managers.get(port, ()))
        return lowered_severity(context, hit.time_ns) if represses and self.in_one_subnet(hit, context) else INFO

    def judge(self, event: TrapSeen, context: Context) -> FaultDetails | None:
        port = event.origin
        self.managers.put(port, {*self.managers.get(port, ()), LidId(event.dlid)}, event.frame, event.time_ns)
        recent = [one for one in self.latest.get(port, []) if event.time_ns - one.time_ns <= SECOND_NS][-self.allowed :]
        same = [one for one in recent if (one.transaction, one.notice) == (event.transaction, event.notice)]
        if any(event.time_ns - one.time_ns <= COPY_NS for one in same):
            return None
        self.latest.put(port, [*recent, event], event.frame, event.time_ns)
        if len(recent) < self.allowed:
            return None
        reported = self.storms.get(port) or deque(maxlen=MAX_REPORTED)
        reported.append((Frame(event.frame), recent[0].time_ns))
        self.storms.put(port, reported, event.frame, event.time_ns)
        return {"count": len(recent) + 1}, [(one.frame, "an earlier one") for one in recent]


class KeyGuessing(LearntFactRule):
    """Somebody tries one M_Key after the other.

    Three or more wrong keys within a minute are not an outdated configuration: somebody guesses, or a manager tries all keys that it ever
    knew. Guessing 64 bits is hopeless, unless keys are badly chosen.

    Find the sender (LID, or the directed route and its transaction ids), and look at the violation counter of the port.

    The M_Key that the port showed in PortInfo, and requests of one sender with different other keys within the window. An `info` if the
    port answered one of them, as it holds another key by then.
    """

    code, name, severity = "MKY015", "mkey-guessing", WARNING
    reference = "IBA 14.2.4; kernel qib check_mkey; the threshold is a choice"
    message = "{count} different wrong M_Keys for {port} within {window} s"
    example = "GetResp(PortInfo) with an M_Key, then three Sets with different other keys"
    window = Setting(60, "seconds that wrong keys of one sender are remembered", 1)
    enough = Setting(3, "different wrong keys", 2)

    def __init__(self) -> None:
        self.tried = BoundedDict[tuple[PortId, PortId | LidId], BoundedDict[KeyValue, tuple[int, int]]](MAX_TRAPS, "senders that try keys")
        """Time and frame by key tried, by port and sender."""
        self.taken = KeptDict[Frame, bool](MAX_TRIES, "requests with a wrong M_Key")
        """Whether the port did what a request with another key than it showed asks for, by frame."""

    @on_chunk
    def settle(self, _table: ChunkTable, context: Context) -> None:
        for answer in context.get(Transactions).answers_to(self.taken):
            self.taken[answer.request.frame] = not answer.status & STATUS

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        """An info if the port took one of the keys: then it holds another one than it showed."""
        taken = any(self.taken.get(one.frame) for one in hit.related)
        return INFO if taken else super().severity_at_end(hit, context)

    @on_event(WrongMKey)
    def wrong(self, event: WrongMKey, context: Context) -> Iterator[Hit]:
        if not event.presented:
            return
        key = event.port.id, context.get(FabricFollower).subnet.who(event.sender, event.frame)
        recent = self.tried.get(key) or BoundedDict(max(8, self.enough))
        for late in [k for k, seen in recent.items() if event.time_ns - seen[0] > self.window * SECOND_NS]:
            del recent[late]
        fresh = event.presented not in recent
        recent.put(event.presented, (event.time_ns, event.frame))
        self.taken.keep(event.frame, False, event.frame, event.time_ns)
        self.tried.put(key, recent, event.frame, event.time_ns)
        if fresh and len(recent) >= self.enough:
            others = [(frame, "another wrong key") for k, (_, frame) in recent.items() if k != event.presented]
            yield fault(
                event, {"port": str(event.port), "count": len(recent), "window": self.window}, SMP.m_key,
                value_of(SMP.m_key, event.presented), start=event.mad, proof=[(event.shown, "showed the port's M_Key"), *others], key=key,
                about=(event.port.node.slot,),
            )  # fmt: skip


class TrapWithoutRequest(TrapRule):
    """A port complains about a request that the LID it names did not send.

    The manager with that LID is accused wrongly: the port's firmware fills in the trap incorrectly, or somebody else uses that LID.

    Compare the trap with the requests before it; if they are right, look for another sender with this LID.

    A trap 256 that names a LID from which the capture shows other SMPs to that port, at least ten seconds after the capture began, and two
    of the port's SubnetTimeOuts: until then it may be the repetition of an older trap. Requests
    by directed route are not judged, and any LID of the same port (LMC) counts. An `info` where the capture may have missed the request,
    and where the complaining port has several LIDs: the request to another one of them may have taken another path. Silent where the
    request is recorded within 10 ms behind the trap: two mirrors change the order.
    """

    code, name, severity = "MKY010", "trap256-content-mismatch", WARNING
    reference = "Shanley, table 29-1 (Notice); python-rdma trap256"
    message = "{port} complains of a Subn{method} of attribute 0x{attribute:04x} with a wrong M_Key from LID {lid}, which sent none"
    example = "SMPs of LID 1 to a port, and a trap 256 of it with another method, attribute, modifier or M_Key and LIDADDR 1"
    needs = (CaptureLoss,)

    def __init__(self) -> None:
        self.dropped = Dropped("traps about wrong M_Keys")
        self.known = BoundedDict[tuple[PortId | LidId, Content], None](MAX_TRAPS, self.dropped)
        """Senders and contents of traps, which are repeated until they are repressed: only the first is judged."""
        self.waiting: list[tuple[TrapSeen, TrapMKey]] = []
        """Traps of this chunk."""
        self.behind: list[tuple[TrapSeen, TrapMKey]] = []
        """Reported traps so young that a mirror may still record the request."""
        self.explained = KeptDict[Frame, None](MAX_TRAPS, self.dropped)
        """Traps of which it did."""
        self.latest: Int = np.empty((7, 0), np.int64)
        """Frame, SLID, DLID, method, attribute, modifier and M_Key of the latest requests by LID, int64[7, n]."""

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        """An info where the capture may have missed a packet, or the request and the trap may be of two subnets."""
        return lowered_severity(context, hit.time_ns) if self.in_one_subnet(hit, context) else INFO

    @on_event(TrapSeen)
    def trap(self, event: TrapSeen, context: Context) -> Iterator[Hit]:
        bad, key = TrapMKey(event.notice, DETAILS_AT), (event.origin, event.notice[DETAILS_AT:])
        if event.number == BAD_M_KEY and not bad.dr_notice and key not in self.known:
            self.known.put(key, None, event.frame, event.time_ns)
            self.waiting.append((event, bad))
        return iter(())

    def stands(self, hit: Hit, context: Context) -> bool:
        return Frame(hit.frame) not in self.explained

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, context: Context) -> Iterator[Hit]:
        """Collect the requests of this chunk and the relevant earlier ones, and judge the traps."""
        waiting, self.waiting = self.waiting, []
        asks, table = event.requests, event.table
        some = slice(None) if waiting or self.behind else slice(-LOOK_BACK, None)
        rows = asks.rows[some]
        slids, hidden = senders_of(table, asks, some)
        dlids = table.values_at(LRH.dlid, rows)
        columns = rows + table.chunk.first, slids, dlids, asks.method[some], asks.attribute[some], asks.modifier[some], asks.m_key[some]
        fresh = np.stack([column.astype(np.int64) for column in columns])[:, ~hidden]
        smps = np.concatenate([self.latest, fresh], axis=1)
        self.latest = smps[:, -LOOK_BACK:].copy()
        for trap, bad in waiting:
            sent = smps[:, (smps[0] < trap.frame) & (smps[1] == bad.lidaddr)]
            to_it, such = sent[2] == trap.slid, _described(smps, bad) & (smps[0] < trap.frame)
            if to_it.any() and not such.any() and warm(trap, context, repetition_ns(trap.port)):
                self.behind.append((trap, bad))
                yield fault(
                    trap,
                    {"port": trap.sender, "method": METHODS.get(bad.method, bad.method), "lid": bad.lidaddr, "attribute": bad.attributeid},
                    TrapMKey.lidaddr, bad.lidaddr, start=trap.mad + DATA_AT + DETAILS_AT,
                    proof=[(int(sent[0, to_it][-1]), "the latest request of that LID to the port")], key=(trap.slid, bad.lidaddr),
                    severity=INFO if trap.port is not None and (trap.port.lids.now or (0, 0))[1] else None,
                )  # fmt: skip
        if self.behind:
            self._look_behind(table, fresh)

    def _look_behind(self, table: ChunkTable, fresh: Int) -> None:
        """Look for requests that were recorded shortly behind the traps which they caused."""
        times = table.chunk.time_ns
        for trap, bad in self.behind:
            if (times[fresh[0, _described(fresh, bad)] - table.chunk.first] - trap.time_ns <= SWAPPED_NS).any():  # none came before
                self.explained.keep(Frame(trap.frame), None, trap.frame, trap.time_ns)
        self.behind = [(trap, bad) for trap, bad in self.behind if times[-1] - trap.time_ns <= SWAPPED_NS]


def _described(smps: Int, bad: TrapMKey) -> Bool:
    """Which requests a trap describes, from any LID of the port that it names; an agent may hide the M_Key."""
    named = [bad.method, bad.attributeid, bad.attributemodifier, *([int(np.uint64(bad.mkey).astype(np.int64))] if bad.mkey else [])]
    found: Bool = (smps[1] >> MAX_LMC == bad.lidaddr >> MAX_LMC) & (smps[3 : 3 + len(named)] == np.array(named)[:, None]).all(axis=0)
    return found


class MKeyViolations(ViolationCounted):
    """A port counted SMPs with a wrong M_Key between two readings.

    Somebody without the key manages this port, or tries to; or a manager repeated the Set that gave the port its key, as the answer was
    lost, and the port counted the repetitions, which present the key before.

    Look at the sender of the SMPs with a wrong key (MKY001, MKY002), or at the port's trap 256.
    """

    code, name, severity = "MKY012", "mkey-violations-increment", WARNING
    reference = "IBA 14.2.4"
    message = "{port} counts {now} M_Key violations, up from {before}"
    example = "two GetResp(PortInfo) of a port, M_KeyViolations 0 and 3"
    at = PortInfo.m_key_violations

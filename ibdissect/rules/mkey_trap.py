"""Bad M_Key traps, leases that run out, and who guesses keys (MKY)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ibdissect.dropped import Dropped
from ibdissect.fabric.events import ChunkFollowed, RepressSeen, TrapSeen, WrongMKey
from ibdissect.fabric.model import Port
from ibdissect.lint.engine import Context
from ibdissect.lint.finding import Evidence, Related, Span, value_of
from ibdissect.lint.rule import WARNING, Hit, Rule, on_event
from ibdissect.lint.setting import Setting
from ibdissect.wire.notice import Notice
from ibdissect.wire.sm import SMP

from .trap_state import BAD_M_KEY, MAX_TRAPS, SECOND, Judged, TrapRule


class BadMKeyStorm(TrapRule):
    """A port sends one bad M_Key trap after the other and nobody tells it to stop.

    ## Why it matters
    Somebody tries M_Keys, or a manager without the key does its work in vain; the traps themselves load the master.

    ## What to do
    Look at the sender that the trap names, and why the subnet manager does not answer with TrapRepress.
    """

    code, name, severity = "MKY011", "trap256-storm", WARNING
    reference = "IBA 14.2.5.1; seed000 TrapRepress"
    message = "{port} sent {count} bad M_Key traps within a second without TrapRepress"
    example = "four SubnTrap 256 of one port within a second"
    numbers = (BAD_M_KEY,)
    allowed = Setting(3, "traps within a second that nobody minds", 1)

    def __init__(self) -> None:
        super().__init__()
        self.latest: dict[int, list[tuple[int, int]]] = {}
        """Time and frame of the latest unanswered traps by SLID."""
        self.dropped = Dropped("senders of traps")

    @on_event(RepressSeen)
    def repressed(self, event: RepressSeen, context: Context) -> None:
        if event.port is not None and Notice(event.notice).trap_number == BAD_M_KEY:
            self.latest.pop(event.port.lid, None)

    def judge(self, event: TrapSeen, notice: Notice, context: Context) -> Judged | None:
        if event.slid not in self.latest and len(self.latest) >= MAX_TRAPS:
            self.latest.pop(next(iter(self.latest)))
            self.dropped.add(event.frame, event.time_ns)
        recent = [one for one in self.latest.get(event.slid, []) if event.time_ns - one[0] <= SECOND][-self.allowed :]
        self.latest[event.slid] = [*recent, (event.time_ns, event.frame)]
        if len(recent) < self.allowed:
            return None
        return {"count": len(recent) + 1}, tuple(Related(frame, "an earlier one") for _, frame in recent)


class LeaseExpired(Rule):
    """The M_Key lease of a port ran out: it may be read and written by everybody.

    ## Why it matters
    After a request with a wrong key the port waits for the lease period for one with the right key, then it sets its protect
    bits to 0, so that a new subnet manager can take over. From here on the key protects nothing.

    ## What to do
    Find out why the subnet manager did not reach the port in time; choose a lease longer than its sweep interval.
    """

    code, name, severity = "MKY008", "mkey-lease-expiry", WARNING
    reference = "IBA 14.2.4; seed000 M_KeyLeasePeriod; opensm manual"
    message = "the M_Key lease of {port} ({lease} s) ran out {after:.1f} s after a request with a wrong key"
    example = "a port with M_KeyLeasePeriod 1, a Set with a wrong key, and nothing with the right key for a second"

    def __init__(self) -> None:
        self.watched: dict[tuple[int, int], tuple[Port, int, int]] = {}
        """Port, time and frame of the refused request by slot and port."""
        self.dropped = Dropped("ports that refused a request")

    @on_event(WrongMKey)
    def refused(self, event: WrongMKey, context: Context) -> None:
        guard = event.port.guard
        if event.held.lease and not event.trap and guard is not None and guard.timer_ns == event.time_ns:
            if len(self.watched) < MAX_TRAPS:
                self.watched[event.port.node.slot, event.port.number] = (event.port, event.time_ns, event.frame)
            else:
                self.dropped.add(event.frame, event.time_ns)

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, context: Context) -> Iterator[Hit]:
        for key, (port, started, frame) in list(self.watched.items()):
            guard = port.guard
            held = guard.held.now if guard is not None else None
            if guard is None or held is None or guard.timer_ns != started or not held.lease:
                del self.watched[key]
                continue
            times = event.table.chunk.time_ns
            late = np.flatnonzero(times - started >= held.lease * SECOND)
            if len(late):
                del self.watched[key]
                row = int(late[0])
                yield Hit(
                    frame=event.table.chunk.first + row,
                    time_ns=int(times[row]),
                    arguments={"port": str(port), "lease": held.lease, "after": (int(times[row]) - started) / SECOND},
                    related=(Related(frame, "the request with a wrong key"),),
                    evidence=Evidence.LEARNT,
                    key=key,
                )


class KeyGuessing(Rule):
    """Somebody tries one M_Key after the other.

    ## Why it matters
    Three or more different wrong keys within a minute are no stale configuration: somebody guesses, or a manager tries all
    keys it ever knew. With 64 bits guessing is hopeless, unless keys are chosen badly.

    ## What to do
    Find the sender (LID, or the directed route and its transaction ids), and look at the violation counter of the port.
    """

    code, name, severity = "MKY015", "mkey-guessing", WARNING
    reference = "IBA 14.2.4; seed000 M_KeyViolations; kernel qib check_mkey; the threshold is a choice"
    message = "{count} different wrong M_Keys for {port} within {window} s"
    example = "GetResp(PortInfo) with an M_Key, then three Sets with different other keys"
    window = Setting(60, "seconds that wrong keys of one sender are remembered", 1)
    enough = Setting(3, "different wrong keys", 2)

    def __init__(self) -> None:
        self.tried: dict[tuple[int, int, int], dict[int, tuple[int, int]]] = {}
        """Time and frame by key tried, by slot, port and sender."""
        self.dropped = Dropped("senders that try keys")

    @on_event(WrongMKey)
    def wrong(self, event: WrongMKey, context: Context) -> Iterator[Hit]:
        if not event.presented:
            return
        key = (event.port.node.slot, event.port.number, event.sender)
        if key not in self.tried and len(self.tried) >= MAX_TRAPS:
            self.tried.pop(next(iter(self.tried)))
            self.dropped.add(event.frame, event.time_ns)
        recent = {k: seen for k, seen in self.tried.get(key, {}).items() if event.time_ns - seen[0] <= self.window * SECOND}
        fresh = event.presented not in recent
        recent[event.presented] = (event.time_ns, event.frame)
        while len(recent) > max(8, self.enough):
            recent.pop(next(iter(recent)))
        self.tried[key] = recent
        if fresh and len(recent) >= self.enough:
            low, high = SMP.m_key.span
            yield Hit(
                frame=event.frame,
                time_ns=event.time_ns,
                arguments={"port": str(event.port), "count": len(recent), "window": self.window},
                spans=(Span(event.frame, event.mad + low, high - low),),
                field=SMP.m_key,
                value=value_of(SMP.m_key, event.presented),
                related=(Related(event.taught, "showed the port's M_Key"),
                         *(Related(frame, "another wrong key") for k, (_, frame) in recent.items() if k != event.presented)),
                evidence=Evidence.LEARNT,
                key=key,
            )  # fmt: skip

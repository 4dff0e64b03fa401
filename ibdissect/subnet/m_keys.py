"""M_Keys: the subnet management packets that a port with one accepts, and when it hides the key."""

from __future__ import annotations

from typing import NamedTuple

from ibdissect.decode.history import SECOND_NS, History
from ibdissect.engine.ports import GuardState
from ibdissect.wire.numbers import GET, SET, TRAP_REPRESS

CHECKED = frozenset({GET, SET, TRAP_REPRESS})
"""Methods whose M_Key a port checks; never GetResp and Trap (kernel qib check_mkey)."""


class MKey(NamedTuple):
    """M_Key, M_KeyProtectBits and M_KeyLeasePeriod of a port."""

    key: int
    protect: int
    lease: int
    """Seconds; 0: never expires."""


def refuses(held: MKey, method: int, presented: int) -> bool:
    """Whether a port with this M_Key drops the request (opensm man page, kernel qib check_mkey)."""
    if held.key == 0 or presented == held.key or method not in CHECKED:
        return False
    return method != GET or held.protect >= 2


def hides(held: MKey, presented: int) -> bool:
    """Whether a GetResp must show M_Key 0: protect bits are 1 and the requester lacks the key."""
    return held.protect == 1 and held.key != 0 and presented != held.key


class MKeyState(GuardState):
    """A port's M_Key as learnt, with a pending change and the lease timer."""

    __slots__ = ()
    held: History[MKey]
    pending: int | None
    """Key that a pending Set installs; until its answer, either key may be valid."""
    timer: History[int]
    """When the lease timer of a refused request started, in ns; None while it does not run."""

    def __init__(self) -> None:
        super().__init__(History(), History())

    def check(self, method: int, presented: int, frame: int, time_ns: int) -> MKey | None:
        """Process a request to the port: return the port's M_Key if that of the request is wrong (dropped or not), else None.

        Tracks the lease: a refusal starts the timer, a right key stops it, expiry sets the protect bits to 0.
        """
        held = self.held.now
        if held is None or held.key == 0 or method not in CHECKED:
            return None
        if method == GET and self.pending is not None:
            return None  # a Set is under way that may allow reading
        if presented == held.key or (self.pending is not None and presented == self.pending):
            self.timer.learn(None, frame)
            return None
        if held.lease:
            if self.timer.now is not None and time_ns - self.timer.now >= held.lease * SECOND_NS:
                return held._replace(protect=0)
            if self.timer.now is None and refuses(held, method, presented):
                self.timer.learn(time_ns, frame)
        return held

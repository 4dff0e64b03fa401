"""Which subnet management packets does a port's M_Key let through, and what does it hide?"""

from __future__ import annotations

from typing import NamedTuple

from .history import Track

GET, SET, TRAP_REPRESS = 0x01, 0x02, 0x07
CHECKED = frozenset({GET, SET, TRAP_REPRESS})
"""Methods whose M_Key a port looks at; GetResp and Trap never are (kernel qib check_mkey)."""


class MKey(NamedTuple):
    """M_Key, M_KeyProtectBits and M_KeyLeasePeriod of a port."""

    key: int
    protect: int
    lease: int
    """Seconds; 0 never expires."""


def refuses(held: MKey, method: int, presented: int) -> bool:
    """Whether a port with this M_Key drops the request (FACTS A2: protect-bits table; opensm man, kernel qib check_mkey)."""
    if held.key == 0 or presented == held.key or method not in CHECKED:
        return False
    return method != GET or held.protect >= 2


def hides(held: MKey, presented: int) -> bool:
    """Whether an answered Get must show M_Key 0: protect bits 1, and a requester without the key."""
    return held.protect == 1 and held.key != 0 and presented != held.key


class Guard:
    """A port's M_Key as learnt, with what may be changing it."""

    __slots__ = ("held", "pending", "timer_ns")

    def __init__(self) -> None:
        self.held: Track[MKey] = Track()
        self.pending: int | None = None
        """Key that a Set under way installs; until its answer comes both keys may be right."""
        self.timer_ns: int | None = None
        """When the lease timer of a refused request started."""

    def learn(self, value: MKey, frame: int) -> bool:
        """The port showed its key, or took a Set; True when that is news."""
        self.pending = None
        if value == self.held.now:
            return False
        self.timer_ns = None
        return self.held.learn(value, frame)

    def forget(self, frame: int) -> None:
        """The port may have restarted: its key is unknown from here on."""
        self.held.learn(None, frame)
        self.pending = self.timer_ns = None

    def meet(self, method: int, presented: int, time_ns: int) -> MKey | None:
        """A request reaches the port: what it held when the key was wrong (whether or not the request is dropped), else None.

        Follows the lease: a refusal starts the timer, a right key stops it, its expiry sets the protect bits to 0.
        """
        held = self.held.now
        if held is None or held.key == 0 or method not in CHECKED:
            return None
        if presented == held.key or (self.pending is not None and presented == self.pending):
            self.timer_ns = None
            return None
        if held.lease:
            if self.timer_ns is not None and time_ns - self.timer_ns >= held.lease * 1_000_000_000:
                return held._replace(protect=0)
            if self.timer_ns is None and refuses(held, method, presented):
                self.timer_ns = time_ns
        return held

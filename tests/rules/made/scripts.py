"""Scripts of the laboratory of connections, for proofs: what happens, step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ibdissect.wire import cm
from tests.diagnosis.lab import MS, SEC, TIMEOUT, US, Lab

Script = Callable[[Lab], object]
LATER = 30 * SEC
"""How long captures go on: beyond all timers."""


def shown(*script: Script, snap: int = 65535, **more: Any) -> bytes:
    """The capture of a lab."""
    lab = Lab(**more)
    for step in script:
        step(lab)
    return lab.pcap(snap)


def busy(lab: Lab) -> None:
    """B sends to others, to the end of the capture, and they to it."""
    for i in range(60):
        lab.put(i * 500 * MS, lab.b, lab.a, 0x64, 9, i, payload=b"idle", ext={"DETH": {"q_key": 5, "srcqp": 7}})
        lab.put(i * 500 * MS + US, lab.a, lab.b, 0x64, 9, i, payload=b"idle", ext={"DETH": {"q_key": 5, "srcqp": 7}})


def tries(number: int, psn: int = 110, start: int = SEC, wait: int = TIMEOUT, **more: Any) -> Script:
    def step(lab: Lab) -> None:
        for i in range(number):
            lab.ask(start + i * wait, psn, **more)

    return step


def works(lab: Lab) -> None:
    """Ten SENDs that are acknowledged."""
    lab.good(lab.up(), 100, 10)


def told(psn: int, syndrome: int = 31, msn: int = 10, at: int = 8 * TIMEOUT, **more: Any) -> Script:
    return lambda lab: lab.answer(SEC + at, psn, syndrome, msn, **more)


def reject(reason: int, at: int = 100 * US, **more: Any) -> Script:
    return lambda lab: lab.short(at, cm.REJ_ID, cm.REJ, back=True, reason=reason, **more)


def beside(at: int, *, answered: bool = True) -> Script:
    """Small packets of other queue pairs between the same hosts, so long after the first try."""

    def step(lab: Lab) -> None:
        other = Lab(qa=0x331, qb=0x441)
        if answered:
            other.good(SEC + at, 700, 3)
        else:
            tries(8, 700, SEC + at)(other)
        lab.frames += other.frames

    return step

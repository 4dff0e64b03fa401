"""Proofs of the rules about traps and reports."""

from __future__ import annotations

from typing import Any

from ibdissect.wire.notice import GMPNotice, Notice, TrapLocalChange
from tests.craft import build, gmp, smp
from tests.rules.cases import case

TRAP, REPORT = 5, 6
LOCAL_CHANGE: dict[str, Any] = {"lidaddr": 5, "capabilitymask": 0x02514868}


def notice(number: int, kind: int, details: bytes = b"", **values: Any) -> bytes:
    """A generic notice."""
    head = {"is_generic": 1, "type": kind, "producer_type": 1, "trap_number": number, "issuer_lid": 5, **values}
    return build(Notice, **head, data_details=details)


def trap(number: int, kind: int, details: bytes = build(TrapLocalChange, **LOCAL_CHANGE), **values: Any) -> bytes:
    """A SubnTrap from LID 5."""
    return smp(TRAP, 2, notice(number, kind, details, **values), slid=5)


def report(number: int, kind: int) -> bytes:
    """A SubnAdmReport."""
    return gmp(0x03, REPORT, 2, notice(number, kind, producer_type=4) + bytes(GMPNotice.size - Notice.size), at=56)


case("TRP002", trap(144, 4, producer_type=9), trap(144, 4, producer_type=4))
case("TRP003", trap(144, 1), trap(144, 4))
case("TRP003", trap(144, 1), trap(144, 0x7F))
case("TRP004", trap(99, 4), trap(99, 4, is_generic=0))
case("TRP007", trap(144, 4, build(TrapLocalChange, lidaddr=5)), trap(144, 4, build(TrapLocalChange, lidaddr=5, change_flags=1)))
case("TRP009", trap(64, 3), report(64, 3))

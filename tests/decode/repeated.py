"""A plugin whose rules ask more of a subnet management packet than what it holds, so that they must judge each repetition of it."""

from __future__ import annotations

from ibdissect.wire.expr import Expr, Where
from ibdissect.wire.headers import BTH, ICRC, LRH, VCRC
from ibdissect.wire.mad import MAD
from ibdissect.wire.sm_port import PortInfo
from ibdissect.words import ERROR, Rule, column, previous

LATE = 595
late = column(MAD, "late", lambda view: int(view.transaction_id > LATE), "Late")
ASKED: dict[str, Expr] = {
    "PSN": BTH.psn > LATE,
    "TID": (PortInfo.lid == 5) & (MAD.transaction_id > LATE),
    "SUM": (MAD.transaction_id + PortInfo.lid) > LATE + 5,
    "BUT": ~((PortInfo.lid == 5) & (BTH.psn <= LATE)),
    "ICR": (ICRC.crc & 0x7F) == 0x11,
    "VCR": (VCRC.crc & 0x7F) == 0x11,
    "BEF": PortInfo.lid == previous(PortInfo.lid),
    "FUN": Where(PortInfo, lambda table: table.values(BTH.psn) > LATE),
    "CAL": late == 1,
    "LID": LRH.slid == 9,
    "SML": PortInfo.master_sm_lid == 7,
}  # fmt: skip


class Repeated(Rule):
    """It is asked again.

    Why.

    Do something.
    """

    code, name, severity = "REP001", "asked-again", ERROR
    on, when = PortInfo, BTH.psn > LATE
    message = "it is so"
    example = "a PortInfo"


for _number, (_name, _when) in enumerate(ASKED.items(), 2):
    _facts = {
        "code": f"REP{_number:03}",
        "name": f"asked-{_name.lower()}",
        "when": _when,
        "__doc__": Repeated.__doc__,
        "__module__": __name__,
    }
    globals()[_name] = type(_name, (Repeated,), _facts)

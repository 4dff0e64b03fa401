"""A plugin whose rules ask more of a subnet management packet than what it holds, so that they must judge each repetition of it."""

from __future__ import annotations

from ibdissect.wire.expr import Expr, Where
from ibdissect.wire.headers import BTH, ICRC, VCRC
from ibdissect.wire.mad import MAD
from ibdissect.wire.sm_port import PortInfo
from ibdissect.words import ERROR, Rule, column, previous

LATE = 1035
late = column(MAD, "late", lambda view: int(view.transaction_id > LATE), "Late")
ASKED: dict[str, Expr] = {
    "PSN": BTH.psn > LATE,
    "TID": (PortInfo.lid > 3) & (MAD.transaction_id > LATE),
    "SUM": (MAD.transaction_id + PortInfo.lid) > LATE + 6,
    "BUT": ~((PortInfo.lid > 3) & (BTH.psn <= LATE)),
    "ICR": ICRC.crc == 7,
    "VCR": VCRC.crc == 7,
    "BEF": PortInfo.lid < previous(PortInfo.lid),
    "FUN": Where(PortInfo, lambda table: table.values(BTH.psn) > LATE),
    "ONC": Where(PortInfo, lambda table: table.values(BTH.psn) > LATE, of_content=True),
    "CAL": late == 1,
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

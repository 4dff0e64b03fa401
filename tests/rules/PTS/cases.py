"""Proofs of the rules about several points: what others say of one's packets. tests/points/test_findings.py compares captures."""

from __future__ import annotations

from ibdissect.lint.point_faults import PointFault, PointFaults
from ibdissect.wire.headers import BTH
from tests.craft import rc
from tests.rules.cases import case

PACKETS = [rc(0x04, bytes(8), bth={"psn": psn}) for psn in (1, 2)]
BOTH = {"before": "A", "point": "B"}


def second_packet(code: str, **arguments: str) -> PointFaults:
    """Something is known of the second packet."""
    return PointFaults({code: [PointFault(2, arguments, at=BTH.p_key)]})


for code, arguments in (
    ("PTS001", {"after": "A", "before": "B", "proof": "the receiver asks for it"}), ("PTS002", BOTH),
    ("PTS003", {**BOTH, "what": "the P_Key"}),
    ("PTS006", {**BOTH, "packets": "3 packets"}),
    ("PTS005", {"after": "A", "before": "B", "proof": "two later points do not have it"}),
):  # fmt: skip
    case(code, PACKETS, PACKETS[:1], frames=[2], policy=second_packet(code, **arguments))

# its ICRC is right or wrong
DAMAGED = bytearray(PACKETS[1])
DAMAGED[-8] ^= 1
case("PTS004", [PACKETS[0], bytes(DAMAGED)], PACKETS, frames=[2], policy=second_packet("PTS004", **BOTH), also=["ROC006", "ROC007"])

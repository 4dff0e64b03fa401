"""Which VendorDiag pages report a failure or form a loop?"""

from __future__ import annotations

from typing import Any

from ibdissect.dropped import Dropped
from ibdissect.fabric.earlier_answers import AttributeSmps, others
from ibdissect.lint.rule import ERROR, WARNING, Context, Rule
from ibdissect.rules.shared.attribute_rule import AttributeRule, Mask
from ibdissect.rules.shared.mad_conditions import METHODS_WITH_CONTENT
from ibdissect.wire.mad import MAD
from ibdissect.wire.numbers import SET
from ibdissect.wire.sm import VendorDiag
from ibdissect.wire.sm_port import PortInfo

MAX_CHAINS = 4096


class DiagChainLoop(AttributeRule):
    """The diagnostic pages of a port form a ring.

    Each page names the next one, and 0 ends the chain; a reader that follows the ring never stops.

    Update the firmware; limit the number of pages that the tool reads.

    The pages of the ring, in answers of the port.
    """

    code, name, severity = "SEM030", "vendordiag-chain-loop", ERROR
    reference = "IBA 14.2.5.14"
    message = "VendorDiag page {page} of {port} names {following} as the next one, which leads back to it"
    example = "GetResp(VendorDiag) of page 7 with NextIndex 7"
    source = others(0x30)
    by_entry = True
    at = VendorDiag.next_index

    def __init__(self) -> None:
        self.following: dict[tuple[int, int, int], int] = {}
        """Next page by slot, port and page."""
        self.dropped = Dropped("pages of vendor diagnostics")

    def suspicious(self, smps: AttributeSmps, context: Context) -> Mask:
        return smps.answers & (smps.slot >= 0) & (smps.now(VendorDiag.next_index) != 0)

    def arguments(self, smps: AttributeSmps, i: int, context: Context) -> dict[str, Any] | None:
        slot, number, page = int(smps.slot[i]), int(smps.entered[i]), int(smps.modifier[i])
        following = int(smps.now(VendorDiag.next_index)[i])
        if len(self.following) >= MAX_CHAINS:
            self.dropped.add(int(smps.frames[i]), int(smps.event.table.chunk.time_ns[smps.rows[i]]), len(self.following))
            self.following.clear()
        self.following[slot, number, page] = following
        here, seen = following, set[int]()
        while here and here != page and here not in seen:
            seen.add(here)
            here = self.following.get((slot, number, here), 0)
        return {"page": page, "following": following} if page and here == page else None


class DiagFailure(Rule):
    """A port reports that its diagnostics failed.

    DiagCode 3 is a failure that needs attention, 4 a fatal one: the port may lose or damage packets.

    Read the vendor's diagnostic pages (VendorDiag) and replace the part.
    """

    code, name, severity = "SEM058", "diagcode-failure", WARNING
    reference = "IBA 14.2.5.6.1"
    message = "PortInfo with DiagCode 0x{diag_code:04x}"
    example = "GetResp(PortInfo) with DiagCode 4"
    when = (PortInfo.diag_code & 0xF).isin({3, 4}) & MAD.method.isin(METHODS_WITH_CONTENT - {SET})

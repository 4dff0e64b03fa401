"""GUIDInfo, LedInfo and VendorDiag that do not fit the port."""

from __future__ import annotations

from typing import ClassVar

from ibdissect.bounded import Dropped, KeptDict
from ibdissect.decode.identity import Code, Frame, NodeId, PortId
from ibdissect.lint.finding import Severity
from ibdissect.lint.rule import ERROR, INFO, WARNING, Context, FaultDetails, Hit, Rule
from ibdissect.lint.sequence import previous
from ibdissect.rules.shared.attribute_rule import (
    ANSWERED,
    OF_ADAPTER,
    WRITTEN,
    AgainstPortGuid,
    AttributeRule,
    Mask,
    adapters,
    node_info,
)
from ibdissect.rules.shared.mad_conditions import HAS_CONTENT, READ
from ibdissect.subnet.attribute_smps import AttributeSmp, AttributeSmps
from ibdissect.wire.headers import LRH
from ibdissect.wire.sm import LedInfo, VendorDiag
from ibdissect.wire.sm_port import PortInfo
from ibdissect.wire.sm_tables import GUIDInfo


class FirstGuidWritten(AgainstPortGuid):
    """A Set(GUIDInfo) writes a first GUID that is not the port's own.

    The first entry is the PortGUID and read-only. The port keeps its own; it may refuse the Set, including its other GUIDs.

    Write the PortGUID into entry 0.

    The Set, and NodeInfo of the port. 0 in entry 0 leaves it alone, and so does a GUID that the port itself shows in GUIDInfo. An `info`
    if the port answers that it took the block: it ignores the entry, as components that are read-only.
    """

    code, name, severity = "SEM047", "guidinfo-entry0-write", ERROR
    reference = "IBA 14.2.5.5"
    message = "Set(GUIDInfo) of {port} with 0x{guid:016x} in entry 0, the PortGUID is 0x{own:016x}"
    example = "NodeInfo of a port, then SubnSet(GUIDInfo) of block 0 with another GUID in entry 0"
    at = GUIDInfo.guid_block
    compared, refusable = "guid", True

    def suspicious(self, smps: AttributeSmps) -> Mask:
        return smps.sets & adapters(smps) & (smps.modifier == 0)

    def judge(self, smp: AttributeSmp) -> FaultDetails | None:
        port = smp.node.ports.get(smp.entered)
        guid = int.from_bytes(smp.body[slice(*GUIDInfo.guid_block.span)].tobytes(), "big")
        if port is None or not port.guid or guid in (0, port.guid):
            return None
        return {"guid": guid, "own": port.guid}, node_info(smp)


class NoGuids(AttributeRule):
    """An adapter or router port shows GUIDCap 0.

    Every port has at least one GUID, its PortGUID, and GUIDCap counts it; tools that rely on GUIDCap do not read the GUIDs at all.

    Update the firmware.
    """

    code, name, severity = "SEM016", "guidcap-zero", WARNING
    reference = "IBA 14.2.5.6"
    message = "{port} shows GUIDCap 0"
    example = "NodeInfo of a channel adapter, then its GetResp(PortInfo) with GUIDCap 0"
    at = PortInfo.guid_cap
    why = "NodeInfo"
    when = ANSWERED & OF_ADAPTER & (at == 0)


LED_SUPPORTED = 1 << 9
"""CapabilityMask.IsLEDInfoSupported."""


class LedUnsupported(AttributeRule):
    """A Set(LedInfo) goes to a port that has no LED to switch.

    The port answers with an error status or not at all; nobody will see its LED blink.

    Nothing; the port's CapabilityMask says whether it has an LED.

    The Set, and the CapabilityMask in PortInfo of the port before it.
    """

    code, name, severity = "SEM055", "ledinfo-unsupported", WARNING
    reference = "IBA 14.2.5.15"
    message = "Set(LedInfo) to {port}, whose CapabilityMask 0x{mask:08x} lacks IsLEDInfoSupported"
    example = "GetResp(PortInfo) with CapabilityMask bit 9 clear, then SubnSet(LedInfo)"
    by_entry = True
    at = LedInfo.led_mask
    refusable = True
    why = "CapabilityMask"
    mask = previous(PortInfo.capability_mask)
    when = WRITTEN & ((mask & LED_SUPPORTED) == 0)
    says: ClassVar = {"mask": mask}


class LedInfoReserved(Rule):
    """A LedInfo has reserved bits set.

    Only the most significant bit switches the LED. A 1 in the last bit does nothing.

    Write 0x80000000 for on and 0 for off.
    """

    code, name, severity = "SEM054", "ledinfo-reserved", INFO
    reference = "IBA 14.2.5.15"
    when = (LedInfo.reserved1 != 0) & HAS_CONTENT
    flow = (LRH.slid,)
    message = "LedInfo has reserved bits 0x{reserved1:08x}; only the first bit counts"
    example = "SubnSet(LedInfo) with the word 0x00000001"


MAX_CHAINS = 4096


class DiagChainLoop(AttributeRule):
    """The diagnostic pages of a port form a ring.

    Each page names the next one, and 0 ends the chain; a reader that follows the ring never stops.

    Update the firmware; limit the number of pages that the tool reads.

    The pages of the ring, in answers of the port. An `info` if a page of the port names another one when it is read again: the port made
    its pages anew while they were read.
    """

    code, name, severity = "SEM030", "vendordiag-chain-loop", ERROR
    reference = "IBA 14.2.5.14"
    message = "VendorDiag page {page} of {port} names {following} as the next one, which leads back to it"
    example = "GetResp(VendorDiag) of page 7 with NextIndex 7"
    by_entry = True
    at = VendorDiag.next_index

    def __init__(self) -> None:
        self.following: dict[tuple[PortId, Code], tuple[Code, Frame]] = {}
        """Next page and the frame that showed it, by port and page."""
        self.rings: dict[PortId, Frame] = {}
        """The frame that closed a ring, by port; 0 once a page of it was read again."""
        self.dropped = Dropped("pages of vendor diagnostics")
        self.broken = KeptDict[Frame, None](MAX_CHAINS, self.dropped)
        """Frames that closed a ring after which the port made its pages anew."""

    def suspicious(self, smps: AttributeSmps) -> Mask:
        return smps.answers & (smps.slot >= 0)

    def judge(self, smp: AttributeSmp) -> FaultDetails | None:
        port, page = PortId(NodeId(smp.slot), smp.entered), smp.modifier
        following = smp.now(VendorDiag.next_index)
        if len(self.following) >= MAX_CHAINS:
            self.dropped.add(smp.frame, smp.time_ns, len(self.following))
            self.following.clear()
            for one in [*self.rings]:
                self._break(one, smp)  # whether its pages stay is not known
        if self.following.get((port, page), (following, 0))[0] != following:  # other pages than before, all of them
            self.following = {known: then for known, then in self.following.items() if known[0] != port}
            self._break(port, smp)
        self.following[port, page] = following, smp.frame  # 0 ends the chain
        here, ring = following, dict[Code, Frame]()
        while here and here != page and here not in ring:
            following_it, ring[here] = self.following.get((port, here), (0, 0))
            here = following_it
        if not page or here != page:
            return None
        self.rings[port] = 0 if port in self.rings else smp.frame
        return {"page": page, "following": following}, [(frame, "a page of the ring") for frame in sorted(ring.values())]

    def _break(self, port: PortId, smp: AttributeSmp) -> None:
        """The pages of a port may be others from now on."""
        closed = self.rings.pop(port, 0)
        if closed:
            self.broken.keep(Frame(closed), None, smp.frame, smp.time_ns)

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        """An info if the pages did not stay as they were."""
        return INFO if hit.frame in self.broken else super().severity_at_end(hit, context)


class DiagFailure(Rule):
    """A port reports that its diagnostics failed.

    DiagCode 3 is a failure that needs attention, 4 a fatal one: the port may lose or damage packets.

    Read the vendor's diagnostic pages (VendorDiag) and replace the part.
    """

    code, name, severity = "SEM058", "diagcode-failure", WARNING
    reference = "IBA 14.2.5.6.1"
    message = "the port reports a failure: DiagCode 0x{diag_code:04x}"
    example = "GetResp(PortInfo) with DiagCode 4"
    when = (PortInfo.diag_code & 0xF).isin({3, 4}) & READ

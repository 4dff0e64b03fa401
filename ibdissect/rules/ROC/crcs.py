"""Packets that were changed or damaged after they were sent: wrong ICRCs and VCRCs."""

from __future__ import annotations

from collections import Counter

import numpy as np
import numpy.typing as npt

from ibdissect.decode import ChunkTable, crcs
from ibdissect.decode.addresses import NOWHERE
from ibdissect.decode.identity import Index
from ibdissect.diagnosis.diagnosis_for_rules import Stories
from ibdissect.lint.finding import Severity
from ibdissect.lint.rule import ERROR, INFO, WARNING, Context, Hit, Rule, Seen, on_chunk
from ibdissect.rules.shared.accepted_after_all import sent_again, sent_by, would_answer
from ibdissect.rules.shared.packet_flows import PACKET_FLOW
from ibdissect.transport.psn_streams import Streams
from ibdissect.wire.expr import Where, present
from ibdissect.wire.headers import ICRC, LRH, VCRC

LEAST, SHARE = 10, 0.9
"""So many packets whose VCRC alone is wrong, and this part of all, are not damaged: such a link carries nothing."""


def _bad_icrc(table: ChunkTable) -> npt.NDArray[np.bool_]:
    return table.once(crcs.icrc).bad[table.occurrences(ICRC).rows]


class WrongIcrcRule(Rule):
    """Base of rules about packets with a wrong ICRC: silent for senders that compute all of theirs wrongly, of which CNX017 tells."""

    needs = (Stories, Streams)
    needs_crc = True
    flow = PACKET_FLOW
    message = "the ICRC does not match the packet: it was changed after it was sent, or its sender computed it wrongly; receivers drop it"

    def __init__(self) -> None:
        self.right = self.wrong = 0
        """Packets of the capture with a right ICRC, and with a wrong one."""

    @on_chunk
    def count(self, table: ChunkTable, _context: Context) -> None:
        icrc = table.once(crcs.icrc)
        wrong = int(np.count_nonzero(icrc.bad))
        self.wrong += wrong
        self.right += len(icrc.rows) - wrong - int(np.count_nonzero(icrc.zero))

    def watch(self, hit: Hit, context: Context) -> None:
        table = context.table
        if table is not None and 0 <= (row := hit.frame - table.chunk.first) < len(table):
            hit.arguments |= sent_by(Seen(table, row))

    def stands(self, hit: Hit, context: Context) -> bool:
        return not context.get(Stories).computes_wrongly(hit.arguments.get("ends", (NOWHERE,))[0])

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        """INFO where no ICRC of several is right, and the receiver answers or the packet is not sent again: addresses were replaced in the
        file."""
        replaced = self.wrong > 1 and not self.right and "ends" in hit.arguments
        return INFO if replaced and (would_answer(hit, context) or not sent_again(hit, context)) else None


class RoceIcrcBad(WrongIcrcRule):
    """The ICRC of a RoCE packet is wrong.

    Something between sender and capture changed bytes that must not change: a faulty cable, card or switch memory, or a middlebox. The
    receiver drops the packet silently, and the sender retransmits after a timeout.

    Find out where wrong packets come from: one link points to its hardware, one device that all flows pass to that device.

    One whole packet. Silent for a host whose packets are nearly all wrong: it computes them wrongly, see CNX017. An `info` where the ICRCs
    of several packets are wrong and none is right, unless the packet is sent again and its receiver answers nothing: somebody replaced the
    addresses in the file. A capture taken on the sender itself may show packets before the card wrote the checksum; see ROC005.
    """

    code, name, severity = "ROC004", "roce-icrc-bad", ERROR
    reference = "RoCE Annexes A16, A17 (ICRC); verified on soft-RoCE captures"
    when = Where(ICRC.crc, _bad_icrc) & ~present(LRH)
    example = "a RoCE v2 packet with one payload bit flipped"


class IcrcMissing(Rule):
    """Packets hold zero where their ICRC belongs.

    Either they were captured on the sending host, before the hardware computed the checksum, or their sender leaves it out. Damage to such
    packets cannot be seen.

    Nothing, if the capture was taken on the sender; elsewhere, look at the sender: a receiver drops what comes without an ICRC.
    """

    code, name, severity = "ROC005", "icrc-zero", INFO
    reference = "captures on the transmitting side"
    needs_crc = True
    when = Where(ICRC.crc, lambda table: table.once(crcs.icrc).zero[table.occurrences(ICRC).rows])
    flow = (ICRC.crc,)
    message = "the ICRC is zero: captured on its sender before the hardware computed it, or not computed at all"
    example = "a packet with four zero bytes for its ICRC"


class IcrcBad(WrongIcrcRule):
    """The ICRC of an InfiniBand packet is wrong.

    The ICRC covers everything that no switch changes, from sender to receiver. If it is wrong but the VCRC is right, a device on
    the way damaged the packet and computed a new VCRC. The receiver drops it.

    Compare captures before and after each switch on the path; look at the symbol and link error counters of the ports.

    One whole packet. An `info` where the ICRCs of several packets are wrong and none is right, unless the packet is sent again and its
    receiver answers nothing: somebody replaced the addresses in the file.
    """

    code, name, severity = "ROC006", "ib-icrc-bad", ERROR
    explains = ("TXN001",)
    reference = "IBA 7.8.1"
    when = Where(ICRC.crc, _bad_icrc) & present(LRH)
    example = "an InfiniBand packet with one payload bit flipped"


class VcrcBad(Rule):
    """The VCRC of an InfiniBand packet is wrong.

    The VCRC protects one link. A wrong one means bit errors on the captured link, or a capture device that changes headers (virtual
    lane) without computing it again. The port at the end of the link drops the packet.

    Read the error counters of both ports of the link; replace the cable if they grow.

    One whole packet. A zero VCRC counts as not captured. An `info` where nine of ten packets that the interface recorded, and ten at least,
    are whole but for their VCRC: the recorder did not keep it, or changed the virtual lane.
    """

    code, name, severity = "ROC007", "vcrc-bad", WARNING
    reference = "IBA 7.8.2"
    needs_crc = True
    when = Where(VCRC.crc, lambda table: table.once(crcs.vcrc).bad[table.occurrences(VCRC).rows])
    flow = PACKET_FLOW
    message = "the VCRC does not match the packet: it was damaged on this link"
    example = "an InfiniBand packet with its VCRC inverted"

    def __init__(self) -> None:
        self.checked, self.unkept = Counter[Index](), Counter[Index]()
        """Packets of each interface with a VCRC, and those of which it alone is wrong."""

    @on_chunk
    def count(self, table: ChunkTable, _context: Context) -> None:
        vcrc = table.once(crcs.vcrc)
        if not len(vcrc.rows):
            return
        wrong = np.flatnonzero(vcrc.bad)
        wrong = wrong[~table.once(crcs.icrc).bad[wrong]] if len(wrong) else wrong
        for counts, rows in ((self.checked, vcrc.rows), (self.unkept, wrong)):
            counts.update({Index(i): n for i, n in enumerate(np.bincount(table.chunk.interface[rows]).tolist())})

    def watch(self, hit: Hit, context: Context) -> None:
        table = context.table
        hit.arguments["interface"] = int(table.chunk.interface[hit.frame - table.chunk.first]) if table is not None else 0

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        unkept, checked = (counts[Index(hit.arguments["interface"])] for counts in (self.unkept, self.checked))
        return INFO if unkept >= max(LEAST, SHARE * checked) else None

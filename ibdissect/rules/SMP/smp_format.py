"""SMPs that are wrong as packets: size, method, queue pair, reserved bytes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ibdissect.capture.gather import gather
from ibdissect.decode import ChunkTable
from ibdissect.decode.bit_fields import value_at
from ibdissect.decode.equal_rows import is_in
from ibdissect.lint.finding import Span
from ibdissect.lint.rule import ERROR, WARNING, Context, Hit, Rule, Seen, each, fault, on_chunk
from ibdissect.rules.shared.mad_conditions import BY_SMP, METHODS_OF, REFUSED
from ibdissect.wire.headers import BTH, LRH
from ibdissect.wire.mad import MAD
from ibdissect.wire.numbers import GET_RESP, LID_ROUTED, MANAGEMENT_VL, SMP_CLASSES, TRAP_REPRESS
from ibdissect.wire.opcodes import UD_SEND_ONLY
from ibdissect.wire.sm import SMP


class SMPSize(Rule):
    """A subnet management packet does not hold 256 bytes.

    A receiver discards an SMP of another size without an answer, or reads the path of a directed route from the wrong place.

    Correct the sender; if only some captures show it, check the capture tool.

    One packet that was captured whole; packets cut by a snap length are not judged.
    """

    code, name, severity = "SMP001", "smp-not-256-bytes", ERROR
    reference = "IBA 13.4.2"
    message = "an SMP of {length} bytes, 256 are required"
    example = "a SubnGet whose packet ends after the attribute"

    @on_chunk
    def look(self, table: ChunkTable, _context: Context) -> Iterator[Hit]:
        found = table.occurrences(MAD)
        length = found.stop - found.at
        odd = (length != SMP.size) & table.located.complete[found.rows] & ~table.located.snapped[found.rows]
        for i, seen, view in each(table, MAD, odd):
            if view.mgmt_class in SMP_CLASSES and view.base_version == 1:
                yield fault(seen, {"length": int(length[i])}, MAD.mgmt_class, of=view)


class SMPMethod(Rule):
    """An SMP has a method that subnet management does not define.

    Subnet management has Get, Set, GetResp, Trap and TrapRepress. Any other is answered with status 2 or not at all.

    Correct the sender; a general-services method in an SMP usually means that the management class is wrong.
    """

    code, name, severity = "SMP002", "smp-method-invalid", ERROR
    explains = ("TXN006", "TXN008")
    reference = "IBA 14.2.4"
    when = ~MAD.method.isin(METHODS_OF[LID_ROUTED]) & BY_SMP & (MAD.base_version == 1) & ~REFUSED
    message = "method 0x{method:02x} does not exist in subnet management"
    example = "a class 0x01 MAD with method 0x06 (Report)"


class LIDRoutedLeftovers(Rule):
    """A LID-routed SMP has data in bytes that only directed routes use.

    Bytes 32-63 and 128-255 are reserved in class 0x01. Most such data is left over from a directed-route packet: it leaks memory, and a
    strict receiver may discard the packet.

    Clear the buffer before building the packet; if it is firmware, report it to the vendor.

    One packet is enough.
    """

    code, name, severity = "SMP009", "dr-fields-on-lid-routed", WARNING
    reference = "IBA 14.2.1.1; python-rdma SMPFormat"
    flow = (LRH.slid,)
    message = "reserved bytes of a LID-routed SMP are not zero, first byte {byte}"
    example = "a class 0x01 SubnGet whose bytes 128-191 hold an InitialPath"

    @on_chunk
    def look(self, table: ChunkTable, _context: Context) -> Iterator[Hit]:
        found = table.occurrences(SMP)
        reserved = np.concatenate([gather(table.chunk.data, found.at + low, high - low) for low, high in ((32, 64), (128, 256))], axis=1)
        for i, seen, view in each(table, SMP, reserved.view(np.uint64).any(axis=1)):
            byte = int((reserved[i] != 0).argmax())
            byte += 32 if byte < 32 else 96
            yield fault(seen, {"byte": byte}, spans=(Span(seen.frame, view.offset + byte, 1),), key=seen.value(LRH.slid))


class ResponseToOtherQP(Rule):
    """An SMP response goes to a queue pair other than 0.

    Only QP0 serves subnet management; a response to another QP never reaches the manager, which then retries and gives up.

    Correct the responder: it must answer to QP0. (An SMP to QP1 is reported as SMP024.)

    One packet is enough.
    """

    code, name, severity = "SMP017", "response-not-to-qp0", ERROR
    explains = ("LNK009", "LNK010")
    reference = "IBA 3.9, 14.2.3"
    at = BTH.destqp
    message = "an SMP response (method 0x{method:02x}) to QP {qp}, only QP0 takes it"
    example = "a SubnGetResp on VL15 with DestQP 5"

    @on_chunk
    def look(self, table: ChunkTable, _context: Context) -> Iterator[Hit]:
        """UD packets on VL15 beyond QP1 whose payload looks like an SMP response; `locate` looks for MADs on QP0 and QP1 only."""
        data, located = table.chunk.data, table.located
        rows = table.occurrences(LRH).rows[table.values(LRH.vl) == MANAGEMENT_VL]
        rows = rows[located.at("mad")[rows] < 0]
        if not rows.size:
            return
        bth, mad = located.at("bth")[rows], located.at("payload")[rows]
        keep = (bth >= 0) & (mad >= 0) & (mad + MAD.size <= located.payload_end[rows])
        rows, bth, mad = rows[keep], bth[keep], mad[keep]
        keep = (value_at(data, bth, BTH.destqp) > 1) & (value_at(data, bth, BTH.opcode) == UD_SEND_ONLY)
        rows, mad = rows[keep], mad[keep]
        version, mgmt_class, method = (value_at(data, mad, field) for field in (MAD.base_version, MAD.mgmt_class, MAD.method))
        keep = (version == 1) & is_in(mgmt_class, np.array([*SMP_CLASSES])) & is_in(method, np.array([GET_RESP, TRAP_REPRESS]))
        for row, number in zip(rows[keep].tolist(), method[keep].tolist(), strict=True):
            seen = Seen(table, row)
            yield fault(seen, {"qp": seen.value(BTH.destqp), "method": number}, self.at, of=seen.first(BTH))


class SMPOnQP1(Rule):
    """A subnet management MAD is sent to QP1.

    Classes 0x01 and 0x81 belong to QP0 and VL15, where only privileged software can send. On QP1 they are discarded; the sender may be
    trying to get around the privilege.

    Find the sender by its LID; if it is not just a broken tool that uses the wrong QP, treat it as an intrusion attempt.
    """

    code, name, severity = "SMP024", "mad-1-class-as-gmp", ERROR
    explains = ("LNK009", "LNK010", "QKY001", "QKY007", "SMP012")
    reference = "IBA 3.9, 14.2.3"
    when = BY_SMP & (BTH.destqp == 1)
    message = "management class 0x{mgmt_class:02x} on QP1, subnet management belongs to QP0"
    example = "a SubnGet with DestQP 1 and Q_Key 0x80010000"

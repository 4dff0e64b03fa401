"""Acknowledgements, atomics and RDMA requests that are wrong by themselves."""

from __future__ import annotations

from typing import Any

import numpy as np

from ibdissect.bounded import KeptDict
from ibdissect.decode.capture_places import Scopes
from ibdissect.decode.history import SECOND_NS
from ibdissect.decode.identity import Code, PairId
from ibdissect.lint.finding import Severity
from ibdissect.lint.rule import ERROR, INFO, WARNING, Context, Hit, Rule, Seen
from ibdissect.rules.shared.accepted_after_all import MAX_PAIRS, AcceptedRule
from ibdissect.rules.shared.packet_flows import KNOWN_HEADERS, PACKET_FLOW, PacketRule, carries_payload, room_behind_headers
from ibdissect.transport.psn_streams import Streams
from ibdissect.wire.expr import Where, present
from ibdissect.wire.headers import AETH, BTH, RETH, Payload
from ibdissect.wire.opcodes import OPCODES

NAK, LAST_NAK_CODE = 0x60, 4
REFUSALS = frozenset({1, 2})
"""Codes of NAKs of an invalid request, and of one without permission (IBA 9.7.5.2.8)."""
ATOMIC = frozenset(code for code, opcode in OPCODES.items() if {"AtomicETH", "AtomicAckETH"} & set(opcode.headers))
WRITE = frozenset(code for code, opcode in OPCODES.items() if opcode.operation.startswith("RDMA WRITE") and "RETH" in opcode.headers)
_ATOMIC = np.array([code in ATOMIC for code in range(256)])


class NakReceived(Rule):
    """A responder refused a request (NAK).

    A sequence error says that packets were lost on the way; the sender repeats them. Every other NAK ends the connection: an
    R_Key without permission, a length that does not fit, or an error of the responder.

    After a sequence error look for drops and bad ICRCs on the path; after another one compare the request's R_Key, address and length with
    the registered memory.

    An `info` for a sequence error, from which connections recover (RC011 tells of those that did not). A NAK that ended a connection is
    told by CNX011 to CNX014.
    """

    code, name, severity = "RC004", "nak-received", WARNING
    reference = "IBA 9.3.5; Wireshark AETH codes"
    when = (AETH.syndrome >= NAK) & (AETH.syndrome <= NAK + LAST_NAK_CODE) & KNOWN_HEADERS
    flow = (*PACKET_FLOW, AETH.syndrome)
    message = "NAK for PSN {BTH.psn}: {error_code!t}"
    example = "an Acknowledge with syndrome 0x62"

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        return INFO if hit.value == NAK else None


class NakReservedCode(Rule):
    """A NAK has a reserved code.

    The requester cannot tell what failed; most requesters end the connection.

    Check the ICRC, then the responder's firmware.
    """

    code, name, severity = "RC005", "nak-reserved-code", ERROR
    explains = ("CNX013",)
    reference = "IBA 9.3.5; Wireshark AETH codes"
    when = (AETH.syndrome > NAK + LAST_NAK_CODE) & (AETH.syndrome < 0x80) & KNOWN_HEADERS
    flow = (*PACKET_FLOW, AETH.syndrome)
    message = "NAK with reserved code {error_code}"
    example = "an Acknowledge with syndrome 0x7f"


class SyndromeReserved(Rule):
    """The syndrome of an acknowledgement is reserved: it is neither ACK nor NAK.

    The requester drops it and waits until its timer expires.

    Check the ICRC, then the responder's firmware.
    """

    code, name, severity = "RC006", "aeth-reserved-opcode", ERROR
    reference = "IBA 9.3.5; Wireshark AETH codes"
    when = ((AETH.syndrome >= 0x80) | (AETH.syndrome_opcode == 2)) & KNOWN_HEADERS
    flow = (*PACKET_FLOW, AETH.syndrome)
    message = "the syndrome 0x{syndrome:02x} is reserved: neither ACK nor NAK"
    example = "an Acknowledge with syndrome 0xc0"


class AtomicLength(PacketRule):
    """An atomic operation, or its acknowledgement, carries payload.

    The operands and the result are in the headers; there is nothing else to send. The receiver drops the packet.

    Check the sender; atomic operations on more than 8 bytes are a vendor's extension.
    """

    code, name, severity = "RC016", "atomic-with-payload", ERROR
    reference = "IBA 9.3.4, 9.3.5.3"
    when = Where(BTH.opcode, carries_payload(_ATOMIC))
    message = "{opcode!t} carries {carried:byte} behind its headers, where an atomic operation has nothing"
    example = "a FetchAdd with four bytes of payload"

    def computed(self, seen: Seen, i: int) -> dict[str, Any]:
        return {"carried": int(seen.table.once(room_behind_headers)[i])}


class RKeyZero(AcceptedRule):
    """An RDMA request names no memory: its R_Key is 0.

    Memory regions of most adapters do not get the key 0: the responder refuses access and the connection ends. Requests of length 0 may
    have it; some adapters use it for the memory of the kernel.

    Check how the application sent the R_Key to its peer; it was probably never sent or filled in.

    One request, in a capture that shows what comes back. Silent if the responder answers the requester later without a NAK, or the
    requester sends on to that queue pair for a second: a refusal would have ended the connection. An `info` where no response of the
    responder is seen, or the capture ends within a second and before it refuses.
    """

    code, name, severity = "RC018", "rkey-zero", WARNING
    reference = "IBA 9.3.3"
    when = (RETH.r_key == 0) & (RETH.dmalen > 0) & KNOWN_HEADERS
    proved_by = REFUSALS
    message = "{BTH.opcode!t} of {dmalen:byte} with R_Key 0, which no memory of most adapters has"
    example = "an RDMA WRITE of 5 bytes with R_Key 0"
    needs = (Scopes, Streams)

    def __init__(self) -> None:
        super().__init__()
        self.first = KeptDict[tuple[PairId, Code], int](MAX_PAIRS, "senders of requests without R_Key")
        """When each of them sent the first one to a queue pair."""

    def computed(self, seen: Seen, i: int) -> dict[str, Any]:
        about, queue_pair = super().computed(seen, i), seen.value(BTH.destqp)
        self.first.get_or_make((about["pair"], queue_pair), lambda: seen.time_ns, seen.frame, seen.time_ns)
        return {**about, "queue_pair": queue_pair}

    def stands(self, hit: Hit, context: Context) -> bool:
        queue_pair = hit.arguments["queue_pair"]
        since = self.first.get((hit.arguments["pair"], queue_pair), hit.time_ns)
        sent = [one for one in context.get(Streams).to_queue_pair(queue_pair) if not one.response and one.first_frame <= hit.frame]
        return not any(one.last_ns - since > SECOND_NS for one in sent) and super().stands(hit, context)

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        """An info where nothing comes back from the receiver, or may still come: it may take the packet."""
        return super().severity_at_end(hit, context) if self.shown(hit, context) else INFO


class LengthZeroWrite(PacketRule):
    """An RDMA WRITE of length 0 carries payload.

    The responder writes by the length in the header; the payload is lost or the request refused.

    Look at how the sender's driver fills DMALen.
    """

    code, name, severity = "RC020", "dma-len-zero-write", INFO
    reference = "IBA 9.3.3"
    when = (RETH.dmalen == 0) & BTH.opcode.isin(WRITE) & present(Payload) & KNOWN_HEADERS
    message = "{BTH.opcode!t} announces 0 bytes (DMALen) and carries payload"
    example = "an RDMA WRITE Only with DMALen 0 and four bytes of payload"

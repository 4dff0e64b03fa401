"""Wrong fields and lengths of the base transport header (BTH), whatever the connection."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ibdissect.capture.gather import looked_up
from ibdissect.decode import Bool, ChunkTable, locate
from ibdissect.engine import offsets
from ibdissect.lint.finding import Severity
from ibdissect.lint.rule import ERROR, INFO, WARNING, Context, Hit, Rule, Seen
from ibdissect.rules.shared.packet_flows import (
    KNOWN_HEADERS,
    PACKET_FLOW,
    RELIABLE_DATAGRAM,
    PacketRule,
    gid_bytes,
    of_several_hosts,
    room_behind_headers,
)
from ibdissect.wire.encapsulation import IPv4, IPv6
from ibdissect.wire.expr import Where, present
from ibdissect.wire.headers import BTH, GRH, LRH, RETH
from ibdissect.wire.numbers import FIRST_MULTICAST, LAST_MULTICAST, MULTICAST_QP
from ibdissect.wire.opcodes import CNP_OPCODE, DATAGRAMS, DEFINED, MANUFACTURER, NATIVE_CNP_OPCODE, OPCODES, UC

CONNECTED = frozenset(code for code in OPCODES if code < 0x60 or code >= 0xA0)
"""RC, UC, RD and XRC: everything but datagrams and congestion notifications."""
UNRELIABLE = DATAGRAMS | frozenset(code for code in OPCODES if code & 0xE0 == UC)
CONTINUED = frozenset(code for code, opcode in OPCODES.items() if opcode.operation.split()[-1] in ("First", "Middle"))
"""Packets that are followed by another one of the same message."""
RESPONSES = frozenset(code for code, opcode in OPCODES.items() if not opcode.request)
ALIGNED = 4
"""Payload and pad bytes are a multiple of so many bytes."""
_CONTINUED = np.array([code in CONTINUED for code in range(256)])
_IMMEDIATE = np.array([code in OPCODES and "ImmDt" in OPCODES[code].headers for code in range(256)])
TO_MULTICAST_LID = LRH.dlid.between(FIRST_MULTICAST, LAST_MULTICAST)
TO_MULTICAST_IP = (~present(LRH)) & present(BTH) & (
    Where(IPv4, lambda table: table.values(IPv4.destination)[:, 0] >> 4 == 0xE)
    | Where(IPv6, lambda table: table.values(IPv6.destination)[:, 0] == 0xFF)
)  # fmt: skip
TO_UNICAST = (LRH.dlid < FIRST_MULTICAST) | (
    ~present(LRH)
    & (
        Where(IPv4, lambda table: ~of_several_hosts(table.values(IPv4.destination)))
        | gid_bytes(IPv6.destination, lambda ip: ip[:, 0] != 0xFF)
        | (gid_bytes(GRH.dgid, lambda gid: gid[:, 0] != 0xFF) & ~present(IPv4) & ~present(IPv6))
    )
)


def continued(table: ChunkTable) -> Bool:
    """First and Middle packets, bool of each BTH."""
    return looked_up(table.values(BTH.opcode), _CONTINUED)


def _pad_impossible(table: ChunkTable) -> Bool:
    """More pad bytes than payload, any in a packet that is not the last of its message, or too few to fill the last four bytes."""
    pad, room = table.values(BTH.padcnt), table.once(room_behind_headers)
    bad: Bool = (room >= 0) & (((pad != 0) & ((pad > room) | table.once(continued))) | (room % ALIGNED != 0))
    return bad


def _headers_cut(table: ChunkTable) -> Bool:
    """The extended headers do not fit."""
    cut: Bool = table.located.malformed[table.occurrences(BTH).rows] == offsets.NO_EXTENDED
    return cut


def _immediate_cut(table: ChunkTable) -> Bool:
    """All extended headers fit except the immediate data, their last four bytes."""
    loc, found = table.located, table.occurrences(BTH)
    opcode = loc.opcode[found.rows]
    missing = found.at + BTH.size + locate.EXTENDED_SIZE[opcode] - loc.limit[found.rows]
    return _IMMEDIATE[opcode] & (missing > 0) & (missing <= 4)


class OpcodeUnknown(Rule):
    """The OpCode is not defined.

    The receiver cannot know which headers follow and drops the packet. An OpCode newer than this program looks the same.

    Check the ICRC: if it is wrong, the packet was damaged; otherwise the sender uses an extension that the receiver lacks.

    One packet is enough. OpCodes from 0xC0 on (class bits 110 and 111) belong to manufacturers and are not reported.
    """

    code, name, severity = "BTH001", "opcode-unknown", ERROR
    explains = ("LNK009", "LNK010")
    reference = "IBA 9.2; Linux rdma/ib_pack.h; Annexes A14 and A19"
    when = ~BTH.opcode.isin(DEFINED)
    flow = (*PACKET_FLOW, BTH.opcode)
    message = "OpCode 0x{opcode:02x} is not defined"
    example = "a packet with OpCode 0x1f"


class OpcodeDynamic(PacketRule):
    """The OpCode belongs to reliable datagrams, whose numbers hardware uses for another transport today.

    Nobody built reliable datagrams; NVIDIA's dynamically connected transport (DC) uses their OpCodes with other headers, so the headers
    shown here may be wrong. No rule judges what follows the BTH of these packets.

    Nothing, if the adapters are NVIDIA's and the application uses DC.
    """

    code, name, severity = "BTH002", "opcode-rd-or-dc", INFO
    reference = "Wireshark DctOpCodeMap"
    when = BTH.opcode.isin(RELIABLE_DATAGRAM)
    message = "OpCode 0x{opcode:02x} is reliable datagram in the standard, and dynamically connected (DC) on NVIDIA hardware"
    example = "a packet with OpCode 0x44"


class TransportVersion(PacketRule):
    """The version of the transport header is not 0.

    Only version 0 exists; a receiver drops others.

    Check the ICRC: if it is wrong, the packet was damaged; otherwise the sender is faulty.
    """

    code, name, severity = "BTH003", "bth-version-not-0", ERROR
    reference = "IBA 9.2"
    when = (BTH.tver != 0) & (BTH.opcode < MANUFACTURER)
    message = "transport header version {tver}, only 0 exists"
    example = "a packet with TVer 1"


class TransportReservedBits(PacketRule):
    """Reserved bits of the transport header are not zero.

    Receivers ignore them. The sender did not clear its memory, or uses the bits for something of its own.

    Report it to the vendor of the sender; it breaks nothing today.

    One packet is enough. OpCodes from 0xC0 on belong to manufacturers, who may use the bits. An `info` for RoCE: adapters mark packets
    there that may arrive in any order, for switches with adaptive routing.
    """

    code, name, severity = "BTH004", "bth-reserved", WARNING
    reference = "IBA 9.2"
    when = ((BTH.reserved6 != 0) | (BTH.reserved7 != 0)) & (BTH.opcode < MANUFACTURER)
    at = BTH.reserved7
    message = "reserved bits of the BTH are 0x{reserved6:02x} (behind BECN) and 0x{reserved7:02x} (before the PSN) instead of 0"
    example = "a packet whose reserved bits before the PSN are 1"

    def computed(self, seen: Seen, i: int) -> dict[str, Any]:
        return {"native": seen.first(LRH) is not None}

    def severity_at_end(self, hit: Hit, context: Context) -> Severity | None:
        return super().severity_at_end(hit, context) if hit.arguments["native"] else INFO


class PadCount(Rule):
    """The pad count is impossible.

    Pad bytes fill the last packet of a message up to a multiple of four bytes. If there are more than payload bytes, any in a First or
    Middle packet, or too few of them, the receiver drops it or writes a message of the wrong length.

    Look at the sender's driver or firmware; in software implementations at how the last fragment is built.
    """

    code, name, severity = "BTH005", "bth-padcnt-unaligned", ERROR
    reference = "IBA 9.2"
    when = Where(BTH.padcnt, _pad_impossible)
    flow = (*PACKET_FLOW, BTH.opcode)
    message = "pad count {padcnt} in {opcode!t}: {why}"
    example = "a SEND First with pad count 2"

    def computed(self, seen: Seen, i: int) -> dict[str, Any]:
        room = int(seen.table.once(room_behind_headers)[i])
        if room % ALIGNED:
            return {"why": f"payload and pad are {room} bytes, which is no multiple of {ALIGNED}"}
        return {"why": "only the end of a message is padded, by no more bytes than it has"}


class HeadersCut(Rule):
    """A packet ends inside the headers that its OpCode announces.

    The receiver drops it. Sender and receiver do not agree about the OpCode, or the packet was damaged.

    Check the ICRC, then the sender.
    """

    code, name, severity = "BTH009", "payload-too-short-for-headers", ERROR
    reference = "IBA 9.2 to 9.3; sizes of the extended headers"
    when = Where(BTH.opcode, _headers_cut) & ~Where(BTH, _immediate_cut) & KNOWN_HEADERS
    flow = (*PACKET_FLOW, BTH.opcode)
    message = "the packet ends inside the extended headers of {opcode!t}"
    example = "an RDMA READ Request with 8 bytes after the BTH"


class ConnectedToManagement(PacketRule):
    """A packet of a connected service goes to queue pair 0 or 1.

    Both are management queue pairs and accept only datagrams. The packet is dropped; the sender retries until its connection fails.

    Check how the sender learnt its peer's queue pair number: 0 or 1 may be an unset field.
    """

    code, name, severity = "BTH010", "destqp-zero-rc", ERROR
    reference = "IBA 3.9"
    when = (BTH.destqp <= 1) & BTH.opcode.isin(CONNECTED)
    message = "{opcode!t} to queue pair {destqp}: the management queue pairs accept only datagrams"
    example = "an RC SEND to queue pair 1"


class MulticastQpUnicast(PacketRule):
    """A unicast packet addresses the multicast queue pair.

    0xFFFFFF means "all queue pairs of the group". With a unicast address there is no group to look up, so the receiver drops it.

    Check the sender's address handle: its LID, GID or IP address is that of a single port.
    """

    code, name, severity = "BTH011", "destqp-multicast-unicast-dlid", ERROR
    reference = "multicast frames of public captures"
    when = (BTH.destqp == MULTICAST_QP) & TO_UNICAST
    message = "queue pair 0xffffff (multicast) in a packet to a unicast address"
    example = "a UD packet to queue pair 0xffffff at LID 5"


class MulticastLidOtherQp(PacketRule):
    """A packet to a multicast LID names a single queue pair.

    Receivers of a group accept packets for queue pair 0xFFFFFF only, and drop this one.

    Set the queue pair to 0xFFFFFF in the sender's work request.
    """

    code, name, severity = "BTH012", "mcast-dlid-to-one-qp", ERROR
    reference = "multicast frames of public captures"
    when = (BTH.destqp != MULTICAST_QP) & TO_MULTICAST_LID & (BTH.opcode < MANUFACTURER)
    message = "queue pair 0x{destqp:06x} in a packet to multicast LID 0x{LRH.dlid:04x}; it must be 0xffffff"
    example = "a UD packet to queue pair 5 at LID 0xC001"


class MulticastNotDatagram(PacketRule):
    """A packet to a multicast LID or IP address is not a datagram.

    Only unreliable datagrams can be multicast: a connection has two ends. The packet is dropped.

    Check the address of the connection; a multicast LID there comes from a wrong path record.
    """

    code, name, severity = "BTH013", "non-ud-to-mcast", ERROR
    reference = "multicast frames of public captures are UD"
    when = ~BTH.opcode.isin(DATAGRAMS) & (BTH.opcode < MANUFACTURER) & (TO_MULTICAST_LID | TO_MULTICAST_IP)
    message = "{opcode!t} to multicast {what}: only UD packets can be multicast"
    example = "an RC SEND to LID 0xC001"

    def computed(self, seen: Seen, i: int) -> dict[str, Any]:
        dlid = seen.value(LRH.dlid)
        return {"what": f"LID 0x{dlid:04x}" if dlid else "IP address"}


class AckRequestUnreliable(PacketRule):
    """A packet of an unreliable service asks for an acknowledgement.

    UC and UD have none; the bit has no effect. It points to a sender that mixes up its transport services.

    Look at the sender's driver.

    One packet is enough. RoCE is not judged: soft-RoCE of Linux before 6.6 sets the bit in the last packet of every message, whatever its
    service. Nor are management datagrams.
    """

    code, name, severity = "BTH014", "ackreq-on-ud", WARNING
    reference = "IBA 9.2; soft-RoCE captures; kernel rxe_req.c"
    when = (BTH.a == 1) & (BTH.destqp > 1) & BTH.opcode.isin(UNRELIABLE) & present(LRH)
    message = "{opcode!t} asks for an acknowledgement, which its transport service does not have"
    example = "a UD SEND with AckReq"


class SolicitedResponse(PacketRule):
    """An acknowledgement or read response has the solicited-event bit.

    The bit wakes the receiver of a message. A response completes no receive request, so the bit has no effect there.

    Look at the responder's driver or firmware.
    """

    code, name, severity = "BTH015", "se-on-response", WARNING
    reference = "IBA 9.2"
    when = (BTH.se == 1) & BTH.opcode.isin(RESPONSES) & KNOWN_HEADERS
    message = "{opcode!t} has the solicited-event bit, which has no effect in a response"
    example = "an Acknowledge with SE"


class ImmediateCut(Rule):
    """A packet ends inside its immediate data.

    The OpCode promises four bytes of immediate data that are missing; the receiver drops the packet.

    Check the ICRC, then the sender.
    """

    code, name, severity = "BTH019", "imm-opcode-missing-immdt", ERROR
    reference = "IBA 9.3.6"
    when = Where(BTH.opcode, _headers_cut) & Where(BTH, _immediate_cut) & KNOWN_HEADERS
    flow = (*PACKET_FLOW, BTH.opcode)
    message = "the packet ends inside the immediate data of {opcode!t}"
    example = "a UD SEND with Immediate that ends after the DETH"


class CongestionMark(PacketRule):
    """A packet carries a congestion mark in its transport header.

    FECN means that a switch on the path was congested, BECN that the other side saw such a mark. The flow is being slowed down.

    Look for the congested port: PortXmitWait, or the congestion log of the switches.
    """

    code, name, severity = "BTH020", "fecn-becn-unexpected", INFO
    of_marks = True
    reference = "IBA Annex A10; opensm congestion control"
    when = ((BTH.fecn == 1) | (BTH.becn == 1)) & ~BTH.opcode.isin({CNP_OPCODE, NATIVE_CNP_OPCODE})
    message = "the BTH is marked for congestion: FECN {fecn:d}, BECN {becn:d}"
    example = "an RC packet with FECN"


_WHOLE_WRITE = np.array([code in OPCODES and OPCODES[code].operation.startswith("RDMA WRITE Only") for code in range(256)])


def _other_length(table: ChunkTable) -> npt.NDArray[np.bool_]:
    """Whole RDMA WRITEs whose payload is not DMALen bytes long."""
    bad = np.zeros(len(table.occurrences(BTH)), np.bool_)
    bth = table.first(BTH)[table.occurrences(RETH).rows]
    whole = np.flatnonzero(_WHOLE_WRITE[table.values(BTH.opcode)[bth]])
    if whole.size:
        bth = bth[whole]
        room = table.once(room_behind_headers)[bth]
        payload = room - table.values(BTH.padcnt)[bth]
        claimed = table.values(RETH.dmalen)[whole]
        bad[bth] = (room >= 0) & (payload >= 0) & (payload != claimed) & (claimed != 0)  # 0 is RC020
    return bad


class WriteNotDmaLen(PacketRule):
    """An RDMA WRITE of one packet carries more or less than the length it announces.

    The responder answers with a NAK for an invalid request and ends the connection.

    Check the ICRC: if it is wrong, the packet was damaged; otherwise the sender's transport is at fault.
    """

    code, name, severity = "BTH006", "bth-padcnt-vs-ulplen", WARNING
    reference = "IBA 9.4.3; python-rdma RETH"
    when = Where(BTH.padcnt, _other_length)
    message = "{opcode!t} announces {RETH.dmalen:byte} (DMALen) and carries {carried}"
    example = "an RDMA WRITE Only with DMALen 100 and 8 bytes of payload"

    def computed(self, seen: Seen, i: int) -> dict[str, Any]:
        return {"carried": int(seen.table.once(room_behind_headers)[i]) - seen.value(BTH.padcnt)}

"""SMC-R's handshake over TCP (CLC): the queue pairs, keys and buffers that two hosts will use."""

from __future__ import annotations

from collections.abc import Mapping

from ..places import Inside, TcpData
from ..spec import Field, Struct, bit, enum, gid, ip4, mac, nested, pad, part, qpn, rest, secret, uint
from ..tail import repeat

SMC_R, SMC_D = b"\xe2\xd4\xc3\xd9", b"\xe2\xd4\xc3\xc4"
"""The words SMCR and SMCD in EBCDIC, with which messages begin and end."""
EYECATCHERS: Mapping[int, str] = {int.from_bytes(SMC_R, "big"): "SMC-R", int.from_bytes(SMC_D, "big"): "SMC-D"}
MESSAGES: Mapping[int, str] = {1: "Proposal", 2: "Accept", 3: "Confirm", 4: "Decline"}
"""Types of CLC messages (RFC 7609 A.1; kernel net/smc/smc_clc.h)."""
PROPOSAL, ACCEPT, CONFIRM, DECLINE = MESSAGES
PATHS: Mapping[int, str] = {0: "SMC-R", 1: "SMC-D", 2: "neither", 3: "both"}
SYSTEMS: Mapping[int, str] = {1: "z/OS", 2: "Linux", 3: "AIX"}


class SMCHandshake(Struct):
    """What every CLC message starts with."""

    prefix, key, section, size, title = "smc", "clc", "RFC 7609 A.2; kernel net/smc/smc_clc.h struct smc_clc_msg_hdr", 8, "SMC handshake"
    carried_by = (TcpData(SMC_R), TcpData(SMC_D))
    eyecatcher = enum(32, EYECATCHERS, "Eye Catcher", at="0", base="hex")
    type = enum(8, MESSAGES, "CLC Message", at="4", ws="smc.clc_msg")
    length = uint(16, "SMC Length", at="5", unit="bytes", ws="smc.length")
    flags = uint(8, "Version and Types", at="7", base="hex")
    version = part(flags, 7, 4, "SMC Version", ws="smc.proposal.smc.version")
    first_contact = bit(flags, 3, "First Contact", ws="smc.proposal.first.contact")
    path_v2 = part(flags, 3, 2, "SMC(v2) Type", ws="smc.proposal.smcv2.type", values=PATHS, when=(type, frozenset({PROPOSAL})))
    path = part(flags, 1, 0, "SMC Type", ws="smc.proposal.smc.type", values=PATHS)
    body = rest("Body", at="8")


def messages(word: bytes, *numbers: int) -> tuple[tuple[Field[int], frozenset[int]], ...]:
    """The condition for messages of SMC-R, or of SMC-D, of some types."""
    return (SMCHandshake.eyecatcher, frozenset({int.from_bytes(word, "big")})), (SMCHandshake.type, frozenset(numbers))


def _in_smc_r(number: int) -> tuple[Inside]:
    """The body of a message of SMC-R."""
    return (Inside(SMCHandshake.body, messages(SMC_R, number)),)


class SMCProposal(Struct):
    """A client offers SMC-R; its addresses follow."""

    prefix, key, section, size, title = "smc", "proposal", "RFC 7609 A.2; kernel net/smc/smc_clc.h", 32, "SMC Proposal"
    carried_by = _in_smc_r(1)
    peer_id = uint(64, "Sender (Client) Peer ID", at="0", base="hex", holds="guid", ws="smc.proposal.sender.client.peer.id")
    gid = gid("Client Preferred GID", at="8", ws="smc.proposal.client.preferred.gid")
    mac = mac("Client Preferred MAC Address", at="24", ws="smc.proposal.client.preferred.mac")
    area_offset = uint(16, "IP Area Offset", at="30", unit="bytes", ws="smc.proposal.smcv1_subnet_ext_offset")
    area = rest("Areas", at="32")


class SMCPrefix(Struct):
    """An IPv6 prefix of the interface."""

    prefix, key, section, size = "smc", "proposal.ipv6", "RFC 7609 A.2; kernel net/smc/smc_clc.h struct smc_clc_ipv6_prefix", 17
    title = "IPv6 Prefix"
    value = gid("IPv6 Prefix Value", at="0", ws="smc.proposal.ipv6.prefix.value")
    length = uint(8, "IPv6 Prefix Length", at="16", ws="smc.proposal.ipv6.prefix.length")


class SMCSubnet(Struct):
    """The subnet of the interface that a proposal came from, and its IPv6 prefixes."""

    prefix, key, section, size, title = "smc", "proposal", "RFC 7609 A.2; kernel net/smc/smc_clc.h", 8, "IP Area"
    carried_by = (Inside(SMCProposal.area, skip=(SMCProposal.area_offset, 1, 0)),)
    mask = ip4("Outgoing Interface Subnet Mask", at="0", ws="smc.outgoing.interface.subnet.mask")
    mask_bits = uint(8, "Significant Bits", at="4", ws="smc.outgoing.interface.subnet.mask.number.of.significant.bits")
    reserved = pad(16, at="5")
    prefix_count = uint(8, "IPv6 Prefix Count", at="7", ws="smc.proposal.ipv6.prefix.count")
    prefixes = repeat(nested(SMCPrefix, "IPv6 Prefix"), count=prefix_count)


class SMCAccept(Struct):
    """The server's queue pair and memory; an extension may follow, then the eye catcher again."""

    prefix, key, section, size, title = "smc", "accept", "RFC 7609 A.3; kernel net/smc/smc_clc.h", 56, "SMC Accept"
    carried_by = _in_smc_r(2)
    peer_id = uint(64, "Sender (Server) Peer ID", at="0", base="hex", holds="guid", ws="smc.accept.sender.server.peer.id")
    gid = gid("Server Preferred GID", at="8", ws="smc.accept.server.preferred.gid")
    mac = mac("Server Preferred MAC Address", at="24", ws="smc.accept.server.preferred.mac")
    qpn = qpn("Server QP Number", at="30", ws="smc.accept.server.qp.number")
    r_key = secret(32, "R_Key", "Server RMB Rkey", at="33", ws="smc.accept.server.rmb.rkey")
    connection_index = uint(8, "Server TCP Connection Index", at="37", ws="smc.accept.server.tcp.conn.index")
    alert_token = uint(32, "Server RMB Element Alert Token", at="38", base="hex", ws="smc.accept.server.rmb.element.alert.token")
    buffer_size = uint(4, "Server RMB Buffers Size", at="42", ws="smc.accept.rmb.buffer.size")
    mtu = uint(4, "QP MTU Value", at="42[4]", ws="smc.accept.qp.mtu.value")
    virtual_address = uint(64, "Server's RMB Virtual Address", at="..44", base="hex", ws="smc.accept.server.rmb.virtual.address")
    psn = uint(24, "Initial PSN", at="..53", ws="smc.accept.initial.psn")
    end = rest("Extension and Eye Catcher", at="56")


class SMCConfirm(SMCAccept):
    """The client's queue pair and memory."""

    prefix, key, section, size, title = "smc", "confirm", "RFC 7609 A.4; kernel net/smc/smc_clc.h", 56, "SMC Confirm"
    carried_by = _in_smc_r(3)
    peer_id = uint(64, "Sender (Client) Peer ID", at="0", base="hex", holds="guid", ws="smc.confirm.sender.client.peer.id")
    gid = gid("Client GID", at="8", ws="smc.client.gid")
    mac = mac("Client MAC Address", at="24", ws="smc.confirm.client.mac")
    qpn = qpn("Client QP Number", at="30", ws="smc.confirm.client.qp.number")
    r_key = secret(32, "R_Key", "Client RMB Rkey", at="33", ws="smc.confirm.client.rmb.rkey")
    connection_index = uint(8, "Client TCP Connection Index", at="37", ws="smc.confirm.client.tcp.conn.index")
    alert_token = uint(32, "Client RMB Element Alert Token", at="38", base="hex", ws="smc.client.rmb.element.alert.token")
    buffer_size = uint(4, "Client RMB Buffers Size", at="42", ws="smc.confirm.rmb.buffer.size")
    mtu = uint(4, "QP MTU Value", at="42[4]", ws="smc.confirm.qp.mtu.value")
    virtual_address = uint(64, "Client's RMB Virtual Address", at="44", base="hex", ws="smc.client.rmb.virtual.address")
    psn = uint(24, "Initial PSN", at="53", ws="smc.initial.psn")


class SMCDecline(Struct):
    """A host falls back to TCP."""

    prefix, key, section, size, title = "smc", "decline", "RFC 7609 A.5; kernel net/smc/smc_clc.h", 16, "SMC Decline"
    carried_by = (*_in_smc_r(4), Inside(SMCHandshake.body, messages(SMC_D, 4)))
    peer_id = uint(64, "Sender Peer ID", at="0", base="hex", holds="guid", ws="smc.sender.peer.id")
    diagnosis = uint(32, "Peer Diagnosis Information", at="8", base="hex", ws="smc.peer.diag.info")
    system = enum(4, SYSTEMS, "OS Type", at="12", ws="smc.decline.os.type")
    reserved = pad(28, at="12[4]")

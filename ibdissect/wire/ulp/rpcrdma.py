"""RPC-over-RDMA (NFS): private data at connection, transport header, chunk lists, and the RPC after them."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct as Record

from ..cm_names import IP_CM_PREFIX
from ..places import CmPayload, CmService, Inside, Parsed
from ..spec import Field, Struct, bit, enum, hole, nested, rest, secret, uint
from ..tail import optional, repeat
from .rdma_cm import IP_CM_SIZE

NFS_PORT = 20049
SERVICE = IP_CM_PREFIX | 0x06 << 16 | NFS_PORT
PRIVATE_MAGIC = 0xF6AB0E18

VERSION, INLINE, NO_INLINE = 1, 0, 1
PROCEDURES: Mapping[int, str] = {0: "RDMA_MSG", 1: "RDMA_NOMSG", 2: "RDMA_MSGP", 3: "RDMA_DONE", 4: "RDMA_ERROR"}
"""Message types of version 1 (RFC 8166 4.2)."""

ERRORS: Mapping[int, str] = {1: "ERR_VERS", 2: "ERR_CHUNK"}
PRESENT: Mapping[int, str] = {0: "No", 1: "Yes"}
"""What stands before each entry of a list: whether it is there, and with it a next one (RFC 4506 4.19)."""


def buffer_text(code: int) -> str:
    """Inline size in KiB, sent as size - 1 (RFC 8797 4)."""
    return f"{code} ({(code + 1) * 1024} bytes)"


class RPCRDMAConnectRequest(Struct):
    """What an NFS client can do, after the header of RDMA IP CM."""

    key, section, size, title = "rpcrdma.cm.req", "RFC 8797 4; kernel linux/sunrpc/rpc_rdma.h", 44, "RPC-over-RDMA connect request"
    carried_by = (CmService(SERVICE, messages=frozenset({0x0010})),)
    header = hole(IP_CM_SIZE, "RDMA IP CM header", at="0")
    magic = enum(32, {PRIVATE_MAGIC: "RPC-over-RDMA"}, "Magic", at="36", base="hex")
    version = uint(8, "Version", at="40")
    flags = uint(8, "Flags", at="41", base="hex")
    remote_invalidate = bit(flags, 0, "Remote Invalidation Supported", ws="remoteinvalidate")
    send_size = uint(8, "Send Size", at="42", show=buffer_text)
    receive_size = uint(8, "Receive Size", at="43", show=buffer_text)


class RPCRDMAConnectReply(Struct):
    """What an NFS server can do."""

    key, section, size, title = "rpcrdma.cm.rep", "RFC 8797 4; kernel linux/sunrpc/rpc_rdma.h", 8, "RPC-over-RDMA connect reply"
    carried_by = (CmService(SERVICE, messages=frozenset({0x0013})),)
    magic = enum(32, {PRIVATE_MAGIC: "RPC-over-RDMA"}, "Magic", at="0", base="hex")
    version = uint(8, "Version", at="4")
    flags = uint(8, "Flags", at="5", base="hex")
    remote_invalidate = bit(flags, 0, "Remote Invalidation Supported", ws="remoteinvalidate")
    send_size = uint(8, "Send Size", at="6", show=buffer_text)
    receive_size = uint(8, "Receive Size", at="7", show=buffer_text)


class RPCRDMA(Struct):
    """Transport header before an RPC message; the chunk lists follow."""

    key, section, size, title = "rpcrdma", "RFC 8166 4.2", 16, "RPC-over-RDMA"
    carried_by = (CmPayload(SERVICE),)
    xid = uint(32, "XID", at="0", base="hex", ws="rpcordma.xid")
    version = uint(32, "Version", at="4", ws="rpcordma.version")
    credits = uint(32, "Credits", at="8", ws="rpcordma.flow_control")
    message_type = enum(32, PROCEDURES, "Message Type", at="12", ws="rpcordma.msg_type")
    body = rest("Body", at="16")


def of_type(*numbers: int) -> tuple[tuple[Field[int], frozenset[int]], ...]:
    """The condition for messages of version 1 of some types."""
    return (RPCRDMA.version, frozenset({VERSION})), (RPCRDMA.message_type, frozenset(numbers))


def more_than_error(body: bytes) -> list[tuple[int, int]]:
    """A place that does not fit if more follows the error, which may be chunk lists; else none."""
    return [(0, len(body) + 1)] if any(body[12 if body[3:4] == b"\1" else 4 :]) else []


class RPCRDMAError(Struct):
    """Body of an RDMA_ERROR message, which tells the versions that its sender knows, or nothing else."""

    key, section, size, title = "rpcrdma.error", "RFC 8166 4.5", 4, "RPC-over-RDMA error"
    error = enum(32, ERRORS, "Error", at="0", ws="rpcordma.errcode")
    version_low = optional(error == 1, uint(32, "Version Low", ws="rpcordma.vers_low"))
    version_high = optional(error == 1, uint(32, "Version High", ws="rpcordma.vers_high"))
    carried_by = (Inside(RPCRDMA.body, of_type(4)), Parsed(RPCRDMA.body, more_than_error, of_type(4)))


class RPCRDMAReadChunk(Struct):
    """Memory that the receiver may read: a piece of the RPC message."""

    key, section, size, title = "rpcrdma.read", "RFC 8166 3.4.5", 20, "Read chunk"
    position = uint(32, "Position", at="0", unit="bytes", ws="rpcordma.position")
    handle = secret(32, "R_Key", "Handle (R_Key)", at="4", ws="rpcordma.rdma_handle")
    length = uint(32, "Length", at="8", unit="bytes", ws="rpcordma.rdma_length")
    offset_ = uint(64, "Offset", at="12", base="hex", ws="rpcordma.rdma_offset")


class RPCRDMASegment(Struct):
    """Memory that the receiver may write: results, or the whole reply."""

    key, section, size, title = "rpcrdma.segment", "RFC 8166 3.4.5", 16, "Write segment"
    handle = secret(32, "R_Key", "Handle (R_Key)", at="0", ws="rpcordma.rdma_handle")
    length = uint(32, "Length", at="4", unit="bytes", ws="rpcordma.rdma_length")
    offset_ = uint(64, "Offset", at="8", base="hex", ws="rpcordma.rdma_offset")


class RPCRDMAWriteChunk(Struct):
    """Memory for one result."""

    key, section, size, title = "rpcrdma.write", "RFC 8166 3.4.6", 4, "Write chunk"
    count = uint(32, "Segment Count", at="0")
    segments = repeat(nested(RPCRDMASegment, "Segment"), count=count)


class RPCRDMARead(Struct):
    """An entry of the read list."""

    key, section, size, title = "rpcrdma.reads", "RFC 8166 3.4.5", 4, "Read list entry"
    present = enum(32, PRESENT, "Present", at="0")
    chunk = optional(present == 1, nested(RPCRDMAReadChunk, "Read chunk"))


class RPCRDMAWrite(Struct):
    """An entry of the write list, or the reply chunk."""

    key, section, size, title = "rpcrdma.writes", "RFC 8166 3.4.6", 4, "Write list entry or reply chunk"
    present = enum(32, PRESENT, "Present", at="0")
    chunk = optional(present == 1, nested(RPCRDMAWriteChunk, "Write chunk"))


def wrong_lists(body: bytes) -> list[tuple[int, int]]:
    """A place that does not fit where neither 0 nor 1 says whether an entry follows: nobody knows where the keys of the others are; else
    none."""
    at, number = 0, 0
    while number < 3 and at + 4 <= len(body):
        word = int.from_bytes(body[at : at + 4], "big")
        if word not in PRESENT:
            return [(0, len(body) + 1)]
        at += 4
        if word and number == 0:
            at += RPCRDMAReadChunk.size
        elif word:
            at += RPCRDMAWriteChunk.size + int.from_bytes(body[at : at + 4], "big") * RPCRDMASegment.size
        if not word or number == 2:
            number += 1
    return []


class RPCRDMALists(Struct):
    """The memory that a message names, and the RPC message behind it, which is empty where chunks hold all of it."""

    key, section, title = "rpcrdma.lists", "RFC 8166 3.4.5", "Chunk lists"
    carried_by = (
        Inside(RPCRDMA.body, of_type(INLINE, NO_INLINE)), Parsed(RPCRDMA.body, wrong_lists, of_type(INLINE, NO_INLINE)),
    )  # fmt: skip
    reads = repeat(nested(RPCRDMARead, "Read list entry"), until=RPCRDMARead.present != 1)
    writes = repeat(nested(RPCRDMAWrite, "Write list entry"), until=RPCRDMAWrite.present != 1)
    reply = nested(RPCRDMAWrite, "Reply chunk")
    rpc = rest("RPC message")


class ChunkLists(Record):
    """The memory that a message names, but for its write list."""

    reads: list[RPCRDMAReadChunk]
    reply: list[RPCRDMASegment]
    rpc: int
    """Offset of the RPC message in the body."""


def chunk_lists(body: bytes) -> ChunkLists | None:
    """The lists of a message with RPC; None if they are invalid."""
    lists = RPCRDMALists(body)
    reply, rpc = lists.reply, lists.rpc
    if rpc is None or reply.present not in PRESENT:
        return None
    return ChunkLists([entry.chunk for entry in lists.reads], list(reply.chunk.segments) if reply.chunk else [], len(body) - len(rpc))


PROGRAMS: Mapping[int, str] = {
    100000: "Portmap", 100003: "NFS", 100005: "Mount", 100021: "NLM", 100227: "NFS ACL", 0x40000000: "NFS callback",
}  # fmt: skip
"""RPC programs (IANA; the client chooses the callback program, Linux uses this one)."""


class RPCMessage(Struct):
    """What every RPC message starts with."""

    key, section, size, title = "rpcrdma.rpc", "RFC 5531 9", 8, "RPC"
    carried_by = (Inside(RPCRDMALists.rpc),)
    xid = uint(32, "XID", at="0", base="hex", ws="rpc.xid")
    message_type = enum(32, {0: "Call", 1: "Reply"}, "Message Type", at="4", ws="rpc.msgtyp")
    body = rest("Body", at="8")


class RPCCall(Struct):
    """A call; credentials and arguments follow."""

    key, section, size, title = "rpcrdma.rpc.call", "RFC 5531 9", 24, "RPC call"
    carried_by = (Inside(RPCMessage.body, ((RPCMessage.message_type, frozenset({0})),)),)
    rpc_version = uint(32, "RPC Version", at="0", ws="rpc.version")
    program = enum(32, PROGRAMS, "Program", at="4", ws="rpc.program")
    version = uint(32, "Program Version", at="8", ws="rpc.programversion")
    procedure = uint(32, "Procedure", at="12", ws="rpc.procedure")
    flavor = enum(32, {0: "AUTH_NONE", 1: "AUTH_SYS", 6: "RPCSEC_GSS"}, "Flavor", at="16", ws="rpc.auth.flavor")
    credential_length = uint(32, "Credential Length", at="20", unit="bytes", ws="rpc.auth.length")
    arguments = rest("Credential, Verifier and Arguments", at="24")


class RPCReply(Struct):
    """A reply; the verifier and results follow."""

    key, section, size, title = "rpcrdma.rpc.reply", "RFC 5531 9", 4, "RPC reply"
    carried_by = (Inside(RPCMessage.body, ((RPCMessage.message_type, frozenset({1})),)),)
    state = enum(32, {0: "accepted", 1: "denied"}, "Reply State", at="0", ws="rpc.replystat")
    results = rest("Verifier and Results", at="4")

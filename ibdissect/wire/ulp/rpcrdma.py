"""What do RPC-over-RDMA (NFS) messages hold: the private data at connection, and the transport header before each RPC?"""

from __future__ import annotations

from collections.abc import Mapping

from ..cm_names import IP_CM_PREFIX
from ..places import CmService, Inside
from ..spec import Struct, bit, enum, hole, rest, uint
from .rdma_cm import IP_CM_SIZE

NFS_PORT = 20049
SERVICE = IP_CM_PREFIX | 0x06 << 16 | NFS_PORT
PRIVATE_MAGIC = 0xF6AB0E18

PROCEDURES: Mapping[int, str] = {0: "RDMA_MSG", 1: "RDMA_NOMSG", 2: "RDMA_MSGP", 3: "RDMA_DONE", 4: "RDMA_ERROR"}
"""Message types of version 1 (RFC 8166 4.2)."""

ERRORS: Mapping[int, str] = {1: "ERR_VERS", 2: "ERR_CHUNK"}


def buffer_text(code: int) -> str:
    """Inline size in KiB, the wire has one less (RFC 8797 4)."""
    return f"{code} ({(code + 1) * 1024} bytes)"


class RPCRDMAConnectRequest(Struct):
    """What an NFS client can do, behind the header of RDMA IP CM."""

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
    xid = uint(32, "XID", at="0", base="hex", ws="rpcordma.xid")
    version = uint(32, "Version", at="4", ws="rpcordma.version")
    credits = uint(32, "Credits", at="8", ws="rpcordma.flow_control")
    message_type = enum(32, PROCEDURES, "Message Type", at="12", ws="rpcordma.msg_type")
    body = rest("Body", at="16")


class RPCRDMAError(Struct):
    """Body of an RDMA_ERROR message about versions."""

    key, section, size, title = "rpcrdma.error", "RFC 8166 4.5", 12, "RPC-over-RDMA error"
    carried_by = (Inside(RPCRDMA.body, ((RPCRDMA.message_type, frozenset({4})),)),)
    error = enum(32, ERRORS, "Error", at="0", ws="rpcordma.errcode")
    version_low = uint(32, "Version Low", at="4", ws="rpcordma.vers_low", when=(error, frozenset({1})))
    version_high = uint(32, "Version High", at="8", ws="rpcordma.vers_high", when=(error, frozenset({1})))

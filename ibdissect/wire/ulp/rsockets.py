"""rsockets (sockets over RDMA, of librdmacm): buffers to write into, in private data and with the credits that follow.

They use any TCP port, so they are known by what is constant in their private data: the version, reserved zeros, and the size of the list.
"""

from __future__ import annotations

from ..cm_names import IP_CM_MASK, IP_CM_PREFIX, IP_PORTS
from ..places import CmService, CmWrite
from ..spec import Struct, bit, hole, nested, pad, secret, uint
from .rdma_cm import IP_CM_SIZE

TCP, OF_TCP = IP_CM_PREFIX | 0x06 << 16, IP_CM_MASK | 0xFF << 16
RSOCKETS = 1 << 62
"""Added to the service id of a connection of rsockets. RDMA IP CM leaves that bit 0."""
VERSION, LIST_SIZE = 1, 2
_SIZE, _FIXED = 40, 24
_MASK = bytes.fromhex("fffc 0000 ffffff 00 0000000000000000 00000000 ffffffff")
_VALUE = bytes.fromhex("0100 0000 000000 00 0000000000000000 00000000") + LIST_SIZE.to_bytes(4, "big")
_SOURCE = "librdmacm rsocket.c"


class RsocketsMemory(Struct):
    """Memory that the peer may write."""

    key, section, size, title = "rsockets.memory", f"{_SOURCE} struct rs_sge, in private data", 16, "Memory"
    address = uint(64, "Address", at="0", base="hex")
    r_key = secret(32, "R_Key", at="8")
    length = uint(32, "Length", at="12")


class RsocketsConnectReply(Struct):
    """Where the passive side wants to be written to."""

    key, section, size, title = "rsockets.cm.rep", f"{_SOURCE} struct rs_conn_data", _SIZE, "rsockets connect reply"
    carried_by = (CmService(TCP, OF_TCP, messages=frozenset({0x0013}), starts=(_MASK, _VALUE)),)
    version = uint(8, "Version", at="0")
    flags = uint(8, "Flags", at="1", base="hex")
    network_order = bit(flags, 0, "Host Has Network Byte Order", ws="networkorder")
    direct_writes = bit(flags, 1, "Direct Writes", ws="directwrites")
    credits = uint(16, "Credits", at="2")
    reserved = pad(24, at="4")
    target_map_size = uint(8, "Target Map Size", at="7")
    target_list = nested(RsocketsMemory, "Target List", at="8")
    data_buffer = nested(RsocketsMemory, "Data Buffer", at="24")


class RsocketsConnectRequest(Struct):
    """Where the active side wants to be written to, after the header of RDMA IP CM."""

    key, section, size, title = "rsockets.cm.req", f"{_SOURCE} struct rs_conn_data", IP_CM_SIZE + _SIZE, "rsockets connect request"
    carried_by = (CmService(TCP, OF_TCP, messages=frozenset({0x0010}), starts=(bytes(IP_CM_SIZE) + _MASK, bytes(IP_CM_SIZE) + _VALUE)),)
    header = hole(IP_CM_SIZE, "RDMA IP CM header", at="0")
    version = uint(8, "Version", at="36")
    flags = uint(8, "Flags", at="37", base="hex")
    network_order = bit(flags, 0, "Host Has Network Byte Order", ws="networkorder")
    direct_writes = bit(flags, 1, "Direct Writes", ws="directwrites")
    credits = uint(16, "Credits", at="38")
    reserved = pad(24, at="40")
    target_map_size = uint(8, "Target Map Size", at="43")
    target_list = nested(RsocketsMemory, "Target List", at="44")
    data_buffer = nested(RsocketsMemory, "Data Buffer", at="60")


_ANY_TCP, _OF_ANY_TCP = TCP | RSOCKETS, OF_TCP | RSOCKETS
_OPERATION, _LIST, _MAP = 0xE000_0000, 0x8000_0000, 0xC000_0000
"""The upper three bits of the immediate data are the operation (librdmacm rsocket.c rs_msg_set)."""


class RsocketsBuffer(Struct):
    """A new buffer, written into the peer's target list. In the order of the peer's host, which is nearly always little-endian."""

    key, section, size, title = "rsockets.buffer", f"{_SOURCE} struct rs_sge, RS_OP_SGL", 16, "rsockets buffer"
    carried_by = (CmWrite(_ANY_TCP, _OF_ANY_TCP, _OPERATION, _LIST),)
    address = uint(64, "Address", at="0", base="hex", little=True)
    r_key = secret(32, "R_Key", at="8", little=True)
    length = uint(32, "Length", at="12", unit="bytes", little=True)


class RsocketsMap(Struct):
    """Memory for direct writes, written into the peer's target map."""

    key, section, size, title = "rsockets.map", f"{_SOURCE} struct rs_iomap, RS_OP_IOMAP_SGL", 24, "rsockets map"
    carried_by = (CmWrite(_ANY_TCP, _OF_ANY_TCP, _OPERATION, _MAP),)
    offset_ = uint(64, "Offset", at="0", unit="bytes", little=True)
    address = uint(64, "Address", at="8", base="hex", little=True)
    r_key = secret(32, "R_Key", at="16", little=True)
    length = uint(32, "Length", at="20", unit="bytes", little=True)


def is_rsockets(service_id: int, private_data: bytes) -> bool:
    """Whether a REQ for a service sets up a connection of rsockets."""
    begin = private_data[IP_CM_SIZE : IP_CM_SIZE + _FIXED]
    fixed = int.from_bytes(begin, "big") & int.from_bytes(_MASK, "big") == int.from_bytes(_VALUE, "big")
    return service_id & OF_TCP == TCP and service_id & 0xFFFF not in IP_PORTS and len(begin) == _FIXED and fixed

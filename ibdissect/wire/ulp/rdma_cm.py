"""RDMA IP CM: addresses and ports as in a socket, in the private data of a REQ or SIDR_REQ."""

from ..cm_names import IP_CM_MASK, IP_CM_PREFIX
from ..places import CmService
from ..spec import Struct, gid, ip4, pad, rest, uint

IP_CM_SIZE = 36
"""Bytes before the consumer's own private data."""

_IPV4 = frozenset({4})


class IPCMPrivateData(Struct):
    """Private data header of RDMA IP CM; the consumer's private data follows."""

    key, section, size, title = "cm.req.ip_cm", "IBA annex A11; kernel core/cma.c struct cma_hdr", IP_CM_SIZE, "RDMA IP CM"
    carried_by = (CmService(IP_CM_PREFIX, IP_CM_MASK),)
    major_version = uint(4, "Major Version", at="0", ws="majv")
    minor_version = uint(4, "Minor Version", at="0[4]", ws="minv")
    ip_version = uint(4, "IP Version", at="1", ws="ipv")
    reserved = pad(4, at="1[4]")
    source_port = uint(16, "Source Port", at="2", ws="sport")
    source_address = gid("Source IP", at="4", ws="sip6")
    source_ipv4 = ip4("Source IPv4", ws="sip4", part_of=(source_address, 0), when=(ip_version, _IPV4))
    destination_address = gid("Destination IP", at="20", ws="dip6")
    destination_ipv4 = ip4("Destination IPv4", ws="dip4", part_of=(destination_address, 0), when=(ip_version, _IPV4))
    private_data = rest("Consumer Private Data", at="36", ws="private")

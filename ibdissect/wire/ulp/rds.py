"""What do Reliable Datagram Sockets send: the private data at connection, and the header of each message?"""

from collections.abc import Iterator

from ..cm_names import IP_CM_PREFIX
from ..places import CmPayload, CmService, Parsed
from ..spec import Struct, bit, hole, ip4, pad, raw, rest, secret, uint
from .rdma_cm import IP_CM_SIZE

RDS_PORT = 18634
RDS_IPV6_PORT = 16385
SERVICE, IPV6_SERVICE = (IP_CM_PREFIX | 0x06 << 16 | port for port in (RDS_PORT, RDS_IPV6_PORT))


class RDSConnectRequest(Struct):
    """Addresses and version of the active side (IPv4), after the header of RDMA IP CM."""

    key, section, size, title = "rds.cm.req", "kernel net/rds/ib.h struct rds_ib_connect_private", 64, "RDS connect request"
    carried_by = (CmService(SERVICE, messages=frozenset({0x0010})),)
    header = hole(IP_CM_SIZE, "RDMA IP CM header", at="0")
    source = ip4("Source", at="36")
    destination = ip4("Destination", at="40")
    major_version = uint(8, "Major Version", at="44")
    minor_version = uint(8, "Minor Version", at="45")
    minor_version_mask = uint(16, "Minor Version Mask", at="46", base="hex")
    type_of_service = uint(8, "Type Of Service", at="48")
    reserved = pad(8, at="49")
    fragment_size = uint(16, "Fragment Size", at="50", unit="bytes")
    ack_sequence = uint(64, "Ack Sequence", at="52")
    credit = uint(32, "Credit", at="60")


class RDSConnectReply(Struct):
    """Addresses and version of the passive side (IPv4)."""

    key, section, size, title = "rds.cm.rep", "kernel net/rds/ib.h struct rds_ib_connect_private", 28, "RDS connect reply"
    carried_by = (CmService(SERVICE, messages=frozenset({0x0013})),)
    source = ip4("Source", at="0")
    destination = ip4("Destination", at="4")
    major_version = uint(8, "Major Version", at="8")
    minor_version = uint(8, "Minor Version", at="9")
    minor_version_mask = uint(16, "Minor Version Mask", at="10", base="hex")
    type_of_service = uint(8, "Type Of Service", at="12")
    reserved = pad(8, at="13")
    fragment_size = uint(16, "Fragment Size", at="14", unit="bytes")
    ack_sequence = uint(64, "Ack Sequence", at="16")
    credit = uint(32, "Credit", at="24")


class RDSHeader(Struct):
    """Header of an RDS message."""

    key, section, size, title = "rds", "kernel net/rds/rds.h struct rds_header", 48, "RDS"
    carried_by = (CmPayload(SERVICE), CmPayload(IPV6_SERVICE))
    sequence = uint(64, "Sequence", at="0")
    ack = uint(64, "Ack", at="8")
    length = uint(32, "Length", at="16", unit="bytes")
    source_port = uint(16, "Source Port", at="20")
    destination_port = uint(16, "Destination Port", at="22")
    flags = uint(8, "Flags", at="24", base="hex")
    congestion_bitmap = bit(flags, 0, "Congestion Bitmap")
    ack_required = bit(flags, 1, "Ack Required")
    retransmitted = bit(flags, 2, "Retransmitted")
    credit = uint(8, "Credit", at="25")
    padding = pad(32, at="26")
    checksum = uint(16, "Checksum", at="30", base="hex")
    extension_headers = raw(16, "Extension Headers", at="32")
    data = rest("Data", at="48")


RDMA, RDMA_DESTINATION = 2, 3
EXTENSIONS = {1: 4, RDMA: 4, RDMA_DESTINATION: 8, 5: 2, 6: 4, 8: 1}
"""Bytes of the extension headers behind their type (kernel net/rds/message.c rds_exthdr_size)."""


def _found(extensions: bytes, wanted: int) -> Iterator[int]:
    at = 0
    while at < len(extensions) and (size := EXTENSIONS.get(extensions[at])):
        if extensions[at] == wanted:
            yield at + 1
        at += 1 + size


def find_rdma(extensions: bytes) -> Iterator[int]:
    """Where the key of a finished RDMA is."""
    return _found(extensions, RDMA)


def find_destination(extensions: bytes) -> Iterator[int]:
    """Where the key and offset of a requested RDMA are."""
    return _found(extensions, RDMA_DESTINATION)


class RDSRdma(Struct):
    """The message follows an RDMA with this key."""

    key, section, size, title = "rds.rdma", "kernel net/rds/rds.h struct rds_ext_header_rdma", 4, "RDMA"
    carried_by = (Parsed(RDSHeader.extension_headers, find_rdma),)
    r_key = secret(32, "R_Key", at="0")


class RDSRdmaDestination(Struct):
    """Where the peer may read or write."""

    key, section, size, title = "rds.rdmadest", "kernel net/rds/rds.h struct rds_ext_header_rdma_dest", 8, "RDMA destination"
    carried_by = (Parsed(RDSHeader.extension_headers, find_destination),)
    r_key = secret(32, "R_Key", at="0")
    offset_ = uint(32, "Offset", at="4", unit="bytes")

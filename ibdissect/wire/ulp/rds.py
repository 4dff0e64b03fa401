"""Reliable Datagram Sockets (RDS): the private data at connection, and the header of each message."""

from ..cm_names import IP_CM_PREFIX
from ..places import CmPayload, CmService, Inside
from ..spec import Struct, bit, enum, hole, ip4, nested, pad, raw, rest, secret, uint
from ..tail import choice, repeat
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


class RDSVersion(Struct):
    """The sender's version."""

    key, section, size, title = "rds.version", "kernel net/rds/rds.h struct rds_ext_header_version", 4, "Version"
    version = uint(32, "Version", at="0")


class RDSRdma(Struct):
    """The message follows an RDMA with this key."""

    key, section, size, title = "rds.rdma", "kernel net/rds/rds.h struct rds_ext_header_rdma", 4, "RDMA"
    r_key = secret(32, "R_Key", at="0")


class RDSRdmaDestination(Struct):
    """Where the peer may read or write."""

    key, section, size, title = "rds.rdmadest", "kernel net/rds/rds.h struct rds_ext_header_rdma_dest", 8, "RDMA destination"
    r_key = secret(32, "R_Key", at="0")
    offset_ = uint(32, "Offset", at="4", unit="bytes")


class RDSPaths(Struct):
    """How many connections the sender uses for one peer."""

    key, section, size, title = "rds.paths", "kernel net/rds/rds.h RDS_EXTHDR_NPATHS", 2, "Paths"
    paths = uint(16, "Paths", at="0")


class RDSGeneration(Struct):
    """A number of the sender that changes when it starts anew."""

    key, section, size, title = "rds.generation", "kernel net/rds/rds.h RDS_EXTHDR_GEN_NUM", 4, "Generation"
    generation = uint(32, "Generation", at="0")


class RDSPortIndex(Struct):
    """Whether the source port says which connection is meant."""

    key, section, size, title = "rds.portindex", "kernel net/rds/rds.h RDS_EXTHDR_SPORT_IDX", 1, "Source port index"
    index = uint(8, "Source Port Index", at="0")


EXTENSIONS = {
    1: RDSVersion, 2: RDSRdma, 3: RDSRdmaDestination, 5: RDSPaths, 6: RDSGeneration, 8: RDSPortIndex,
}  # fmt: skip
TYPES = {0: "None", 1: "Version", 2: "RDMA", 3: "RDMA destination", 5: "Paths", 6: "Generation", 8: "Source port index"}


class RDSExtension(Struct):
    """One extension header."""

    key, section, size, title = "rds.extension", "kernel net/rds/rds.h", 1, "Extension header"
    type = enum(8, TYPES, "Type", at="0")
    value = choice(type, EXTENSIONS, "Value")


class RDSExtensions(Struct):
    """The extension headers of a message, up to one of an unknown type, whose size nobody knows."""

    key, section, title = "rds.extensions", "kernel net/rds/message.c rds_exthdr_size", "Extension headers"
    carried_by = (Inside(RDSHeader.extension_headers),)
    headers = repeat(nested(RDSExtension, "Extension header"), until=RDSExtension.type == 0)

"""Names of connection management's numbers: messages, reasons, statuses, service ids."""

from __future__ import annotations

from collections.abc import Mapping

from .convert import timeout_text

MESSAGES: Mapping[int, str] = {
    0x0010: "ConnectRequest", 0x0011: "MsgRcptAck", 0x0012: "ConnectReject", 0x0013: "ConnectReply", 0x0014: "ReadyToUse",
    0x0015: "DisconnectRequest", 0x0016: "DisconnectReply", 0x0017: "ServiceIDResReq", 0x0018: "ServiceIDResReqResp",
    0x0019: "LoadAlternatePath", 0x001A: "AlternatePathResponse", 0x001B: "SuggestAlternatePath", 0x001C: "SuggestPathResponse",
}  # fmt: skip
"""Attribute ids of the messages (libibumad umad_cm.h, umad_str.c). No public source has the layout of 0x001B (SAP) and 0x001C (SPR)."""

TRANSPORT_SERVICE: Mapping[int, str] = {0: "RC", 1: "UC", 2: "RD", 3: "Extended"}
"""TransportServiceType of a REQ; 3: see the extended transport type (kernel cm.c)."""

EXTENDED_TRANSPORT: Mapping[int, str] = {0: "none", 1: "XRC"}
"""ExtendedTransportType of a REQ (kernel cm_msgs.h)."""


def service_name(service: int, extended: int) -> str:
    """The transport service that a REQ asks for: RC, UC, RD, XRC, or `other`."""
    return {0: "RC", 1: "UC", 2: "RD"}.get(service, "XRC" if extended == 1 else "other")


MESSAGE_MRAED: Mapping[int, str] = {0: "REQ", 1: "REP", 2: "LAP"}
"""The message that an MRA acknowledges (kernel cm_msgs.h)."""

MESSAGE_REJECTED: Mapping[int, str] = {0: "REQ", 1: "REP", 2: "other"}
"""The message that a REJ refuses (kernel cm_msgs.h)."""

FAILOVER: Mapping[int, str] = {0: "accepted", 1: "not supported", 2: "rejected"}
"""FailoverAccepted of a REP (WinOF ib_types.h)."""

REJ_NO_QP, REJ_TIMEOUT, REJ_INVALID_SERVICE_ID, REJ_CM_REDIRECT, REJ_PORT_REDIRECT, REJ_CONSUMER = 1, 4, 8, 24, 25, 28

REJ_REASONS: Mapping[int, str] = {
    1: "No QP available", 2: "No EEC available", 3: "No resources available", 4: "Timeout", 5: "Unsupported request",
    6: "Invalid communication ID", 7: "Invalid communication instance", 8: "Invalid Service ID", 9: "Invalid transport service type",
    10: "Stale connection", 11: "RDC does not exist", 12: "Primary remote port GID rejected", 13: "Primary remote port LID rejected",
    14: "Invalid primary SL", 15: "Invalid primary traffic class", 16: "Invalid primary hop limit", 17: "Invalid primary packet rate",
    18: "Alternate remote port GID rejected", 19: "Alternate remote port LID rejected", 20: "Invalid alternate SL",
    21: "Invalid alternate traffic class", 22: "Invalid alternate hop limit", 23: "Invalid alternate packet rate",
    24: "CM port redirection", 25: "Port redirection", 26: "Invalid path MTU", 27: "Insufficient responder resources",
    28: "Consumer reject", 29: "RNR retry count rejected", 30: "Duplicate local communication ID", 31: "Unsupported class version",
    32: "Invalid primary flow label", 33: "Invalid alternate flow label", 35: "Vendor option not supported",
}  # fmt: skip
"""Reason of a REJ (kernel ib_cm.h enum ib_cm_rej_reason)."""

AP_STATUS: Mapping[int, str] = {
    0: "Alternate path loaded", 1: "Invalid communication ID", 2: "Alternate paths not supported", 3: "Rejected", 4: "Redirect",
    5: "Already the current path", 6: "Invalid QPN/EECN", 7: "Invalid LID", 8: "Invalid GID", 9: "Invalid flow label",
    10: "Invalid traffic class", 11: "Invalid hop limit", 12: "Invalid packet rate", 13: "Invalid SL",
}  # fmt: skip
"""APStatus of an APR (kernel ib_cm.h enum ib_cm_apr_status)."""

SIDR_REDIRECT = 4

SIDR_STATUS: Mapping[int, str] = {
    0: "Valid QPN", 1: "Service ID not supported", 2: "Rejected by service provider", 3: "No QP available", 4: "Redirect",
    5: "Version not supported",
}  # fmt: skip
"""Status of a SIDR_REP (kernel ib_cm.h enum ib_cm_sidr_status)."""

IP_CM_PREFIX, IP_CM_MASK = 0x0000_0000_0100_0000, 0xFFFF_FFFF_FF00_0000
SDP_PREFIX, SDP_MASK = 0x0000_0000_0001_0000, 0xFFFF_FFFF_FFFF_0000
IPOIB_CM_PREFIX, IPOIB_CM_MASK = 0x1000_0000_0000_0000, 0xFFFF_FFFF_FF00_0000

SERVICE_RANGES: tuple[tuple[int, int, str], ...] = (
    (IP_CM_PREFIX, IP_CM_MASK, "RDMA IP CM"),
    (SDP_PREFIX, SDP_MASK, "SDP"),
    (IPOIB_CM_PREFIX, IPOIB_CM_MASK, "IPoIB connected mode"),
    (0x0200_0000_0000_0000, 0xFF00_0000_0000_0000, "OS administered"),
)
"""(service id, mask, purpose); the first match counts (kernel ib_cm.h, cma.c, ipoib_cm.c; RFC 4755)."""

IP_CM_TCP = 0x06
IP_PROTOCOLS: Mapping[int, str] = {0x01: "ICMP", IP_CM_TCP: "TCP", 0x11: "UDP"}
"""RDMA port space of a service id of RDMA IP CM: 0x06 connections, 0x11 datagrams, 0x01 IPoIB (kernel rdma_user_cm.h: 0x0106, 0x0111)."""

IP_PORTS: Mapping[int, str] = {3260: "iSER", 4420: "NVMe", 18634: "RDS", 20049: "NFS"}
"""Well-known destination ports of RDMA services (IANA; 18634 kernel net/rds)."""

USER_PORTS = 1024
"""The first port that is no system port (RFC 6335)."""


def is_own_port(service_id: int) -> bool:
    """Whether a service id names a TCP port that a process may have chosen: it is no system port, and none of a known service."""
    port = service_id & 0xFFFF
    return service_id - port == IP_CM_PREFIX | IP_CM_TCP << 16 and port >= USER_PORTS and port not in IP_PORTS


def same_service(service_id: int | None) -> int | None:
    """The id by which connections to one service are compared: IPoIB's ends with the queue pair of the interface, which changes."""
    ipoib = service_id is not None and service_id & IPOIB_CM_MASK == IPOIB_CM_PREFIX
    return IPOIB_CM_PREFIX if ipoib else service_id


def service_range(service_id: int) -> str:
    """The purpose of a service id; empty if unknown."""
    return next((name for prefix, mask, name in SERVICE_RANGES if service_id & mask == prefix), "")


def service_text(service_id: int) -> str:
    """`0x0000000001061144 (RDMA IP CM, TCP port 4420, NVMe)`."""
    parts = [service_range(service_id)]
    if service_id & IP_CM_MASK == IP_CM_PREFIX:
        protocol, port = service_id >> 16 & 0xFF, service_id & 0xFFFF
        parts += [f"{IP_PROTOCOLS.get(protocol, f'protocol {protocol}')} port {port}", IP_PORTS.get(port, "")]
    elif service_id & IPOIB_CM_MASK == IPOIB_CM_PREFIX:
        parts.append(f"QP 0x{service_id & 0xFFFFFF:06x}")
    elif service_id & SDP_MASK == SDP_PREFIX:
        parts.append(f"port {service_id & 0xFFFF}")
    named = ", ".join(filter(None, parts))
    return f"0x{service_id:016x} ({named})" if named else f"0x{service_id:016x}"


def port_text(port: int) -> str:
    """A destination port with its well-known RDMA service."""
    return f"{port} ({IP_PORTS[port]})" if port in IP_PORTS else str(port)


def rnr_retry_text(count: int) -> str:
    """RNR retry count; 7 means infinite (IBA 9.7.5.2.8)."""
    return "7 (infinite)" if count == 7 else str(count)


def ack_timeout_text(code: int) -> str:
    """Local ACK timeout of a path; 0 means infinite (IBA 9.7.6.1.3)."""
    return "0 (infinite)" if code == 0 else timeout_text(code)

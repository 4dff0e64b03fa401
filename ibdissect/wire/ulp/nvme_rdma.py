"""NVMe over RDMA: the private data of REQ, REP and REJ between hosts and controllers. Integers are little-endian."""

from __future__ import annotations

from collections.abc import Mapping

from ..cm_names import IP_CM_PREFIX
from ..places import CmService
from ..spec import Struct, enum, hole, raw, uint
from .rdma_cm import IP_CM_SIZE

NVME_PORT, DISCOVERY_PORT = 4420, 8009
SERVICE, DISCOVERY = (IP_CM_PREFIX | 0x06 << 16 | port for port in (NVME_PORT, DISCOVERY_PORT))
IO_QUEUE = 1 << 63
"""Added to the service id of a connection for an I/O queue, which has other commands than the admin queue. RDMA IP CM leaves that bit 0."""

STATUS: Mapping[int, str] = {
    1: "invalid private data length", 2: "invalid record format", 3: "invalid queue id", 4: "invalid host send queue size",
    5: "invalid host receive queue size", 6: "no resources", 7: "invalid IRD", 8: "invalid ORD", 9: "invalid controller id",
}  # fmt: skip
"""Status of a REJ (kernel linux/nvme-rdma.h enum nvme_rdma_cm_status)."""


def queue_text(value: int) -> str:
    """A queue id; 0 is the admin queue."""
    return f"{value} ({'I/O' if value else 'admin'})"


def one_based_text(value: int) -> str:
    """A size that is sent as size - 1."""
    return f"{value} ({value + 1} entries)"


class NVMeConnectRequest(Struct):
    """The queue that a host wants to create, after the header of RDMA IP CM."""

    prefix, key, section, size = "nvme-rdma", "cm.req", "NVMe over Fabrics 7.3.6.2; kernel linux/nvme-rdma.h", 68
    title = "NVMe connect request"
    carried_by = (CmService(SERVICE, messages=frozenset({0x0010})),)
    header = hole(IP_CM_SIZE, "RDMA IP CM header", at="0")
    record_format = uint(16, "Record Format", at="36", little=True, ws="recfmt")
    queue_id = uint(16, "Queue Id", at="38", show=queue_text, little=True, ws="qid")
    host_receive_queue_size = uint(16, "Host Receive Queue Size", at="40", little=True, ws="hrqsize")
    host_send_queue_size = uint(16, "Host Send Queue Size", at="42", show=one_based_text, little=True, ws="hsqsize")
    controller_id = uint(16, "Controller ID", at="44", little=True, ws="cntlid")
    reserved = raw(22, "Reserved", at="46", ws="reserved")


class NVMeConnectReply(Struct):
    """How many commands a controller receives on the new queue."""

    prefix, key, section, size = "nvme-rdma", "cm.rsp", "NVMe over Fabrics 7.3.6.3; kernel linux/nvme-rdma.h", 32
    title = "NVMe connect reply"
    carried_by = (CmService(SERVICE, messages=frozenset({0x0013})),)
    record_format = uint(16, "Record Format", at="0", little=True, ws="recfmt")
    controller_receive_queue_size = uint(16, "Controller Receive Queue Size", at="2", little=True, ws="crqsize")
    reserved = raw(28, "Reserved", at="4", ws="reserved")


class NVMeConnectReject(Struct):
    """Why a controller refuses the connection."""

    prefix, key, section, size = "nvme-rdma", "cm.rej", "NVMe over Fabrics 7.3.6.4; kernel linux/nvme-rdma.h", 4
    title = "NVMe connect reject"
    carried_by = (CmService(SERVICE, messages=frozenset({0x0012})),)
    record_format = uint(16, "Record Format", at="0", little=True, ws="recfmt")
    status = enum(16, STATUS, "Status", at="2", little=True)


def served_by(service_id: int, private_data: bytes) -> int:
    """What messages on a connection are, given its REQ: its service id, with IO_QUEUE if it is for an I/O queue of NVMe."""
    at, stop = NVMeConnectRequest.queue_id.span
    return service_id | (IO_QUEUE if service_id in (SERVICE, DISCOVERY) and any(private_data[at:stop]) else 0)

"""Q_Keys and source queue pairs that are wrong in one packet."""

from ibdissect.lint.rule import ERROR, INFO, WARNING, Rule
from ibdissect.rules.shared.packet_flows import KNOWN_HEADERS, PACKET_FLOW, PacketRule
from ibdissect.wire.expr import present
from ibdissect.wire.headers import BTH, DETH, LRH
from ibdissect.wire.mad import MAD
from ibdissect.wire.numbers import GSI_Q_KEY, SMP_CLASSES

PRIVILEGED = 0x80000000


class ManagementQKey(Rule):
    """A datagram to queue pair 1 does not carry the well-known Q_Key.

    Queue pair 1 accepts only Q_Key 0x80010000. The packet is dropped and a bad-Q_Key trap may follow; the request in it times out.

    Correct the sender. A redirected management service may use another key, but not on queue pair 1.
    """

    code, name, severity = "QKY001", "qp1-qkey-wrong", ERROR
    explains = ("TXN001",)
    reference = "python-rdma IB_DEFAULT_QP1_QKEY"
    when = (DETH.q_key != GSI_Q_KEY) & (BTH.destqp == 1) & present(LRH)
    flow = (*PACKET_FLOW, DETH.q_key)
    message = "a packet to queue pair 1 has {q_key}, it accepts 0x80010000 only"
    example = "a general management datagram with Q_Key 1"


class SubnetManagementQKey(PacketRule):
    """A datagram to queue pair 0 carries a Q_Key.

    Queue pair 0 does not check it, and senders leave it 0. This sender treats subnet management like other datagrams.

    Nothing urgent; report it to the vendor of the sender.
    """

    code, name, severity = "QKY002", "qp0-qkey-nonzero", WARNING
    reference = "python-rdma IB_DEFAULT_QP0_QKEY; public captures"
    when = (DETH.q_key != 0) & (BTH.destqp == 0)
    message = "a packet to queue pair 0 has {q_key}, senders leave it 0"
    example = "SubnGet(NodeInfo) with Q_Key 5"


class PrivilegedQKey(Rule):
    """An ordinary queue pair sends with a privileged Q_Key.

    Q_Keys with the highest bit set are reserved for the operating system: an application can use one only if its privileged side
    put it into the queue pair. Between ordinary queue pairs it may be a service that poses as management.

    Find the process that owns the source queue pair.

    One packet is enough. Only an `info`: services of the kernel use such keys legitimately, and a packet does not show its owner.
    """

    code, name, severity = "QKY003", "privileged-qkey-user", INFO
    reference = "kernel IB_QP_SET_QKEY; opensm IB_QP_PRIVILEGED_Q_KEY"
    when = (DETH.q_key >= PRIVILEGED) & (DETH.srcqp > 1) & (BTH.destqp != 1) & KNOWN_HEADERS
    flow = (*PACKET_FLOW, DETH.srcqp)
    message = "queue pair 0x{srcqp:06x} sends with {q_key}, which is privileged (highest bit set), and is no management queue pair"
    example = "a UD packet between user queue pairs with Q_Key 0x80000001"


class DatagramReserved(Rule):
    """The reserved byte of the datagram header is not zero.

    Receivers ignore it. A sender that fills it takes the source queue pair for 32 bits, or did not clear its buffer.

    Look at the sender's driver: the byte is not part of the queue pair number.
    """

    code, name, severity = "QKY006", "srcqp-reserved-bits", WARNING
    reference = "IBA 9.3.2"
    when = (DETH.reserved8 != 0) & KNOWN_HEADERS
    flow = (*PACKET_FLOW, DETH.srcqp)
    message = "the reserved byte in front of the source queue pair is 0x{reserved8:02x}"
    example = "a UD packet whose DETH byte 4 is 1"


class SubnetManagementSource(Rule):
    """A subnet management packet is not sent from queue pair 0 to queue pair 0.

    Subnet management runs between queue pairs 0, which only privileged software can open. This packet is forged or faulty, and its answer
    goes to the wrong place.

    Find the sender, and take it seriously: subnet management can reconfigure any port.
    """

    code, name, severity = "QKY007", "smp-other-qp", ERROR
    reference = "IBA 3.9"
    when = ((BTH.destqp == 0) & (DETH.srcqp != 0)) | ((DETH.srcqp == 0) & (BTH.destqp != 0) & MAD.mgmt_class.isin(SMP_CLASSES))
    at = DETH.srcqp
    flow = (*PACKET_FLOW, DETH.srcqp)
    message = "subnet management from queue pair 0x{srcqp:06x} to queue pair 0x{BTH.destqp:06x}; both must be 0"
    example = "SubnGet(NodeInfo) from queue pair 7"

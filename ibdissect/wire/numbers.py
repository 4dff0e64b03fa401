"""Numbers of the standard that code compares with: management classes, methods, attributes, LIDs, defined only here.

Their displayed names are in `wire.mad` and `wire.names`.
"""

# -- LIDs (IBA 4.1.3)
LAST_UNICAST, FIRST_MULTICAST, LAST_MULTICAST, PERMISSIVE, LID_COUNT = 0xBFFF, 0xC000, 0xFFFE, 0xFFFF, 1 << 16
MULTICAST_LIDS = range(FIRST_MULTICAST, PERMISSIVE)
MAX_LMC = 7
"""A port has 2 to the power of LMC consecutive LIDs."""

LINK_LOCAL = 0xFE80 << 48
"""The GID prefix that every subnet may use (IBA 4.1.1)."""
MGID_IPV4, MGID_IPV6, MGID_COMPOSED = 0x401B, 0x601B, 0xA01B
"""Signatures of multicast GIDs: IPv4 and IPv6 over InfiniBand (RFC 4391), and groups whose GID the subnet manager composed (opensm)."""

MAX_WORDS = 0x41F
"""PktLen of the largest packet (IBA 7.7): LRH (8), GRH (40), BTH and extended headers, payload of 4096, ICRC are 1055 words."""
MANAGEMENT_VL = 15
"""The lane of subnet management (IBA 7.6); in an SL to VL table it means that packets are dropped."""
GSI_QP, GSI_Q_KEY = 1, 0x80010000
"""The well-known Q_Key of queue pair 1."""
MULTICAST_QP = 0xFFFFFF
"""The queue pair that packets to groups name (IBA 10.5)."""

# -- P_Keys (IBA 10.9)
FULL, BASE = 0x8000, 0x7FFF
"""The membership bit, and the bits that name the partition."""

# -- States of a subnet manager (IBA 14.2.5.13)
STANDBY, MASTER = 2, 3

# -- Management classes (IBA 13.4.4)
LID_ROUTED, DIRECTED = 0x01, 0x81
SMP_CLASSES = frozenset({LID_ROUTED, DIRECTED})
"""Both classes of subnet management."""
SA_CLASS, PM_CLASS, BM_CLASS, DM_CLASS, CM_CLASS, SNMP_CLASS, CC_CLASS = 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x21
ASKED_OF_ALL = SMP_CLASSES | {SA_CLASS, PM_CLASS, CM_CLASS}
"""Classes whose requests go only to who answers them: every node, or the manager that a port names."""

# -- Methods (IBA 13.4.5, 15.2.2)
GET, SET, SEND, TRAP, REPORT, TRAP_REPRESS = 0x01, 0x02, 0x03, 0x05, 0x06, 0x07
GET_TABLE, GET_TRACE, GET_MULTI, DELETE = 0x12, 0x13, 0x14, 0x15
GET_RESP, REPORT_RESP, GET_TABLE_RESP, GET_TRACE_RESP, GET_MULTI_RESP, DELETE_RESP = 0x81, 0x86, 0x92, 0x93, 0x94, 0x95
RESPONSE_BIT = 0x80
"""Set in response methods, except TrapRepress."""
TABLE_RESPONSES = (GET_TABLE_RESP, GET_TRACE_RESP, GET_MULTI_RESP)
"""Each holds a table of records, which may be empty."""
STATUS = 0x7FFF
"""The bits of a status. Bit 15 of a directed-route SMP's is its direction."""
CLASS_STATUS = 8
"""The class-specific status begins at this bit; lower bits say that the agent was busy, or lacks the method or attribute."""
NO_DATA = 0xFF1D
"""Status bits of a response without data. Bit 1 is not among them: a redirection carries ClassPortInfo (IBA 13.5.2)."""

# -- RMPP types (IBA 13.6.2.1)
DATA, ACK, STOP, ABORT = 1, 2, 3, 4
LAST_SEGMENT = 4
"""The flag of a transfer's last segment."""

# -- Attributes of all classes, and of subnet management (IBA 13.4.8, 14.2.5)
CLASS_PORT_INFO, NOTICE, INFORM = 0x0001, 0x0002, 0x0003
NODE_DESCRIPTION, NODE_INFO, SWITCH_INFO, GUID_INFO, PORT_INFO, P_KEY_TABLE, SL_TO_VL = 0x10, 0x11, 0x12, 0x14, 0x15, 0x16, 0x17
VL_ARBITRATION, LINEAR, RANDOM, MULTICAST, SM_INFO, VENDOR_DIAG, LED_INFO = 0x18, 0x19, 0x1A, 0x1B, 0x20, 0x30, 0x31

FIRST_VENDOR = 0xFF00
"""Attributes from here on belong to vendors (IBA 14.2.5)."""

# -- Attributes of other classes
SERVICE_ENTRIES = 0x0012
"""Attribute of device management."""
PORT_INFO_RECORD, P_KEY_TABLE_RECORD, PATH, MEMBER_RECORD, MULTI_PATH = 0x0012, 0x0033, 0x0035, 0x0038, 0x003A
"""Attributes of subnet administration."""
GUID = (1 << 64) - 1
"""The part of a GID that names the port; the rest is its subnet's prefix."""

RNR_TIMER_US = (
    655360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1280, 1920, 2560, 3840, 5120, 7680, 10240, 15360,
    20480, 30720, 40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520,
)  # fmt: skip
"""How long the sender must wait after an RNR NAK, in microseconds, by its timer code (IBA 9.7.5.2.8, table 45)."""


def rnr_timer_text(code: int) -> str:
    """RNR NAK timer code (0-31) as milliseconds."""
    return f"{RNR_TIMER_US[code] / 1000:g} ms"

"""Notices of NVIDIA's devices and managers. Their trap number is in the last two bytes of the details.

Layouts as in the ib_types.h that trex-core carries (NVIDIA, 2021-2025, GPL-2.0 or BSD).
"""

from __future__ import annotations

from .mad import METHODS
from .names import NODE_TYPE
from .notice import Notice, TrapPKey, TrapQKey
from .places import Inside
from .spec import Struct, array, bit, enum, flag, gid, guid, hole, lid, qpn, raw, secret, uint

_SOURCE = "trex-core ib_types.h"
NVIDIA = 0x0002C9
"""VendorID of NVIDIA's (Mellanox's) notices: its first OUI."""

TRAP = {
    1144: "Virtual port changed", 1146: "Virtual port state changed", 1148: "Router data changed", 1257: "Bad P_Key of a virtual port",
    1258: "Bad Q_Key of a virtual port", 1300: "Bad SA key", 1301: "Spoofed SGID", 1302: "SA rate limit exceeded",
    1303: "Multicast joins exceeded", 1304: "Services exceeded", 1305: "Event subscriptions exceeded",
    1306: "Unauthorized SM GUID found", 1307: "SMInfo set by unauthorized SM GUID", 1308: "Bad M_Key in an answer",
    1309: "Bad SM_Key", 1310: "Duplicated node GUID", 1311: "Duplicated port GUID", 1312: "Node rebooted",
    1313: "Router LID assignment failed", 1314: "Fast recovery", 1315: "Topology file cannot be read",
    1316: "Link contradicts topology file", 1317: "Contain and drain: port state changed", 1318: "Unauthorized packets",
    1319: "Upgrade state changed", 1320: "Port recovered", 1321: "Link flaps", 1322: "Cycle of key updates finished",
    1600: "Bad key of a class", 1601: "Tenant's access refused", 1605: "Routing engine removed", 1606: "Routing engine recovered",
    1609: "Switch isolated for an upgrade", 1610: "Switch restored after an upgrade",
}  # fmt: skip
"""Trap numbers of NVIDIA's notices."""


ROUTER_LID_FAULTS = {
    2: "subnets disagree on the range of floating LIDs", 3: "bad range of global floating LIDs",
    4: "bad range of local floating LIDs", 5: "more LIDs than allowed",
}  # fmt: skip
TOPOLOGY_FILE_FAULTS = {0: "cannot be opened", 1: "bad syntax", 2: "failed validation"}


class VendorDetails(Struct):
    """Details of an NVIDIA notice."""

    key, section, size = "trap", f"{_SOURCE} vendor_data_details", 54
    carried_by = (Inside(Notice.data_details, ((Notice.is_generic, frozenset({0})), (Notice.vendor_id, frozenset({NVIDIA})))),)
    details = hole(52, "Details", at="0")
    vendor_trap_number = enum(16, TRAP, "VendorTrapNumber", at="52")


def _of(*numbers: int) -> tuple[Inside, ...]:
    return (Inside(VendorDetails.details, ((VendorDetails.vendor_trap_number, frozenset(numbers)),)),)


class TrapVPortChange(Struct):
    """Trap 1144: capabilities or name of a virtual port changed."""

    key, section, size = "trap", f"{_SOURCE} ntc_1144, TRAP_1144_MASK", 14
    carried_by = _of(1144)
    lidaddr = lid("LIDADDR", at="..2")
    other_local_changes = flag("OtherLocalChanges", at="..5[7]")
    capability_mask = uint(16, "CAPABILITYMASK", at="6", base="hex")
    change_flags = uint(16, "ChangeFlags", at="8", base="hex")
    hierarchy_info_change = bit(change_flags, 4, "HierarchyInfoChange")
    sm_priority_change = bit(change_flags, 3, "SMPriorityChange")
    node_description_change = bit(change_flags, 0, "NodeDescriptionChange")
    vport_index = uint(16, "VPortIndex", at="..12")


class TrapVPortState(Struct):
    """Trap 1146: the state of a virtual port changed."""

    key, section, size = "trap", f"{_SOURCE} ntc_1146", 4
    carried_by = _of(1146)
    lidaddr = lid("LIDADDR", at="..2")


class TrapVPortPKey(TrapPKey):
    """Trap 1257: a packet with a wrong P_Key at a virtual port, and both its ends."""

    key, section, size = "trap", f"{_SOURCE} ntc_1257", 52
    carried_by = _of(1257)
    vport_index = uint(16, "VPortIndex", at="50")


class TrapVPortQKey(TrapQKey):
    """Trap 1258: a packet with a wrong Q_Key at a virtual port, and both its ends."""

    key, section, size = "trap", f"{_SOURCE} ntc_1258", 52
    carried_by = _of(1258)
    vport_index = uint(16, "VPortIndex", at="50")


class TrapSALimit(Struct):
    """Traps 1302 to 1305: a port asks the SA for too much."""

    key, section, size = "trap", f"{_SOURCE} ntc_1302, ntc_1303_1305", 46
    carried_by = _of(1302, 1303, 1304, 1305)
    sgid = gid("SGID", at="..6")
    port_guid = guid("PortGUID", at="22")
    target_guid = guid("TargetGUID", at="30")
    target_port_guid = guid("TargetPortGUID", at="38")


class TrapAnswerMKey(Struct):
    """Trap 1308: an answer with a wrong M_Key, and the path to its sender."""

    key, section, size = "trap", f"{_SOURCE} ntc_1308", 52
    carried_by = _of(1308)
    lidaddr = lid("LIDADDR", at="..2")
    attributeid = uint(16, "ATTRIBUTEID", at="4", base="hex")
    method = enum(8, METHODS, "METHOD", at="..7", base="hex")
    port_guid = guid("PortGUID", at="8")
    dr_notice = flag("DRNotice", at="..19")
    dr_path_truncated = flag("DRPathTruncated", at="19[1]")
    dr_hop_count = uint(6, "DRHopCount", at="19[2]")
    dr_initial_path = raw(24, "DRInitialPath", at="20", holds="ports")
    mkey = secret(64, "M_Key", "MKEY", at="44")


class TrapDuplicateNode(Struct):
    """Trap 1310: two nodes with one GUID, and the neighbours that see them."""

    key, section, size = "trap", f"{_SOURCE} ntc_1310", 28
    carried_by = _of(1310)
    node_guid = guid("NodeGUID", at="..2")
    peer_node_guid1 = guid("PeerNodeGUID1", at="10")
    peer_node_guid2 = guid("PeerNodeGUID2", at="18")
    peer_port1 = uint(8, "PeerPort1", at="26")
    peer_port2 = uint(8, "PeerPort2", at="27")


class TrapDuplicatePort(Struct):
    """Trap 1311: two ports with one GUID, and their nodes."""

    key, section, size = "trap", f"{_SOURCE} ntc_1311", 32
    carried_by = _of(1311)
    port_guid = guid("PortGUID", at="..2")
    node_guid1 = guid("NodeGUID1", at="10")
    node_guid2 = guid("NodeGUID2", at="18")
    port1 = uint(8, "Port1", at="26")
    port2 = uint(8, "Port2", at="27")
    vport_index1 = uint(16, "VPortIndex1", at="28")
    vport_index2 = uint(16, "VPortIndex2", at="30")


class TrapReboot(Struct):
    """Trap 1312: a node restarted."""

    key, section, size = "trap", f"{_SOURCE} ntc_1312", 20
    carried_by = _of(1312)
    port_guid = guid("PortGUID", at="..2")
    node_guid = guid("NodeGUID", at="10")
    portno = uint(8, "PORTNO", at="..19")


class TrapFlap(Struct):
    """Trap 1321: a link that comes and goes, by both its ends."""

    key, section, size = "trap", f"{_SOURCE} ntc_1321", 22
    carried_by = _of(1321)
    node_guid1 = guid("NodeGUID1", at="..2")
    node_guid2 = guid("NodeGUID2", at="10")
    port1 = uint(16, "Port1", at="18")
    port2 = uint(16, "Port2", at="20")


class TrapSpoofedSGID(Struct):
    """Trap 1301: a request to the SA with a GID that is not its sender's."""

    key, section, size = "trap", f"{_SOURCE} ntc_1301", 30
    carried_by = _of(1301)
    slid = lid("SLID", at="0")
    attributeid = uint(16, "ATTRIBUTEID", at="2", base="hex")
    method = enum(8, METHODS, "METHOD", at="4", base="hex")
    sgid = gid("SGID", at="..6")
    port_guid = guid("PortGUID", at="22")


class TrapSAKey(TrapSpoofedSGID):
    """Trap 1300: a request to the SA with a wrong key."""

    key, section, size = "trap", f"{_SOURCE} ntc_1300", 38
    carried_by = _of(1300)
    sa_key = secret(64, "SM_Key", "SA_Key", at="30")


class TrapClassKey(TrapSpoofedSGID):
    """Trap 1600: a MAD with a wrong key of its class, as a manager reports it."""

    key, section, size = "trap", f"{_SOURCE} ntc_1600", 38
    carried_by = _of(1600)
    reserved1 = uint(8, "MgmtClass", at="5", base="hex")
    key_value = secret(64, "V_Key", "KEY", at="30")


class TrapSMGUID(Struct):
    """Traps 1306 and 1307: a subnet manager whose GUID is not allowed, and the path to it."""

    key, section, size = "trap", f"{_SOURCE} ntc_1306_1307", 44
    carried_by = _of(1306, 1307)
    lidaddr = lid("LIDADDR", at="..2")
    sm_guid = guid("UnauthorizedSMGUID", at="..8")
    dr_notice = flag("DRNotice", at="..19")
    dr_path_truncated = flag("DRPathTruncated", at="19[1]")
    dr_hop_count = uint(6, "DRHopCount", at="19[2]")
    dr_initial_path = raw(24, "DRInitialPath", at="20", holds="ports")


class TrapSMKey(TrapSMGUID):
    """Trap 1309: an SMInfo with a wrong SM_Key, and the path to its sender."""

    key, section, size = "trap", f"{_SOURCE} ntc_1309", 52
    carried_by = _of(1309)
    sm_guid = guid("PortGUID", at="8")
    sm_key = secret(64, "SM_Key", at="44")


class TrapRouterLID(Struct):
    """Trap 1313: the LIDs of routers could not be assigned."""

    key, section, size = "trap", f"{_SOURCE} ntc_1313", 18
    carried_by = _of(1313)
    syndrome = enum(8, ROUTER_LID_FAULTS, "Syndrome", at="0")
    comp_ratio = uint(8, "CompRatio", at="1")
    global_router_lid_range_start = uint(32, "GlobalRouterLIDRangeStart", at="2")
    global_router_lid_range_end = uint(32, "GlobalRouterLIDRangeEnd", at="6")
    local_router_lid_range_start = uint(32, "LocalRouterLIDRangeStart", at="10")
    local_router_lid_range_end = uint(32, "LocalRouterLIDRangeEnd", at="14")


class TrapFastRecovery(Struct):
    """Trap 1314: a watched counter of a port crossed a threshold."""

    key, section, size = "trap", f"{_SOURCE} ntc_1314", 46
    carried_by = _of(1314)
    portno = uint(8, "PORTNO", at="..1")
    trigger = uint(8, "Trigger", at="2")
    threshold_type = uint(8, "ThresholdType", at="3")
    fields_select = uint(16, "FieldsSelect", at="4", base="hex")
    counter_overflow = uint(16, "CounterOverflow", at="..8", base="hex")
    num_errors = uint(32, "NumErrors", at="10")
    num_warnings = uint(32, "NumWarnings", at="14")
    num_normals = uint(32, "NumNormals", at="18")
    min_value = uint(32, "MinValue", at="22")
    max_value = uint(32, "MaxValue", at="26")
    consecutive_normal = uint(32, "ConsecutiveNormal", at="30")
    last_value = array(3, uint(32, "LastValue", at="34"))


class TrapTopologyFile(Struct):
    """Trap 1315: the manager cannot read its topology file."""

    key, section, size = "trap", f"{_SOURCE} ntc_1315", 1
    carried_by = _of(1315)
    error_type = enum(8, TOPOLOGY_FILE_FAULTS, "ErrorType", at="0")


class TrapTopologyLink(Struct):
    """Trap 1316: a cable leads to another port than the topology file says."""

    key, section, size = "trap", f"{_SOURCE} ntc_1316", 29
    carried_by = _of(1316)
    node_guid = guid("NodeGUID", at="0")
    neighbor_node_guid = guid("NeighborNodeGUID", at="8")
    expected_neighbor_node_guid = guid("ExpectedNeighborNodeGUID", at="16")
    portno = uint(8, "PORTNO", at="24")
    neighbor_port = uint(8, "NeighborPort", at="25")
    neighbor_node_type = enum(8, NODE_TYPE, "NeighborNodeType", at="26")
    expected_neighbor_port = uint(8, "ExpectedNeighborPort", at="27")
    expected_neighbor_node_type = enum(8, NODE_TYPE, "ExpectedNeighborNodeType", at="28")


class TrapContainAndDrain(Struct):
    """Trap 1317: ports began or ceased to contain and drain; the mask says in which blocks of ports."""

    key, section, size = "trap", f"{_SOURCE} ntc_1317", 38
    carried_by = _of(1317)
    lidaddr = lid("LIDADDR", at="0")
    block_mask = raw(32, "BlockMask", at="..6")


class TrapUnauthorizedPackets(Struct):
    """Trap 1318: packets that a port may not send, and their path; DataValid says which fields count."""

    key, section, size = "trap", f"{_SOURCE} ntc_1318, IB_TRAP_UNAUTHORIZED_PACKETS", 50
    carried_by = _of(1318)
    data_valid = uint(16, "DataValid", at="0", base="hex")
    lid1_valid = bit(data_valid, 0, "LID1Valid")
    lid2_valid = bit(data_valid, 1, "LID2Valid")
    reason_valid = bit(data_valid, 2, "ReasonValid")
    qp1_valid = bit(data_valid, 4, "QP1Valid")
    qp2_valid = bit(data_valid, 5, "QP2Valid")
    dr_path_valid = bit(data_valid, 6, "DRPathValid")
    lidaddr1 = lid("LIDADDR1", at="2")
    lidaddr2 = lid("LIDADDR2", at="4")
    reason = uint(4, "Reason", at="..9[4]")
    qp1 = qpn("QP1", at="..11")
    hop_count = uint(8, "HopCount", at="14")
    qp2 = qpn("QP2", at="15")
    dr_path = array(16, uint(16, "DRPath", at="18"))


class TrapUpgrade(Struct):
    """Trap 1319: the state of a device's upgrade changed."""

    key, section, size = "trap", f"{_SOURCE} ntc_1319", 2
    carried_by = _of(1319)
    state = uint(8, "State", at="..1")


class TrapPortRecovered(Struct):
    """Trap 1320: ports of a block of 256 work again."""

    key, section, size = "trap", f"{_SOURCE} ntc_1320", 34
    carried_by = _of(1320)
    block_id = uint(8, "BlockID", at="0")
    recovered_ports = raw(32, "RecoveredPorts", at="..2")


class TrapTenant(Struct):
    """Trap 1601: a tenant reached for what is not his."""

    key, section, size = "trap", f"{_SOURCE} ntc_1601", 35
    carried_by = _of(1601)
    physical_group_id = uint(64, "PhysicalGroupID", at="0", base="hex", holds="network")
    physical_guid = guid("PhysicalGUID", at="8")
    virtual_group_id = uint(64, "VirtualGroupID", at="16", base="hex", holds="network")
    virtual_guid = guid("VirtualGUID", at="24")
    vport_index = uint(16, "VPortIndex", at="32")
    tenant_notice_type = uint(8, "TenantNoticeType", at="34")


class TrapRoutingEngine(Struct):
    """Traps 1605 and 1606: the routing engine was removed from a node, or recovered."""

    key, section, size = "trap", f"{_SOURCE} ntc_1605, ntc_1606", 8
    carried_by = _of(1605, 1606)
    node_guid = guid("GUID", at="0")


class TrapSwitchUpgrade(TrapRoutingEngine):
    """Traps 1609 and 1610: a switch was isolated for its upgrade, or restored."""

    key, section, size = "trap", f"{_SOURCE} ntc_1609, ntc_1610", 9
    carried_by = _of(1609, 1610)
    state = uint(8, "State", at="8")

"""SA records of routes through the subnet: paths, links, traces, multicast membership."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from .convert import lid_text, rate_text, timeout_text
from .names import MTU, NODE_TYPE
from .places import Mad
from .spec import Struct, bit, enum, flag, gid, guid, lid, nested, pad, part, pkey, rest, secret, uint
from .tail import repeat

SELECTOR: Mapping[int, str] = {0: "greater than", 1: "less than", 2: "exactly", 3: "largest available"}
"""MTUSelector and RateSelector (IBA 15.2.5.16)."""

LIFETIME_SELECTOR: Mapping[int, str] = {**SELECTOR, 3: "smallest available"}
"""PacketLifeTimeSelector."""

SCOPE: Mapping[int, str] = {1: "interface-local", 2: "link-local", 5: "site-local", 8: "organization-local", 0xE: "global"}
"""Scope of a multicast group, as in its GID (IBA 4.1.1)."""

PATH_PARAMETERS = (
    "t_class", "reversible", "numb_path", "p_key", "qos_class", "sl", "mtu_selector", "mtu", "rate_selector", "rate",
    "packet_life_time_selector", "packet_life_time",
)  # fmt: skip
"""The components that PathRecord and MultiPathRecord share, in the same order."""


class PathRecord(Struct):
    """How to reach one port from another."""

    key, section, size = "pathrecord", "IBA 15.2.5.16; python-rdma SAPathRecord; bytes 58: python-rdma iba_15.xml", 64
    carried_by = (Mad(0x03, 0x0035),)
    components: ClassVar[tuple[str, ...]] = (
        "service_id8_msb", "service_id56_lsb", "dgid", "sgid", "dlid", "slid", "raw_traffic", "", "flow_label", "hop_limit",
        *PATH_PARAMETERS, "preference", "reverse_path_p_key_member_bit", "", "",
    )  # fmt: skip
    service_id = uint(64, "ServiceID", at="0", base="hex", holds="service")
    service_id8_msb = part(service_id, 63, 56, "ServiceID8MSB", base="hex")
    service_id56_lsb = part(service_id, 55, 0, "ServiceID56LSB", base="hex")
    dgid = gid("DGID", at="8")
    sgid = gid("SGID", at="24")
    dlid = lid("DLID", at="40")
    slid = lid("SLID", at="42")
    raw_traffic = flag("RawTraffic", at="44")
    reserved_353 = pad(3, at="44[1]")
    flow_label = uint(20, "FlowLabel", at="44[4]", base="hex", holds="network")
    hop_limit = uint(8, "HopLimit", at="47")
    t_class = uint(8, "TClass", at="48", base="hex")
    reversible = flag("Reversible", at="49")
    numb_path = uint(7, "NumbPath", at="49[1]")
    p_key = pkey("P_Key", at="50")
    # Wireshark 4.0 shows these 12 bits as reserved; in IBA 1.2.1, OpenSM and python-rdma they are the QoS class
    qos_class = uint(12, "QoSClass", at="52")
    sl = uint(4, "SL", at="53[4]")
    mtu_selector = enum(2, SELECTOR, "MTUSelector", at="54")
    mtu = enum(6, MTU, "MTU", at="54[2]")
    rate_selector = enum(2, SELECTOR, "RateSelector", at="55")
    rate = uint(6, "Rate", at="55[2]", show=rate_text)
    packet_life_time_selector = enum(2, LIFETIME_SELECTOR, "PacketLifeTimeSelector", at="56")
    packet_life_time = uint(6, "PacketLifeTime", at="56[2]", show=timeout_text)
    preference = uint(8, "Preference", at="57")
    reverse_path_p_key_member_bit = uint(2, "ReversePathPKeyMemberBit", at="58")
    reserved_466 = pad(14, at="58[2]")
    reserved_480 = pad(32, at="60")


class MultiPathGID(Struct):
    """A source or destination of a MultiPathRecord, sources first."""

    key, section, size = "multipathrecord", "IBA 15.2.5.20; opensm", 16
    gid = gid("GID", at="0")


class MultiPathRecord(Struct):
    """A request for paths between any of some ports and any of others; the source GIDs come first, then the destinations."""

    key, section, size = "multipathrecord", "IBA 15.2.5.20; opensm ib_multipath_rec_t; GIDScope: Wireshark 4.0 (reserved in opensm)", 24
    carried_by = (Mad(0x03, 0x003A),)
    components: ClassVar[tuple[str, ...]] = (
        "raw_traffic", "", "flow_label", "hop_limit", *PATH_PARAMETERS, "service_id8_msb", "independence_selector", "gid_scope",
        "sgid_count", "dgid_count", "service_id56_lsb", "", "sdgid",
    )  # fmt: skip
    raw_traffic = flag("RawTraffic", at="0")
    reserved_1 = pad(3, at="0[1]")
    flow_label = uint(20, "FlowLabel", at="0[4]", base="hex", holds="network")
    hop_limit = uint(8, "HopLimit", at="3")
    t_class = uint(8, "TClass", at="4", base="hex")
    reversible = flag("Reversible", at="5")
    numb_path = uint(7, "NumbPath", at="5[1]")
    p_key = pkey("P_Key", at="6")
    qos_class = uint(12, "QoSClass", at="8")
    sl = uint(4, "SL", at="9[4]")
    mtu_selector = enum(2, SELECTOR, "MTUSelector", at="10")
    mtu = enum(6, MTU, "MTU", at="10[2]")
    rate_selector = enum(2, SELECTOR, "RateSelector", at="11")
    rate = uint(6, "Rate", at="11[2]", show=rate_text)
    packet_life_time_selector = enum(2, LIFETIME_SELECTOR, "PacketLifeTimeSelector", at="12")
    packet_life_time = uint(6, "PacketLifeTime", at="12[2]", show=timeout_text)
    service_id8_msb = uint(8, "ServiceID8MSB", at="13", base="hex", holds="data")
    independence_selector = enum(2, {0: "no constraint", 1: "independent"}, "IndependenceSelector", at="14")
    gid_scope = uint(6, "GIDScope", at="14[2]")
    sgid_count = uint(8, "SGIDCount", at="15")
    dgid_count = uint(8, "DGIDCount", at="16")
    service_id56_lsb = uint(56, "ServiceID56LSB", at="17", base="hex", holds="data")
    sdgid = rest("SDGID", at="24")
    gids = repeat(nested(MultiPathGID, "GID"), count=sgid_count + dgid_count)


class MCMemberRecord(Struct):
    """A multicast group, and with a port GID that port's membership of it.

    ProxyJoin is the most significant bit of its byte; OpenSM's C bit-field makes it the least on little-endian hosts.
    """

    key, section, size = "mcmemberrecord", "IBA 15.2.5.17; python-rdma SAMCMemberRecord", 52
    carried_by = (Mad(0x03, 0x0038),)
    components: ClassVar[tuple[str, ...]] = (
        "mgid", "port_gid", "q_key", "mlid", "mtu_selector", "mtu", "t_class", "p_key", "rate_selector", "rate",
        "packet_life_time_selector", "packet_life_time", "sl", "flow_label", "hop_limit", "scope", "join_state", "proxy_join", "",
    )  # fmt: skip
    mgid = gid("MGID", at="0")
    port_gid = gid("PortGID", at="16")
    q_key = secret(32, "Q_Key", at="32")
    mlid = uint(16, "MLID", at="36", base="hex", show=lid_text, holds="lid")
    mtu_selector = enum(2, SELECTOR, "MTUSelector", at="38")
    mtu = enum(6, MTU, "MTU", at="38[2]")
    t_class = uint(8, "TClass", at="39", base="hex")
    p_key = pkey("P_Key", at="40")
    rate_selector = enum(2, SELECTOR, "RateSelector", at="42")
    rate = uint(6, "Rate", at="42[2]", show=rate_text)
    packet_life_time_selector = enum(2, LIFETIME_SELECTOR, "PacketLifeTimeSelector", at="43")
    packet_life_time = uint(6, "PacketLifeTime", at="43[2]", show=timeout_text)
    sl = uint(4, "SL", at="44")
    flow_label = uint(20, "FlowLabel", at="44[4]", base="hex", holds="network")
    hop_limit = uint(8, "HopLimit", at="47")
    scope = enum(4, SCOPE, "Scope", at="48")
    join_state = uint(4, "JoinState", at="48[4]", base="hex")
    full_member = bit(join_state, 0, "FullMember")
    non_member = bit(join_state, 1, "NonMember")
    send_only_non_member = bit(join_state, 2, "SendOnlyNonMember")
    send_only_full_member = bit(join_state, 3, "SendOnlyFullMember")
    proxy_join = flag("ProxyJoin", at="49")
    reserved_393 = pad(23, at="49[1]")


class LinkRecord(Struct):
    """Which port is at the other end of a link."""

    key, section, size = "linkrecord", "IBA 15.2.5.13; python-rdma SALinkRecord", 8
    carried_by = (Mad(0x03, 0x0020),)
    components: ClassVar[tuple[str, ...]] = ("from_lid", "from_port", "to_port", "to_lid", "")
    from_lid = lid("FromLID", at="0")
    from_port = uint(8, "FromPort", at="2")
    to_port = uint(8, "ToPort", at="3")
    to_lid = lid("ToLID", at="4")
    reserved_48 = pad(16, at="6")


class TraceRecord(Struct):
    """One node on a path; the ids are chosen by the manager and are not GUIDs."""

    key, section, size = "tracerecord", "IBA 15.2.5.19; python-rdma SATraceRecord", 48
    carried_by = (Mad(0x03, 0x0039),)
    components: ClassVar[tuple[str, ...]] = (
        "gid_prefix", "id_generation", "", "node_type", "node_id", "chassis_id", "entry_port_id", "exit_port_id", "entry_port",
        "exit_port", "",
    )  # fmt: skip
    gid_prefix = guid("GidPrefix", at="0", holds="prefix")
    id_generation = uint(16, "IDGeneration", at="8")
    reserved_80 = pad(8, at="10")
    node_type = enum(8, NODE_TYPE, "NodeType", at="11")
    node_id = guid("NodeID", at="12")
    chassis_id = guid("ChassisID", at="20")
    entry_port_id = guid("EntryPortID", at="28")
    exit_port_id = guid("ExitPortID", at="36")
    entry_port = uint(8, "EntryPort", at="44")
    exit_port = uint(8, "ExitPort", at="45")
    reserved_368 = pad(16, at="46")

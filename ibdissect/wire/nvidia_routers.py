"""NVIDIA's vendor attributes of InfiniBand routers: their tables of subnets, next hops and LIDs.

Layouts as in the ib_types.h that trex-core carries (NVIDIA, 2021-2025, GPL-2.0 or BSD).
"""

from .places import smp
from .spec import Struct, array, bit, flag, lid, nested, pad, pkey, uint

_SOURCE = "trex-core ib_types.h"


class RouterInfo(Struct):
    """Table sizes and LID ranges of an InfiniBand router."""

    key, section, size = "mlnxrouterinfo", f"{_SOURCE} ib_router_info_t, IB_ROUTER_ATC", 40
    carried_by = smp(0xFFD0)
    capability_mask = uint(32, "CapabilityMask", at="0", base="hex")
    is_pfrn_supported = bit(capability_mask, 0, "IsPFRNSupported", ws="+capabilitymask.pfrnsupported")
    next_hop_table_cap = uint(32, "NextHopTableCap", at="4")
    next_hop_table_top = uint(32, "NextHopTableTop", at="8")
    table_changes = uint(16, "TableChanges", at="12", base="hex")
    adj_change = bit(table_changes, 15, "AdjChange")
    nh_change = bit(table_changes, 14, "NHChange")
    adj_lid_info_change = bit(table_changes, 13, "AdjLIDInfoChange")
    router_lid_change = bit(table_changes, 12, "RouterLIDChange")
    ar_group_to_router_lid_change = bit(table_changes, 11, "ARGroupToRouterLIDChange")
    adj_site_local_subnets_table_top = uint(8, "AdjSiteLocalSubnetsTableTop", at="14")
    adj_site_local_subnets_table_cap = uint(8, "AdjSiteLocalSubnetsTableCap", at="15")
    cap_supported_subnets = uint(8, "CapSupportedSubnets", at="16")
    ar_group_to_router_lid_table_cap = uint(16, "ARGroupToRouterLIDTableCap", at="..18")
    pfrn_rtr_enable = flag("PFRNRTREnable", at="..20[7]")
    adj_subnets_router_lid_info_table_top = uint(8, "AdjSubnetsRouterLIDInfoTableTop", at="21")
    router_lid_cap = uint(16, "RouterLIDCap", at="22")
    max_ar_group_id = uint(12, "MaxARGroupID", at="24")
    global_router_lid_start = uint(20, "GlobalRouterLIDStart", at="25[4]")
    global_router_lid_end = uint(20, "GlobalRouterLIDEnd", at="..29[4]")
    local_router_lid_start = uint(20, "LocalRouterLIDStart", at="..33[4]")
    local_router_lid_end = uint(20, "LocalRouterLIDEnd", at="..37[4]")


class NextHop(Struct):
    """The partition and the weight with which a router reaches a subnet."""

    key, section, size = "mlnxnexthoptable", f"{_SOURCE} rtr_next_hop_record", 16
    subnet_prefix = uint(64, "SubnetPrefix", at="0", base="hex", holds="prefix")
    weight = uint(8, "Weight", at="8")
    p_key = pkey("P_Key", at="..10")
    reserved2 = pad(32, at="12")


class NextHopTable(Struct):
    """Four next hops of a router."""

    key, section, size = "mlnxnexthoptable", f"{_SOURCE} ib_rtr_next_hop_table_block_t", 64
    carried_by = smp(0xFFD1)
    record = array(4, nested(NextHop, "Record", at="0"))


class AdjSiteLocalSubnetEntry(Struct):
    """A neighbouring subnet of a router."""

    key, section, size = "mlnxadjsitelocalsubnets", f"{_SOURCE} rtr_adj_site_local_subn_record", 8
    p_key = pkey("P_Key", at="0")
    subnet_prefix = uint(16, "SubnetPrefix", at="2", base="hex", holds="prefix")
    pfrn_rtr_enable_max_group_id = uint(16, "PFRNRTREnableMaxGroupID", at="4", base="hex")
    master_sm_lid = lid("MasterSMLID", at="6")


class AdjSiteLocalSubnetsTable(Struct):
    """Eight neighbouring subnets of a router."""

    key, section, size = "mlnxadjsitelocalsubnets", f"{_SOURCE} ib_rtr_adj_table_block_t", 64
    carried_by = smp(0xFFD2)
    record = array(8, nested(AdjSiteLocalSubnetEntry, "Record", at="0"))


class AdjSubnetsRouterLIDInfo(Struct):
    """Ranges of router LIDs in eight neighbouring subnets, whose bits have no open layout."""

    key, section, size = "mlnxadjsubnetsrouterlidinfo", f"{_SOURCE} ib_rtr_adj_subnets_lid_info_block_t", 64
    carried_by = smp(0xFFD5)
    record = array(8, uint(64, "Record", at="0", base="hex", holds="data"))


class RouterLIDTable(Struct):
    """Which of 512 router LIDs are used, a bit each."""

    key, section, size = "mlnxrouterlidtable", f"{_SOURCE} ib_rtr_router_lid_tbl_block_t", 64
    carried_by = smp(0xFFD6)
    lids = array(16, uint(32, "LIDs", at="0", base="hex", holds="data"))


class ARGroupToRouterLIDTable(Struct):
    """Router LIDs of 32 adaptive routing groups."""

    key, section, size = "mlnxargrouptorouterlid", f"{_SOURCE} ib_rtr_ar_group_to_lid_tbl_block_t", 64
    carried_by = smp(0xFFD7)
    router_lid = array(32, lid("RouterLID", at="0"))

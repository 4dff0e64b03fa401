"""Crafted answers of a small subnet: the facts that stateful rules need before they can report."""

from __future__ import annotations

from typing import Any

from ibdissect.subnet.earlier_answers import history_of
from ibdissect.wire.sm import NodeInfo, SwitchInfo
from ibdissect.wire.sm_port import PortInfo
from ibdissect.wire.sm_tables import PKeyEntry
from tests import craft

GET, SET, REPRESS, ANSWER = 0x01, 0x02, 0x07, 0x81
GUID = 0x0002C90300001000
SWITCH_GUID = 0x0002C90200400000
SM_LID = 1


def node_info(lid: int, **values: Any) -> bytes:
    """A CA's NodeInfo answer from a LID to the subnet manager; the GUIDs follow the LID."""
    return craft.smp(ANSWER, 0x11, node(lid, **values), slid=lid, dlid=SM_LID)


def nodes(*lids: int) -> list[bytes]:
    """Some one-port channel adapters show who they are."""
    return [node_info(lid) for lid in lids]


def node(lid: int, **values: Any) -> bytes:
    """NodeInfo of a one-port channel adapter; `lid` makes its GUIDs."""
    guid = GUID + (lid << 4)
    fields = {
        "base_version": 1, "class_version": 1, "node_type": 1, "num_ports": 1, "system_image_guid": guid + 3, "node_guid": guid,
        "port_guid": guid + 1, "partition_cap": 32, "device_id": 0x1003, "revision": 1, "local_port_num": 1, "vendor_id": 0x2C9,
    }  # fmt: skip
    return craft.build(NodeInfo, 64, **{**fields, **values})


def switch(lid: int, ports: int = 8, **values: Any) -> bytes:
    """NodeInfo of a switch."""
    guid = SWITCH_GUID + (lid << 4)
    return node(lid, **{"node_type": 2, "num_ports": ports, "node_guid": guid, "port_guid": guid, "system_image_guid": guid, **values})


def switch_info(**values: Any) -> bytes:
    """SwitchInfo of a switch with a linear table for 1024 LIDs and 1024 multicast LIDs."""
    fields = {"linear_fdb_cap": 1024, "multicast_fdb_cap": 1024, "linear_fdb_top": 10, "life_time_value": 18, "lids_per_port": 0,
              "partition_enforcement_cap": 32, "enhanced_port_zero": 0}  # fmt: skip
    return craft.build(SwitchInfo, 64, **{**fields, **values})


def port_info(lid: int, **values: Any) -> bytes:
    """PortInfo of an active 4x QDR port."""
    fields = {
        "gid_prefix": 0xFE80 << 48, "lid": lid, "master_sm_lid": SM_LID, "capability_mask": 0x02010048, "local_port_num": 1,
        "link_width_enabled": 3, "link_width_supported": 3, "link_width_active": 2, "link_speed_supported": 7, "port_state": 4,
        "port_physical_state": 5, "link_down_default_state": 2, "link_speed_active": 4, "link_speed_enabled": 7, "neighbor_mtu": 5,
        "vl_cap": 4, "vl_arbitration_high_cap": 8, "vl_arbitration_low_cap": 8, "mtu_cap": 5, "operational_vls": 4, "guid_cap": 8,
        "subnet_time_out": 18, "resp_time_value": 16, "local_phy_errors": 8, "overrun_errors": 8,
    }  # fmt: skip
    return craft.build(PortInfo, 64, **{**fields, **values})


def p_keys(*keys: int) -> bytes:
    """A block of a P_Key table."""
    return b"".join(craft.build(PKeyEntry, p_key=key) for key in keys).ljust(64, b"\0")


def answer(lid: int, attribute: int, body: bytes, **kw: Any) -> bytes:
    """A GetResp from a LID to the subnet manager."""
    return craft.smp(ANSWER, attribute, body, slid=lid, dlid=SM_LID, **kw)


def ask(lid: int, attribute: int, *, method: int = GET, body: bytes = b"", slid: int = SM_LID, **kw: Any) -> bytes:
    """A request to a LID."""
    return craft.smp(method, attribute, body, slid=slid, dlid=lid, **kw)


def history(struct: Any, *, kept: bool = False) -> Any:
    """What the same port answered before, as rules about an attribute see it."""
    return history_of(struct, kept=kept)()

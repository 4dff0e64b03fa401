"""SMPs that write or show an attribute, for proofs of several families."""

from __future__ import annotations

from typing import Any

from ibdissect.wire.sm import SMInfo
from ibdissect.wire.sm_port import PortInfo
from tests.craft import build, smp

SET, GET_RESP = 2, 0x81
PORT: dict[str, Any] = {
    "lid": 5, "master_sm_lid": 1, "link_width_enabled": 3, "link_width_supported": 3, "link_width_active": 2, "link_speed_supported": 7,
    "port_state": 4, "port_physical_state": 5, "link_down_default_state": 2, "link_speed_active": 4, "link_speed_enabled": 7,
    "neighbor_mtu": 4, "vl_cap": 4, "mtu_cap": 5, "operational_vls": 4, "guid_cap": 8, "subnet_time_out": 18, "hoq_life": 18,
    "local_port_num": 1, "vl_arbitration_high_cap": 8, "vl_arbitration_low_cap": 8, "resp_time_value": 16, "capability_mask": 0x02510868,
}  # fmt: skip


def written(**values: Any) -> bytes:
    """SubnSet(PortInfo) that changes no state."""
    return smp(SET, 0x15, build(PortInfo, **{**PORT, "port_state": 0, "port_physical_state": 0, **values}), modifier=1)


def sm(method: int, modifier: int = 0, **values: Any) -> bytes:
    """SMInfo in an SMP."""
    return smp(method, 0x20, build(SMInfo, **{"guid": 0x0002C90300001001, "act_count": 7, "sm_state": 3, **values}), modifier=modifier)

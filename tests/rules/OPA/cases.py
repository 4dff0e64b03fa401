"""Proofs of the rules about Omni-Path: captures that trigger them, and near-miss twins that must not."""

from __future__ import annotations

from typing import Any

from ibdissect.wire.opa import STLSwitchInfo
from tests.craft import build, mad, ud
from tests.rules.cases import case
from tests.subnet.made import ANSWER, SET

SWITCH_INFO = 0x12


def omni(method: int, **values: Any) -> bytes:
    """SwitchInfo of Omni-Path."""
    ends: dict[str, Any] = {"slid": 2, "dlid": 1} if method == ANSWER else {"slid": 1, "dlid": 2}
    body = mad(0x01, method, SWITCH_INFO, build(STLSwitchInfo, **values), at=32, base_version=0x80, class_version=0x80)
    return ud(body, dest_qp=0, src_qp=0, q_key=0, lrh={"vl": 15}, **ends)


SHOWN, OMNI = omni(ANSWER, multicast_mask=4), ["OPA001"]
case("OPA005", [SHOWN, omni(SET, multicast_mask=3)], [SHOWN, omni(SET, multicast_mask=4)], frames=[2], also=OMNI, twin_also=OMNI)
# another switch has that LID by now, perhaps: its answer is missing
for answers, how in (([], "info"), ([SHOWN], "warning")):
    case("OPA005", [SHOWN, omni(1), *answers, omni(SET, multicast_mask=3)], [SHOWN, omni(SET, multicast_mask=4)], severity=how, also=OMNI,
         twin_also=OMNI)  # fmt: skip
CAN = omni(ANSWER, multicast_mask=4, is_addr_range_config_supported=1)
case("OPA005", [SHOWN, omni(SET, multicast_mask=3)], [CAN, omni(SET, multicast_mask=3)], frames=[2], also=OMNI, twin_also=OMNI)


def subnet_omni(**values: Any) -> bytes:
    """A GetResp(SwitchInfo) of Omni-Path."""
    body = build(STLSwitchInfo, **values)
    return ud(mad(0x01, ANSWER, SWITCH_INFO, body, at=32, base_version=0x80, class_version=0x80), dest_qp=0, src_qp=0, q_key=0,
              lrh={"vl": 15})  # fmt: skip


SUBNET_OMNI = ("OPA001",)
case("OPA002", subnet_omni(linear_fdb_cap=0x1000, linear_fdb_top=0x8000), subnet_omni(linear_fdb_cap=0x1000, linear_fdb_top=0xFFF),
     also=SUBNET_OMNI, twin_also=SUBNET_OMNI)  # fmt: skip
case("OPA003", subnet_omni(multicast_fdb_cap=16, multicast_fdb_top=0xC010), subnet_omni(multicast_fdb_cap=16, multicast_fdb_top=0xC00F),
     also=SUBNET_OMNI, twin_also=SUBNET_OMNI)  # fmt: skip
case(
    "OPA003",
    subnet_omni(multicast_fdb_cap=16, multicast_fdb_top=0xF0000010),
    subnet_omni(multicast_fdb_cap=16, multicast_fdb_top=0xF000000F),
    also=SUBNET_OMNI,
    twin_also=SUBNET_OMNI,
)


SIXTEEN = omni(ANSWER, multicast_fdb_cap=16, port_group_cap=8, multicast_mask=3)
case("OPA003", [SIXTEEN, omni(SET, multicast_mask=3, multicast_fdb_top=0xE0000010)],
     [SIXTEEN, omni(SET, multicast_mask=3, multicast_fdb_top=0xE000000F)], frames=[2], also=OMNI, twin_also=OMNI)  # fmt: skip


def omni_path(method: int = 2, **values: Any) -> bytes:
    """SwitchInfo of Omni-Path in a LID-routed SMP."""
    info = build(STLSwitchInfo, linear_fdb_cap=0xC000, multicast_fdb_cap=0x2000, port_group_cap=8, **values)
    data = mad(0x01, method, 0x12, info, at=32, base_version=0x80, class_version=0x80, attribute_modifier=1)
    return ud(data, dest_qp=0, src_qp=0, q_key=0, lrh={"vl": 15})


case("OPA001", omni_path(), ud(mad(0x01, 1, 0x12, attribute_modifier=0), dest_qp=0, src_qp=0, q_key=0, lrh={"vl": 15}))
case("OPA004", omni_path(port_group_top=99), omni_path(port_group_top=8), also=["OPA001"], twin_also=["OPA001"])
# a capacity in a Set means nothing to the switch
case("OPA004", [SIXTEEN, omni(SET, multicast_mask=3, port_group_top=9, port_group_cap=20)],
     [SIXTEEN, omni(SET, multicast_mask=3, port_group_top=5)], frames=[2], also=OMNI, twin_also=OMNI)  # fmt: skip

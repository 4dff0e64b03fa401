"""Proofs of the rules about Omni-Path: captures that trigger them, and near-miss twins that must not."""

from __future__ import annotations

from functools import partial
from typing import Any

from ibdissect.wire.opa import STLSMPDirected, STLSwitchInfo
from ibdissect.wire.opa_port import STLPortInfo
from tests.craft import build, erf_pcap, mad, put, ud
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
# it takes the mask, or keeps its own
for mask, how in ((3, "info"), (4, "warning")):
    case("OPA005", [SHOWN, omni(SET, multicast_mask=3), omni(ANSWER, multicast_mask=mask)], [SHOWN, omni(SET, multicast_mask=4)],
         severity=how, also=OMNI, twin_also=OMNI)  # fmt: skip
# a port somewhere else gets that LID; or another one does
for lid, how in ((2, "info"), (3, "warning")):
    ATTRIBUTE = mad(0x01, SET, 0x15, build(STLPortInfo, lid=lid), at=32, size=512, base_version=0x80, class_version=0x80)
    GIVEN = ud(ATTRIBUTE, dest_qp=0, src_qp=0, q_key=0, lrh={"vl": 15}, slid=1, dlid=7)
    case("OPA005", [SHOWN, GIVEN, omni(SET, multicast_mask=3)], [SHOWN, GIVEN, omni(SET, multicast_mask=4)], severity=how, also=OMNI,
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
case("OPA004", omni_path(ANSWER, port_group_top=99), omni_path(ANSWER, port_group_top=8), also=["OPA001"], twin_also=["OPA001"],
     severity="warning")  # fmt: skip
case("OPA004", omni_path(port_group_top=99), omni_path(port_group_top=8), also=["OPA001"], twin_also=["OPA001"], severity="info")
# a capacity in a Set means nothing to the switch
case("OPA004", [SIXTEEN, omni(SET, multicast_mask=3, port_group_top=9, port_group_cap=20)],
     [SIXTEEN, omni(SET, multicast_mask=3, port_group_top=5)], frames=[2], also=OMNI, twin_also=OMNI)  # fmt: skip


def along(method: int, port: int, **values: Any) -> bytes:
    """SwitchInfo of Omni-Path along a directed route of one hop."""
    body = build(STLSwitchInfo, **values)
    data = bytearray(mad(0x81, method, SWITCH_INFO, body, at=176, size=512, base_version=0x80, class_version=0x80))
    for field, value in ((STLSMPDirected.hop_count, 1), (STLSMPDirected.initial_path, bytes([0, port]))):
        put(data, field, value)
    return ud(bytes(data), dest_qp=0, src_qp=0, q_key=0, lrh={"vl": 15}, slid=0xFFFF, dlid=0xFFFF)


# another switch may hang at that port by now: it was asked, and the answer is missing
THERE, CHANGES = along(ANSWER, 1, multicast_mask=4), along(SET, 1, multicast_mask=3)
for port, how in ((1, "info"), (2, "warning")):
    case("OPA005", [THERE, along(1, port), CHANGES], [THERE, along(1, port), along(SET, 1, multicast_mask=4)], severity=how, also=OMNI,
         twin_also=OMNI)  # fmt: skip
# the switch was replaced: it answers with more room than before, or long ago showed less
LARGER = omni(ANSWER, multicast_mask=3, port_group_top=9, port_group_cap=20)
GROUPS = [SIXTEEN, omni(SET, multicast_mask=3, port_group_top=9)]
case("OPA004", [*GROUPS, LARGER], [SIXTEEN, LARGER], severity="info", frames=[2], also=OMNI, twin_also=OMNI)
case("OPA004", GROUPS, [SIXTEEN], severity="warning", frames=[2], also=OMNI, twin_also=OMNI)
case("OPA004", GROUPS, [SIXTEEN], severity="info", frames=[2], also=OMNI, twin_also=OMNI,
     file=partial(erf_pcap, step_ns=11_000_000_000))  # fmt: skip

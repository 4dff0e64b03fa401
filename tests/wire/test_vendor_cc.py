"""Vendor, congestion control and other general-service structures read captured and known MADs rightly."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ibdissect
from ibdissect.dissect.printers import dump
from ibdissect.wire.catalog import builtin
from ibdissect.wire.vendor import OUI_OPENIB, oui_text
from tests import commands
from tests.cases import every, few
from tests.craft import build, bytes_as, erf_pcap, gmp, named, smp


def mads(path: Path, mgmt_class: int, method: int, attr_id: int) -> Iterator[bytes]:
    """MADs of a kind in a pcap of ERF frames without GRH."""
    data, at = path.read_bytes(), 24
    while at < len(data):
        size = int.from_bytes(data[at + 8 : at + 12], "little")
        mad = data[at + 16 + 16 + 28 : at + 16 + size][:256]
        at += 16 + size
        if len(mad) == 256 and (mad[1], mad[3], int.from_bytes(mad[16:18], "big")) == (mgmt_class, method, attr_id):
            yield mad


def test_every_class_knows_where_its_data_lies() -> None:
    """Payload offsets of the vendor classes."""
    at = {0x03: 56, 0x04: 64, 0x05: 64, 0x06: 64, 0x08: 64, 0x09: 24, 0x0F: 24, 0x10: 64, 0x11: 24, 0x12: 64, 0x21: 64, 0x30: 40, 0x4F: 40}
    assert {mgmt_class: builtin().data_at(mgmt_class, 1) for mgmt_class in at} == at
    for mgmt_class in (*range(0x03, 0x30), *range(0x30, 0x50)):
        if mgmt_class != 0x07:
            formats = builtin().formats[mgmt_class, 1]
            assert formats[0].size == 256 and len([struct for struct in formats if struct.__name__ != "VendorKeyFormat"]) == 1


def test_answered_ping(shared: Path) -> None:
    """The answer names its host; the request holds nothing (16b-ibping)."""
    path = shared / "captures/opensm/16b-ibping.pcap"
    asked = [bytes_as("VendorOuiFormat", mad) for mad in mads(path, 0x32, 0x01, 0)]
    answers = [bytes_as("VendorOuiFormat", mad) for mad in mads(path, 0x32, 0x81, 0)]
    assert len(asked) > len(answers) > 0
    assert {view.oui for view in asked + answers} == {OUI_OPENIB}
    assert oui_text(OUI_OPENIB) == "00:14:05 (OpenIB)" and oui_text(0x0002C9) == "00:02:c9"
    assert {bytes_as("OpenIBPing", view.data).host_and_domain for view in asked} == {""}
    assert all("." in bytes_as("OpenIBPing", view.data).host_and_domain for view in answers)


def test_system_statistics(shared: Path) -> None:
    """The answer to attribute 0x12 is a text about processors."""
    (answer,) = mads(shared / "captures/opensm/16-diags-gs-vendor-cc.pcap", 0x33, 0x81, 0x0012)
    assert "cpu" in bytes_as("SystemStatCPUInfo", bytes_as("VendorOuiFormat", answer).data).cpu_info.lower()


def test_congestion_control_as_opensm_sets_it(shared: Path) -> None:
    """24-congestion-control, whose INDEX prints the options: key, control maps, threshold, table 0:0,0:1,0:2,1:3."""
    path = shared / "captures/opensm/24-congestion-control.pcap"
    frames = {
        attr_id: [bytes_as("CongestionControlFormat", mad) for mad in mads(path, 0x21, 0x02, attr_id)] for attr_id in (0x14, 0x16, 0x17)
    }
    assert {number: len(views) for number, views in frames.items()} == {0x14: 6, 0x16: 16, 0x17: 16}
    assert {view.cc_key for views in frames.values() for view in views} == {0x1122334455667788}
    for view in frames[0x14]:
        switch = bytes_as("SwitchCongestionSetting", view.data)
        assert (switch.control_map, switch.threshold) == (0x7F, 15)
    for view in frames[0x16]:
        setting = bytes_as("CACongestionSetting", view.data)
        assert (setting.sl_port_based, setting.control_map, len(setting.entry)) == (True, 0xFFFF, 16)
    for view in frames[0x17]:
        table = bytes_as("CongestionControlTable", view.data)
        assert [(entry.cct_shift, entry.cct_multiplier) for entry in table.entry[:5]] == [(0, 0), (0, 1), (0, 2), (1, 3), (0, 0)]
        assert (table.ccti_limit, len(table.entry)) == (3, 64)


def test_congestion_entries_bit_by_bit() -> None:
    element = bytes_as("SwitchPortCongestionSettingElement", bytes.fromhex("8f101234"))
    assert (element.valid, element.control_type, element.threshold, element.packet_size) == (True, 0, 15, 16)
    assert element.cong_parm_marking_rate == 0x1234
    table = bytes_as("CongestionControlTable", bytes.fromhex("003f0000c003") + bytes(126))
    assert (table.ccti_limit, table.entry[0].cct_shift, table.entry[0].cct_multiplier) == (63, 3, 3)
    switch = bytes_as(
        "SwitchCongestionSetting", bytes.fromhex("00000011") + bytes(31) + b"\x02" + bytes(32) + bytes.fromhex("f0087000c0050100")
    )
    assert (switch.sets_victim_mask, switch.sets_threshold, switch.sets_marking_rate) == (True, False, True)
    assert (switch.threshold, switch.packet_size, switch.cs_threshold, switch.marking_rate) == (15, 8, 7, 256)
    assert (switch.cs_return_delay_shift, switch.cs_return_delay_multiplier, switch.victim_mask[-1]) == (3, 5, 2)


def test_congestion_log_starts_at_byte_32_and_depends_on_its_type() -> None:
    ((place, struct),) = builtin().attributes[0x21, 0x0013]
    log: Any = struct
    assert log.__name__ == "CongestionLog" and place.data_at == 32 and 32 + log.size <= 256
    chosen = {inner: inside.when for inside, inner in builtin().inside[log]}
    assert {inner.__name__: min(when[0][1]) for inner, when in chosen.items()} == {"CongestionLogSwitch": 1, "CongestionLogCA": 2}
    assert len({inner.size for inner in chosen} | {log.log_details.bits // 8}) == 1


def test_general_info_of_old_and_new_devices_never_both() -> None:
    old, new = (
        [number for inside, inner in builtin().inside[named("GeneralInfo")] if inner.__name__ == name for number in inside.when[0][1]]
        for name in ("SoftwareInfo", "ExtendedFirmwareInfo")
    )
    assert sorted(old + new) == list(range(1 << 16))
    assert 0xB924 in old and 0xBD36 in old and {0x1003, 0x0245, 0xC738, 0x1021} <= set(new)


@pytest.mark.parametrize(("byte", "slots"), [(0x10, (1, 0)), (0x0F, (0, 15)), (0x1F, (1, 15))])
def test_slot_1_is_in_the_upper_half(byte: int, slots: tuple[int, int]) -> None:
    assert bytes_as("IOUnitInfo", bytes(4) + bytes([byte]) + bytes(127)).controller_list[:2] == slots


def test_counters_narrower_than_a_byte() -> None:
    errors = bytes_as("PortVLXmitFlowCtlUpdateErrors", bytes(4) + bytes.fromhex("1b0000c1"))
    assert errors.port_vl_xmit_flow_ctl_update_errors == (0, 1, 2, 3, *[0] * 8, 3, 0, 0, 1)
    control = bytes_as("PortSamplesControl", bytes(4) + bytes.fromhex("2a0000010007") + bytes(182))
    assert (control.counter_mask0, control.counter_mask1, control.counter_mask9, control.counter_mask14) == (5, 2, 1, 7)


def test_service_data_in_four_widths() -> None:
    record = bytes_as("ServiceRecord", bytes(112) + bytes(range(64)))
    assert record.service_data8 == bytes(range(16))
    assert (record.service_data8_1, record.service_data16_0, record.service_data32_3) == (1, 0x1011, 0x2C2D2E2F)
    assert record.service_data64_1 == 0x38393A3B3C3D3E3F


def test_b_key_is_the_first_thing_in_a_baseboard_mad() -> None:
    assert bytes_as("BaseboardMgtFormat", bytes(24) + (7).to_bytes(8, "big") + bytes(224)).b_key == 7


def shown(frame: bytes, tmp_path: Path, *options: str) -> str:
    """What `show --format tree` prints of a frame, blanks collapsed."""
    capture = tmp_path / "one.pcap"
    capture.write_bytes(erf_pcap([frame]))
    return " ".join(commands.run("show", str(capture), "--format", "tree", *options, text=True).stdout.split())


def notice(generic: bool, producer: int, trap: int, details: bytes = b"") -> bytes:
    return bytes([generic << 7 | 3]) + producer.to_bytes(3, "big") + trap.to_bytes(2, "big") + bytes(4) + details.ljust(54, b"\0")


@few("mgmt_class", [0x0A, 0x0B, 0x0C], fast=(0, 2))
def test_the_key_before_the_data_of_every_vendor_attribute_is_hidden(mgmt_class: int, tmp_path: Path) -> None:
    frame = gmp(mgmt_class, 0x01, 0x4321, bytes.fromhex("1122334455667788"), at=24)
    assert "V_Key#1" in shown(frame, tmp_path) and "1122334455667788" not in shown(frame, tmp_path).replace(" ", "")
    assert "0x1122334455667788" in shown(frame, tmp_path, "--show-keys")


def test_an_attribute_without_open_layout_has_its_name(tmp_path: Path) -> None:
    """The names of SHARP's and NVIDIA's attributes (ibis_types.h); other vendors' classes keep numbers."""
    for mgmt_class, attribute, name in ((0x0B, 0x23, "TreeConfig"), (0x0A, 0x78, "DiagnosticCounters"), (0x09, 0x23, "0x0023")):
        assert f"AttributeID: {name}" in shown(gmp(mgmt_class, 0x01, attribute, b"", at=24), tmp_path)
    assert "AttributeID: TempSensing (0xff40)" in shown(smp(0x81, 0xFF40, bytes(range(64))), tmp_path)


def test_the_modifier_says_whether_lanes_or_groups_are_limited(tmp_path: Path) -> None:
    """Attribute 0x0051 (ib_types.h IB_VL_PORT_ARBITER_CONFIG_TYPE_MASK)."""
    data = bytes([0, 6, 0, 0, 0, 0, 0x50, 0, 0x12, 0x30, 0, 5]) + bytes(52)
    lanes = shown(smp(0x81, 0x0051, data, modifier=1 << 30 | 7), tmp_path)
    assert "PortVLArbiter port 7 VLs limit" in lanes.replace(")", "") and "VLMask: 0x0006" in lanes and "VLGroupMask" not in lanes
    groups = shown(smp(0x81, 0x0051, data, modifier=1 << 31 | 7), tmp_path)
    assert "VLGroupMask: 0x00" in groups and "VLMask: 0x0006" not in groups and "RateLimiter: 5" in groups and "minimum" in groups


def test_tests_of_devices_have_names(tmp_path: Path) -> None:
    assert "TestDeviceLoop" in shown(gmp(0x06, 0x02, 0x0023, b"", at=64), tmp_path)


def test_what_the_open_header_says_of_extended_port_info() -> None:
    data = bytearray(64)
    data[0], data[17], data[18], data[44], data[47] = 0xF0, 0b0110, 0x02, 0xD0, 0x81
    info = bytes_as("MlnxExtPortInfo", bytes(data))
    assert (info.ame, info.sharp_an_enable, info.router_lid_enable, info.port_recovered) == (True,) * 4
    assert (info.nmx_admin_state, info.is_dual_m_key_supported, info.special_port_type) == (3, True, 1)
    assert (info.fnm_port, info.mission_as_fnm_port, info.qos_config_vl_enable, info.access_trunk) == (True, True, False, True)


def test_a_notice_of_a_vendor_has_no_generic_trap_number(tmp_path: Path) -> None:
    details = (7).to_bytes(4, "big") + bytes(48) + (1146).to_bytes(2, "big")
    text = shown(smp(0x05, 0x0002, notice(False, 0x0002C9, 257, details)), tmp_path)
    assert "VendorID: 0x0002c9" in text and "DeviceID: 257" in text and "VendorTrapNumber: Virtual port state changed (1146)" in text
    assert "Bad P_Key" not in text and "LIDADDR: 7" in text
    text = shown(smp(0x05, 0x0002, notice(True, 2, 257)), tmp_path)
    assert "Bad P_Key" in text and "Switch" in text and "DeviceID" not in text


def test_trap_0_is_a_bad_cc_key_in_congestion_control_only(tmp_path: Path) -> None:
    assert "CC_Key" in shown(gmp(0x21, 0x05, 0x0002, notice(True, 4, 0, bytes(16) + b"\1" * 8), at=64), tmp_path)
    assert "CC_Key" not in shown(smp(0x05, 0x0002, notice(True, 4, 0, bytes(16) + b"\1" * 8)), tmp_path)


def test_a_multipath_record_lists_as_many_gids_as_it_counts(tmp_path: Path) -> None:
    gids = b"".join(b"\xfe\x80" + bytes(13) + bytes([number]) for number in range(1, 9))
    record = build("MultiPathRecord", sgid_count=1, dgid_count=2) + gids
    text = shown(gmp(0x03, 0x14, 0x003A, b"\xff" * 8 + record, at=48), tmp_path)
    assert [f"GID: fe80::{number}" in text for number in range(1, 9)] == [True] * 3 + [False] * 5


G, H = 0x0002C90300001001, 0x0002C90300002002
VENDOR_TRAPS = {
    1313: (">BB4I", (3, 9, 0xC000, 0xC0FF, 0xD000, 0xD0FF), {"syndrome": 3, "localrouterlidrangestart": 0xD000}),
    1314: (">4B3H9I", (0, 7, 2, 1, 0x30, 0, 5, 1, 2, 3, 4, 5, 6, 77, 8, 9), {"portno": 7, "maxvalue": 5, "lastvalue": 77}),
    1316: (">3Q5B", (G, H, G + 1, 4, 5, 2, 6, 1), {"nodeguid": G, "neighbornodetype": 2, "expectedneighborport": 6}),
    1318: (">4HBBII16H", (0x77, 4, 9, 0, 0, 3, 5, 0x0200000B, *range(16)), {"reason": 3, "qp1": 5, "hopcount": 2, "qp2": 11}),
    1320: (">BB32B", (1, 0, *range(32)), {"blockid": 1}),
    1601: (">4QHB", (1, G, 2, H, 6, 1), {"virtualguid": H, "vportindex": 6, "tenantnoticetype": 1}),
    1609: (">QB", (G, 3), {"guid": G, "state": 3}),
}
"""Trap number, its details as ntc_NNNN of the open header packs them, and what some of them say."""


@every("number", VENDOR_TRAPS)
def test_vendor_notices(number: int) -> None:
    layout, values, expected = VENDOR_TRAPS[number]
    details = struct.pack(layout, *values).ljust(52, b"\0") + struct.pack(">H", number)
    notice = build("Notice", 64, producer_type=0x2C9, data_details=details)
    with ibdissect.open(io.BytesIO(erf_pcap([smp(0x05, 0x02, notice)]))) as opened:
        nodes = reversed([*opened.dissect(1).walk()])
    found = {node.name.removeprefix("infiniband.trap."): node.value for node in nodes}
    assert {name: found[name] for name in expected} == expected


def test_registers_in_band() -> None:
    """A query of PTYS as mstflint sends it: an operation of four words, a register of sixteen with its header (packets_layout.c)."""
    headers = struct.pack(">HHHBBQHH", 1 << 11 | 4, 0, 0x5004, 1, 1, 0x77, 3 << 11 | 17, 0)
    frames = [smp(0x02, 0xFF52, headers + bytes(range(44))), gmp(0x0A, 0x02, 0xFF52, bytes(8) + headers + bytes(range(204)), at=24)]
    with ibdissect.open(io.BytesIO(erf_pcap(frames))) as opened:
        for number in (1, 2):
            found = {node.label: node.text for node in opened.dissect(number).walk()}
            assert (found["RegisterID"], found["RegisterMethod"], found["OperationTLV"]) == ("PTYS (0x5004)", "query (1)", "operation (1)")
            assert found["RegisterLength"].startswith("17") and found["RegisterTLV"] == "register (3)"


def test_a_key_before_words_is_masked() -> None:
    """mstflint puts the M_Key into the data of ConfigSpaceAccess, too."""
    key = bytes.fromhex("deadbeefcafef00d")
    with ibdissect.open(io.BytesIO(erf_pcap([smp(0x01, 0xFF50, key + bytes(56), modifier=0x00010014)]))) as opened:
        assert "DEADBEEF" not in dump(opened.dissect(1)).upper().replace(" ", "")


def test_capabilities_of_a_device() -> None:
    view = bytes_as("GeneralInfoCapability", bytes.fromhex("00000402 00020000 00000100 00000000"))
    found = {field.label for field in type(view).fields if field.kind == "flag" and field.read(view, field.bit)}
    assert found == {"AdaptiveRouting", "AccessRegister", "LFTSplit", "ChassisInfo"}

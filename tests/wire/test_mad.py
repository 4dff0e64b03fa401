"""The tables of the management base answer what the standard says of classes, methods and status."""

from __future__ import annotations

from copy import copy

from ibdissect.wire import mad
from ibdissect.wire.catalog import builtin
from ibdissect.wire.mad import RMPP
from ibdissect.words import VendorClass
from tests.cases import every
from tests.craft import bytes_as


def test_methods_and_their_answers() -> None:
    for method, answers in mad.RESPONSE_OF.items():
        assert method in mad.METHODS and not method & 0x80
        assert answers <= set(mad.METHODS)
    assert mad.method_name(0x03, 0x12) == "SubnAdmGetTable"
    assert mad.method_name(0x81, 0x07) == "SubnTrapRepress"
    assert mad.method_name(0x0A, 0x01) == "VendGet"
    assert mad.method_name(0x04, 0x44) == "PerfMethod(0x44)"


@every(
    ("mgmt_class", "name", "qp"),
    [
        (0x01, "Subnet Management (LID routed)", 0), (0x81, "Subnet Management (directed route)", 0), (0x03, "Subnet Administration", 1),
        (0x0A, "Vendor (range 1)", 1),
        (0x4F, "Vendor (range 2)", 1), (0x22, "Application", 1), (0x00, "Reserved", 1), (0x50, "Reserved", 1),
    ],
)  # fmt: skip
def test_classes(mgmt_class: int, name: str, qp: int) -> None:
    assert mad.class_name(mgmt_class) == name
    assert mad.class_qp(mgmt_class) == qp


@every(
    ("mgmt_class", "name", "short", "of_vendor"),
    [
        (0x08, "SNMP Tunneling", "SNMP", False), (0x09, "Vendor (range 1)", "vendor 0x09", True),
        (0x0F, "Vendor (range 1)", "vendor 0x0f", True),
        (0x10, "Device Administration", "DevAdm", False), (0x13, "Application", "application 0x13", False),
        (0x2F, "Application", "application 0x2f", False), (0x30, "Vendor (range 2)", "vendor 0x30", True),
        (0x4F, "Vendor (range 2)", "vendor 0x4f", True), (0x50, "Reserved", "class 0x50", False), (0x82, "Reserved", "class 0x82", False),
    ],
)  # fmt: skip
def test_classes_beside_the_bounds_of_their_ranges(mgmt_class: int, name: str, short: str, of_vendor: bool) -> None:
    assert (mad.class_name(mgmt_class), mad.short_class_name(mgmt_class), mad.is_vendor(mgmt_class)) == (name, short, of_vendor)
    assert mad.class_text(mgmt_class) == f"{name} (0x{mgmt_class:02x})"
    assert mad.method_name(mgmt_class, 1).startswith("Vend") == of_vendor


@every(
    ("status", "mgmt_class", "text"),
    [
        (0x0000, 0x01, "ok"), (0x0001, 0x01, "busy"), (0x001C, 0x01, "invalid field value"), (0x8000, 0x81, "ok"),
        (0x800C, 0x81, "method/attribute combination not supported"), (0x0300, 0x03, "no records"), (0x8000, 0x06, "IOC failure"),
        (0x0012, 0x04, "redirect required, reserved code 4"),
        (0x0020, 0x04, "reserved bits 0x20"), (0x0900, 0x03, "class-specific status 9"),
    ],
)  # fmt: skip
def test_status_text(status: int, mgmt_class: int, text: str) -> None:
    assert mad.status_text(status, mgmt_class) == text


def test_who_answers() -> None:
    assert mad.is_response(0x81) and mad.is_response(0x07) and mad.is_response(0x03, 1, 0x05)
    assert not mad.is_response(0x01) and not mad.is_response(0x05) and not mad.is_response(0x03, 1, 0x07)


def test_common_header() -> None:
    header = bytes_as("MAD", bytes.fromhex("0181 0181 801c 0102 0000000000001234 0015 0000 00000001".replace(" ", "")))
    assert (header.mgmt_class, header.method, header.transaction_id, header.attribute_id) == (0x81, 0x81, 0x1234, 0x15)
    assert (header.status_code, header.status_busy, header.status_class_specific) == (7, False, 0x80)


def test_rmpp_parts_apply_by_type() -> None:
    ack = RMPP(bytes.fromhex("01 02 f9 00 00000005 00000009".replace(" ", "")))
    assert (ack.r_resp_time, ack.rmpp_flags, ack.active, ack.last) == (31, 1, True, False)
    assert RMPP.segment_number.applies(ack) and RMPP.new_window_last.applies(ack) and not RMPP.payload_length.applies(ack)
    assert (ack.segment_number, ack.new_window_last) == (5, 9)


def test_subnet_management_attributes_are_found_in_both_formats() -> None:
    catalog = builtin()
    for attr_id in (0x02, *range(0x10, 0x13), *range(0x14, 0x1F), 0x20, 0x30, 0x31, 0x32, 0x33, 0xFF90):
        for base_version in {1, 0x80} if attr_id in (0x10, 0x11, 0x12, 0x15, 0x20) else {1}:
            found = [
                {struct for place, struct in catalog.attributes[mgmt_class, attr_id] if place.base_version == base_version}
                for mgmt_class in (0x01, 0x81)
            ]
            assert found[0] == found[1] and len(found[0]) == 1
    assert catalog.data_at(0x01, 1) == catalog.data_at(0x81, 1) == 64
    assert (catalog.data_at(0x01, 0x80), catalog.data_at(0x81, 0x80)) == (32, 176)


def test_directed_route_status_is_read_without_the_direction() -> None:

    data = bytearray(256)
    data[4:8] = bytes.fromhex("801c0203")
    smp = bytes_as("SMPDirected", bytes(data))
    assert (smp.d, smp.status, smp.smp_status, smp.hop_pointer, smp.hop_count) == (True, 0x1C, 0x801C, 2, 3)


def test_names_of_a_class_are_those_of_its_vendor() -> None:
    catalog = copy(builtin())
    catalog.vendor_classes = VendorClass(0x0A, name="Acme"), VendorClass(0x31, 0x2C9, name="Near")
    found = [catalog.vendor_class(*asked) for asked in ((0x0A, None), (0x0B, None), (0x31, 0x2C9), (0x31, 0x2C8), (0x31, None))]
    assert [one.name if one is not None else "" for one in found] == ["Acme", "", "Near", "", ""]

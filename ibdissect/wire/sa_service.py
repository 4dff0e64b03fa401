"""What does the SA know about services and subscriptions: service records, their associations, event subscriptions?"""

from __future__ import annotations

from typing import ClassVar

from .classport import InformInfo
from .places import Mad
from .spec import Struct, gid, nested, pad, part, pkey, raw, text, uint

DATA_WS = "infiniband.linkrecord.servicedata"
"""Wireshark puts ServiceRecord under LinkRecord and uses one name for all four data fields."""


def service_lease_text(seconds: int) -> str:
    """A service's lease; all ones means infinite (IBA 15.2.5.14)."""
    return "0xffffffff (infinite)" if seconds == 0xFFFFFFFF else f"{seconds} s"


class ServiceRecord(Struct):
    """A service, the port that offers it and 64 bytes of its own data, which may be read as numbers of four widths."""

    key, section, size = "servicerecord", "IBA 15.2.5.14; python-rdma SAServiceRecord", 176
    carried_by = (Mad(0x03, 0x0031),)
    components: ClassVar[tuple[str, ...]] = (
        "service_id", "service_gid", "service_p_key", "", "service_lease", "service_key", "service_name",
        *(f"service_data{bits}_{i}" for bits in (8, 16, 32, 64) for i in range(128 // bits)),
    )  # fmt: skip
    service_id = uint(64, "ServiceID", at="0", base="hex", ws="infiniband.linkrecord.serviceid")
    service_gid = gid("ServiceGID", at="8", ws="infiniband.linkrecord.servicegid")
    service_p_key = pkey("ServiceP_Key", at="24", ws="infiniband.linkrecord.servicep_key")
    reserved_208 = pad(16, at="26")
    service_lease = uint(32, "ServiceLease", at="28", show=service_lease_text, ws="infiniband.linkrecord.servicelease")
    service_key = raw(16, "ServiceKey", at="32", secret="ServiceKey", ws="infiniband.linkrecord.servicekey")
    service_name = text(64, "ServiceName", at="48", ws="infiniband.linkrecord.servicename")
    service_data8 = raw(16, "ServiceData8", at="112", ws=DATA_WS)
    service_data8_0 = part(service_data8, 127, 120, "ServiceData8_0", base="hex")
    service_data8_1 = part(service_data8, 119, 112, "ServiceData8_1", base="hex")
    service_data8_2 = part(service_data8, 111, 104, "ServiceData8_2", base="hex")
    service_data8_3 = part(service_data8, 103, 96, "ServiceData8_3", base="hex")
    service_data8_4 = part(service_data8, 95, 88, "ServiceData8_4", base="hex")
    service_data8_5 = part(service_data8, 87, 80, "ServiceData8_5", base="hex")
    service_data8_6 = part(service_data8, 79, 72, "ServiceData8_6", base="hex")
    service_data8_7 = part(service_data8, 71, 64, "ServiceData8_7", base="hex")
    service_data8_8 = part(service_data8, 63, 56, "ServiceData8_8", base="hex")
    service_data8_9 = part(service_data8, 55, 48, "ServiceData8_9", base="hex")
    service_data8_10 = part(service_data8, 47, 40, "ServiceData8_10", base="hex")
    service_data8_11 = part(service_data8, 39, 32, "ServiceData8_11", base="hex")
    service_data8_12 = part(service_data8, 31, 24, "ServiceData8_12", base="hex")
    service_data8_13 = part(service_data8, 23, 16, "ServiceData8_13", base="hex")
    service_data8_14 = part(service_data8, 15, 8, "ServiceData8_14", base="hex")
    service_data8_15 = part(service_data8, 7, 0, "ServiceData8_15", base="hex")
    service_data16 = raw(16, "ServiceData16", at="128", ws=DATA_WS)
    service_data16_0 = part(service_data16, 127, 112, "ServiceData16_0", base="hex")
    service_data16_1 = part(service_data16, 111, 96, "ServiceData16_1", base="hex")
    service_data16_2 = part(service_data16, 95, 80, "ServiceData16_2", base="hex")
    service_data16_3 = part(service_data16, 79, 64, "ServiceData16_3", base="hex")
    service_data16_4 = part(service_data16, 63, 48, "ServiceData16_4", base="hex")
    service_data16_5 = part(service_data16, 47, 32, "ServiceData16_5", base="hex")
    service_data16_6 = part(service_data16, 31, 16, "ServiceData16_6", base="hex")
    service_data16_7 = part(service_data16, 15, 0, "ServiceData16_7", base="hex")
    service_data32 = raw(16, "ServiceData32", at="144", ws=DATA_WS)
    service_data32_0 = part(service_data32, 127, 96, "ServiceData32_0", base="hex")
    service_data32_1 = part(service_data32, 95, 64, "ServiceData32_1", base="hex")
    service_data32_2 = part(service_data32, 63, 32, "ServiceData32_2", base="hex")
    service_data32_3 = part(service_data32, 31, 0, "ServiceData32_3", base="hex")
    service_data64 = raw(16, "ServiceData64", at="160", ws=DATA_WS)
    service_data64_0 = part(service_data64, 127, 64, "ServiceData64_0", base="hex")
    service_data64_1 = part(service_data64, 63, 0, "ServiceData64_1", base="hex")


class ServiceAssociationRecord(Struct):
    """The service that a service key identifies."""

    key, section, size = "serviceassociationrecord", "IBA 15.2.5.15; python-rdma SAServiceAssociationRecord", 80
    carried_by = (Mad(0x03, 0x003B),)
    components: ClassVar[tuple[str, ...]] = ("service_key", "service_name")
    service_key = raw(16, "ServiceKey", at="0", secret="ServiceKey")
    service_name = text(64, "ServiceName", at="16")


class InformInfoRecord(Struct):
    """A subscription that the SA holds, by its subscriber. OpenSM sends 64 bytes of it, python-rdma prints 80; the rest is reserved."""

    key, section, size = "informinforecord", "IBA 15.2.5.12; python-rdma SAInformInfoRecord; opensm", 60
    carried_by = (Mad(0x03, 0x00F3),)
    components: ClassVar[tuple[str, ...]] = (
        "subscriber_gid", "enumeration", "", "inform_info.gid", "inform_info.lid_range_begin", "inform_info.lid_range_end", "",
        "inform_info.is_generic", "inform_info.subscribe", "inform_info.type", "inform_info.trap_number", "inform_info.qpn", "",
        "inform_info.resp_time_value", "", "inform_info.producer_type",
    )  # fmt: skip
    subscriber_gid = gid("SubscriberGID", at="0")
    enumeration = uint(16, "Enumeration", at="16", ws="enum")
    reserved_144 = pad(48, at="18")
    inform_info = nested(InformInfo, "InformInfo", at="24")

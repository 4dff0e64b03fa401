"""SA records of services and subscriptions: service records, their associations, event subscriptions."""

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
    service_id = uint(64, "ServiceID", at="0", base="hex", ws="infiniband.linkrecord.serviceid", holds="service")
    service_gid = gid("ServiceGID", at="8", ws="infiniband.linkrecord.servicegid")
    service_p_key = pkey("ServiceP_Key", at="24", ws="infiniband.linkrecord.servicep_key")
    reserved_208 = pad(16, at="26")
    service_lease = uint(32, "ServiceLease", at="28", show=service_lease_text, ws="infiniband.linkrecord.servicelease")
    service_key = raw(16, "ServiceKey", at="32", secret="ServiceKey", ws="infiniband.linkrecord.servicekey")
    service_name = text(64, "ServiceName", at="48", ws="infiniband.linkrecord.servicename")
    service_data8 = raw(16, "ServiceData8", at="112", ws=DATA_WS)
    service_data16 = raw(16, "ServiceData16", at="128", ws=DATA_WS)
    service_data32 = raw(16, "ServiceData32", at="144", ws=DATA_WS)
    service_data64 = raw(16, "ServiceData64", at="160", ws=DATA_WS)
    for _whole, _bits in ((service_data8, 8), (service_data16, 16), (service_data32, 32), (service_data64, 64)):
        for _i in range(128 // _bits):
            _high = 127 - _i * _bits
            vars()[f"service_data{_bits}_{_i}"] = part(_whole, _high, _high - _bits + 1, f"{_whole.label}_{_i}", base="hex")
    del _whole


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

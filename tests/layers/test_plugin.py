"""A plugin's Scapy class is dissected like a declared structure."""

from __future__ import annotations

from typing import Any

import pytest
from scapy.fields import BitField, ByteEnumField, IntField, IP6Field, ShortField, StrFixedLenField, StrLenField
from scapy.packet import Packet

from ibdissect.errors import SpecError
from ibdissect.layers import BTH, DETH, LRH, SMP, from_scapy, layer, register, registry
from ibdissect.wire.places import smp
from ibdissect.words import Mad


class Gauge(Packet):
    name = "Gauge"
    fields_desc = [
        ByteEnumField("mode", 0, {1: "fast"}), BitField("high", 0, 3), BitField("low", 0, 13), IntField("count", 0), IP6Field("peer", "::"),
        StrFixedLenField("tag", b"", length=5),
    ]  # fmt: skip


@pytest.fixture
def gauge(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(registry, "_own", [])
    struct = from_scapy(Gauge, carried_by=smp(0xFF42))
    register(struct)
    return struct


def test_layout_is_kept(gauge: Any) -> None:
    data = bytes(Gauge(mode=1, high=5, low=1000, count=7, peer="fe80::1", tag=b"abcde"))
    view = gauge(data)
    assert gauge.size == len(data) == 28
    assert (view.mode, view.high, view.low, view.count, view.tag) == (1, 5, 1000, 7, b"abcde")
    assert gauge.mode.values == {1: "fast"}
    assert layer(gauge)(data).build() == data


def test_registered_attribute_is_dissected_and_built(gauge: Any) -> None:
    built = (LRH() / BTH() / DETH() / SMP() / layer(gauge)(count=99)).build()
    pkt = LRH(built)
    assert pkt[SMP].attribute_id == 0xFF42
    assert pkt[layer(gauge)].count == 99


def test_a_vendor_class_without_form_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_own", [])
    made = register(from_scapy(Gauge, carried_by=(Mad(0x0A, 0x0010),)))
    pkt = LRH((LRH() / BTH() / DETH() / layer_of_class() / made(low=3)).build())
    assert (pkt[made].low, pkt[BTH].destqp) == (3, 1)


def layer_of_class() -> Packet:
    """The form of vendor range 1, for class 0x0A."""
    form = registry.format_of(0x0A, 1)
    assert form is not None
    return layer(form)(mgmt_class=0x0A)


@pytest.mark.parametrize("field", [StrLenField("count", b"", length_from=lambda pkt: 3)])
def test_a_layout_that_varies_is_refused(field: Any) -> None:
    class Loose(Packet):
        fields_desc = [ShortField("first", 0), field]

    with pytest.raises(SpecError, match=r"Loose\.count"):
        from_scapy(Loose)

"""Scapy fields become declared ones with the same values; a plugin's layer is bound by the numbers of Scapy's own layers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from scapy.fields import (
    ByteField,
    FieldLenField,
    IPField,
    LEIntField,
    LELongField,
    LEShortField,
    MACField,
    ShortField,
    SignedByteField,
    StrField,
    StrLenField,
    XIntField,
)  # fmt: skip
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Packet, split_layers

from ibdissect.errors import SpecError
from ibdissect.layers import BTH, LRH, from_scapy, layer, register, registry
from ibdissect.layers.plugin import structures_of
from ibdissect.wire.catalog import Catalog, builtin_modules
from ibdissect.words import DestQP, Ethertype, MadFormat, Struct, UdpPort, raw, uint


class Mixed(Packet):
    """Fields of other shapes than numbers in network order."""

    fields_desc = [
        IPField("host", "0.0.0.0"), MACField("card", "00:00:00:00:00:00"), LEShortField("low", 0), LEIntField("mid", 0),
        LELongField("high", 0), ByteField("plain", 0), XIntField("mask", 0), ShortField("size", 0),
    ]  # fmt: skip


def test_fields_of_other_shapes_read_as_scapy_reads_them() -> None:
    made: Any = from_scapy(Mixed)
    built = bytes(Mixed(host="10.1.2.3", card="02:00:00:00:00:09", low=0x1234, mid=0x12345678, high=1 << 40, plain=7, mask=0xF0, size=3))
    view = made(built)
    assert made.size == len(built) == 31
    assert (view.low, view.mid, view.high, view.plain, view.mask) == (0x1234, 0x12345678, 1 << 40, 7, 0xF0)
    assert (bytes(view.host), bytes(view.card)) == (b"\x0a\1\2\3", b"\2\0\0\0\0\x09")
    assert made.mask.base == "hex" and made.plain.base == "dec"
    assert view.size_ == 3, "a name that every structure has gets an underscore"


def test_of_what_varies_scapy_says_where_it_lies() -> None:
    class Counted(Packet):
        fields_desc = [
            ShortField("first", 0), FieldLenField("count", None, length_of="text", fmt="B"),
            StrLenField("text", b"", length_from=lambda pkt: pkt.count), ShortField("behind", 0), StrField("rest", b""),
        ]  # fmt: skip
        carried_by = (DestQP(0x77),)

    whole, *parts = structures_of(Counted)
    assert whole.__name__ == "Counted" and [part.__name__ for part in parts] == ["Counted_text", "Counted_behind", "Counted_rest"]
    assert {part.fields[0].kind for part in parts} == {"rest", "uint"}
    assert whole.size == 3 and whole.fields[-1].kind == "rest"


def test_bits_before_what_varies_must_fill_bytes() -> None:
    from scapy.fields import BitField

    class Torn(Packet):
        fields_desc = [BitField("half", 0, 4), BitField("odd", 0, 3), StrField("text", b"")]
        carried_by = (DestQP(0x77),)

    with pytest.raises(SpecError, match=r"Torn\.text.*middle of a byte"):
        structures_of(Torn)


def test_a_layout_that_is_fixed_is_one_structure() -> None:
    class Small(Packet):
        fields_desc = [SignedByteField("a", 0), ShortField("b", 0)]
        carried_by = (DestQP(0x77),)

    (made,) = structures_of(Small)
    assert made.size == 3 and made.carried_by == (DestQP(0x77),)


class Note(Struct):
    """Carried by everything that a plugin may name."""

    key, section, size = "note_of_a_test", "x", 4
    number = uint(16, "Number")
    text = raw(2, "Text")


@pytest.fixture
def bound(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Makes the layer and binds it; Scapy's own layers forget it again."""
    monkeypatch.setattr(registry, "_own", [])
    kept: list[tuple[Any, ...]] = []

    def bind(*places: object) -> Any:
        monkeypatch.setattr(Note, "carried_by", places)
        made = register(Note)
        kept.append((made, places))
        return made

    yield bind
    for made, places in kept:
        for place in places:
            if isinstance(place, UdpPort):
                split_layers(UDP, made, dport=place.port)
                split_layers(UDP, made, sport=place.port)
            elif isinstance(place, Ethertype):
                split_layers(Ether, made, type=place.ethertype)
                split_layers(Dot1Q, made, type=place.ethertype)


def test_a_udp_port_in_either_direction(bound: Any) -> None:
    made = bound(UdpPort(7411))
    for ports in ({"sport": 7411, "dport": 1}, {"sport": 1, "dport": 7411}):
        again = Ether(bytes(Ether() / IP() / UDP(**ports) / made(number=5, text=b"ab")))
        assert again[made].number == 5 and again[made].text == b"ab"
    assert made not in Ether(bytes(Ether() / IP() / UDP(sport=1, dport=2) / bytes(4)))


def test_an_ethertype_also_behind_a_vlan_tag(bound: Any) -> None:
    made = bound(Ethertype(0x88B6))
    assert Ether(bytes(Ether() / made(number=6)))[made].number == 6
    assert Ether(bytes(Ether() / Dot1Q(vlan=3) / made(number=7)))[made].number == 7


def test_a_queue_pair(bound: Any) -> None:
    made = bound(DestQP(0x4711))
    frame = bytes(LRH() / BTH(opcode=4, destqp=0x4711) / made(number=8))
    assert LRH(frame)[made].number == 8
    assert made not in LRH(bytes(LRH() / BTH(opcode=4, destqp=0x4712) / made(number=8)))


def test_the_form_of_a_class(bound: Any) -> None:
    bound(MadFormat(0x0D))
    assert registry.format_of(0x0D, 1) is Note and registry.format_of(0x04, 1) is not Note


def test_a_catalog_of_a_plugin_binds_its_structures() -> None:
    from types import ModuleType

    class Beacon(Struct):
        """Announces itself."""

        key, section, size = "beacon_of_a_test", "x", 2
        carried_by = (UdpPort(7412),)
        number = uint(16, "Number")

    module = ModuleType("plugin_of_a_test")
    Beacon.__module__ = module.__name__
    module.Beacon = Beacon  # type: ignore[attr-defined]
    before = list(registry._in_use)
    try:
        registry.use_catalog(Catalog([*builtin_modules(), module]))
        made = layer(Beacon)
        assert IP(bytes(IP() / UDP(sport=1, dport=7412) / made(number=3)))[made].number == 3
    finally:
        registry._in_use[:] = before
        split_layers(UDP, layer(Beacon), dport=7412)
        split_layers(UDP, layer(Beacon), sport=7412)

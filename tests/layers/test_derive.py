"""Every declared structure is a Scapy packet with the same fields and values, byte for byte."""

from __future__ import annotations

import ipaddress
import random
from typing import Any

import pytest
from scapy.packet import Packet

import ibdissect.layers
from ibdissect.layers import layer
from ibdissect.layers.fields import field_name
from ibdissect.wire.catalog import builtin
from ibdissect.wire.convert import decode_text
from ibdissect.wire.mad import MAD
from ibdissect.wire.sm import SMInfo, SMPDirected
from ibdissect.wire.spec import Field
from ibdissect.wire.text import plain_value
from ibdissect.wire.ulp.rdma_cm import IPCMPrivateData
from ibdissect.words import Struct

STRUCTS = builtin().structs


def _samples(struct: type[Struct]) -> list[bytes]:
    """All zeros, all ones and random bytes; room for what `rest` takes and for the data behind a MAD header."""
    dice = random.Random(struct.__name__)
    size = 256 if struct is MAD else struct.size + 8 * (struct.fields[-1].kind == "rest")
    return [bytes(size), b"\xff" * size, dice.randbytes(size), dice.randbytes(size)]


def _same(field: Field[Any], seen: Any, meant: Any) -> bool:
    if field.kind == "nested":
        return isinstance(seen, Packet) and _differences(seen, meant) == []
    if field.kind == "text":
        return bool(decode_text(seen) == meant)
    if field.kind in ("gid", "mac", "ip4"):
        return bool(_packed(field.kind, seen) == meant)
    return bool(seen == meant)


def _packed(kind: str, seen: str) -> bytes:
    return bytes.fromhex(seen.replace(":", "")) if kind == "mac" else ipaddress.ip_address(seen).packed


def _differences(pkt: Packet, view: Struct) -> list[str]:
    """Fields whose value is not the view's; holes hold payload or the common header and are compared there."""
    wrong = []
    for field in view.fields:
        name = field_name(field.name)
        if field.kind == "hole" or (field.kind == "rest" and name not in pkt.fields):
            continue
        if field.part_of is not None and (field.part_of[0].count > 1 or not hasattr(type(pkt), name)):
            continue
        seen, meant = getattr(pkt, name), getattr(view, field.name)
        pairs = zip(seen, meant, strict=True) if field.count > 1 else [(seen, meant)]
        if not all(_same(field, one, other) for one, other in pairs):
            wrong.append(f"{field.name}: {seen!r} {plain_value(field, meant)!r}")
    return wrong


@pytest.mark.slow
def test_layers_read_and_build_what_views_read() -> None:
    for struct in STRUCTS:
        made, name = layer(struct), struct.__name__
        for data in _samples(struct):
            pkt = made(data)
            assert type(pkt) is made, name
            assert _differences(pkt, struct(data, 0, len(data))) == [], name
            pkt = made(data)
            assert pkt.build() == data, name
            pkt.clear_cache()
            assert pkt.build() == data, f"{name}, built from its fields"
            assert pkt.copy().build() == data, f"{name}, copied"


def test_short_bytes_are_raw() -> None:
    for struct in STRUCTS:
        if struct.size > 1:
            short = b"\x01" * (struct.size - 1)
            assert bytes(layer(struct)(short)) == short, struct.__name__


@pytest.mark.slow
def test_layers_can_be_shown() -> None:
    for struct in STRUCTS:
        assert struct.title in layer(struct)(_samples(struct)[2]).show(dump=True), struct.__name__


def test_every_structure_is_found_by_name() -> None:
    for struct in STRUCTS:
        if struct.__module__ != "ibdissect.wire.encapsulation" and struct not in builtin().tail_parts:
            assert getattr(ibdissect.layers, struct.__name__) is layer(struct)
            assert struct.__name__ in dir(ibdissect.layers)
    with pytest.raises(AttributeError):
        ibdissect.layers.NoSuchStructure  # noqa: B018


def test_names_of_values_and_parts_can_be_written() -> None:
    info = layer(SMInfo)(sm_state="Master")
    assert info.sm_state == 3
    with pytest.raises(ValueError, match="no value named"):
        info.sm_state = "Emperor"
    smp: Any = layer(SMPDirected)(smp_status=0x1C)
    smp.d = True
    assert (smp.smp_status, smp.status, smp.d) == (0x801C, 0x1C, True)
    assert smp.build()[4:6] == b"\x80\x1c"
    hello: Any = layer(IPCMPrivateData)()
    hello.source_ipv4 = "10.1.2.3"
    assert (hello.source_ipv4, hello.source_address) == ("10.1.2.3", "::10.1.2.3")

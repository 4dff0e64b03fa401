"""Every declared structure keeps the conventions: documented, cited, named as the standard names it, keys secret."""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from ibdissect.wire.catalog import builtin
from ibdissect.wire.spec import INT_KINDS
from ibdissect.words import Struct, bit, part, uint
from tests.cases import every
from tests.craft import bytes_as, named
from tests.wire.names import plain, struct_id

STRUCTS = builtin().structs
NO_NAME = frozenset({"pad", "hole"})
OTHER_NAME = {"key_value": "key"}
"""Attributes that cannot be the label in snake case: Struct itself has a `key`."""
KEY_LABELS = {"M_Key": "mkey", "SM_Key": "smkey", "B_Key": "bkey", "CC_Key": "cckey", "Q_Key": "qkey", "R_Key": "rkey"}
TRAPS_TOO = frozenset({"redirectqkey", "trapqkey"})
SUBNET_MODULES = frozenset(
    {
        "mad", "sm", "sm_port", "sm_tables", "notice", "classport", "opa", "opa_port", "opa_tables", "opa_notice", "nvidia",
        "nvidia_routing",
    }
)  # fmt: skip
SAME_NAME = {
    "opa.trap.lidaddr", "opa.trap.gid", "opa.trap.qp", "infiniband.linkrecord.servicedata", "smc.rmbe.ctrl.prod.wrap.seq",
    "smc.rmbe.ctrl.peer.prod.curs",
}  # fmt: skip
"""Names that Wireshark gives to several fields of one structure."""
NOT_OURS = {"infiniband.mad.data"}
"""The aggregate that the contract leaves out."""
WIRESHARK_WRONG_WIDTH = {
    "infiniband.rmpp.rresptime": (4, 5),
    "infiniband.rmpp.rmppflags": (4, 3),
    "infiniband.linkspeedwidthpairstable.speedtwofive": (1, 8),
    "infiniband.linkspeedwidthpairstable.speedfive": (1, 8),
    "infiniband.linkspeedwidthpairstable.speedten": (1, 8),
    "opa.clasportinfo.redirect.tclass": (1, 8),
    "opa.clasportinfo.trap.tclass": (1, 8),
    "opa.informinfo.isgeneric": (1, 8),
}
"""Name -> (bits in Wireshark 4.0, bits here): RMPP by IBA 13.6.2.1 and libibmad, width bit maps by fields.csv, Omni-Path by opa-ff."""


def broken_conventions(struct: type[Struct]) -> Iterator[str]:
    """What is wrong with a declaration, in words."""
    if not struct.__doc__ or struct.__doc__ == Struct.__doc__:
        yield "has no docstring"
    if not struct.section:
        yield "does not say where its layout is printed (section)"
    if not (struct.key and struct.prefix):
        yield "has no key or prefix"
    named = [field for field in struct.fields if field.kind not in NO_NAME]
    if struct.__module__.rpartition(".")[2] in SUBNET_MODULES:  # their labels are the standard's; headers are labelled as Wireshark does
        for field in named:
            if plain(OTHER_NAME.get(field.name, field.name)) != plain(field.label.partition(" (")[0]):
                yield f"{field.name} is labelled {field.label}"
    for field in struct.fields:
        if not re.fullmatch(r"[a-z0-9_-]+(\.[a-z0-9_]+)+", field.filter_name):
            yield f"{field.name} has the filter name {field.filter_name}"
        label = plain(field.label)
        key = next((key for key, name in KEY_LABELS.items() if label == name or (label in TRAPS_TOO and key == "Q_Key")), None)
        if key is not None and field.kind in ("uint", "raw") and field.bits >= 32 and field.secret != key:
            yield f"{field.name} shows a {key}"
    names = [field.filter_name for field in named if field.part_of is None or field.part_of[0].when is None]  # else another reading of it
    for name in {name for name in names if names.count(name) > 1} - SAME_NAME:
        yield f"several fields are named {name}"


def test_every_structure_keeps_the_conventions() -> None:
    assert [f"{struct_id(struct)} {fault}" for struct in STRUCTS for fault in broken_conventions(struct)] == []


def test_a_filter_name_means_the_same_kind_of_value_everywhere() -> None:
    kinds: dict[str, set[str]] = defaultdict(set)
    for struct in STRUCTS:
        if struct.__module__.rpartition(".")[2] not in SUBNET_MODULES:
            continue
        for field in struct.fields:
            if field.kind not in NO_NAME:
                kinds[field.filter_name].add("int" if field.kind in INT_KINDS else field.kind)
    assert {name: found for name, found in kinds.items() if len(found) > 1} == {}


def test_every_field_reads_any_bytes() -> None:
    """Views over all zeros, all ones and a pattern read every field without an exception, within its width."""
    for struct in STRUCTS:
        for data in (bytes(struct.size), b"\xff" * struct.size, bytes(n * 37 & 0xFF for n in range(struct.size))):
            view = struct(data)
            for field in struct.fields:
                value = field.__get__(view, struct)
                for entry in value if field.count > 1 else (value,):
                    if field.kind == "uint":
                        assert 0 <= entry < 1 << field.bits, f"{struct_id(struct)}.{field.name}"
                        if field.show is not None:
                            assert field.show(entry), f"{struct_id(struct)}.{field.name}"
                    elif field.kind == "flag":
                        assert entry in (False, True), f"{struct_id(struct)}.{field.name}"
                    elif field.kind in ("raw", "gid", "hole"):
                        assert len(entry) == field.bits // 8, f"{struct_id(struct)}.{field.name}"


def test_keys_of_structures_are_shared_only_within_a_family() -> None:
    """Structures under one key live in one module, or describe the same attribute (traps, P_Keys)."""
    modules: dict[tuple[str, str], set[str]] = defaultdict(set)
    for struct in STRUCTS:
        module = struct.__module__.rpartition(".")[2]
        if module in SUBNET_MODULES:
            modules[struct.prefix, struct.key].add(module)
    assert {key: found for key, found in modules.items() if len(found) > 1} == {}


@cache
def wireshark_names() -> dict[str, tuple[str, int]]:
    """infiniband.* and opa.* of the installed tshark: name -> (type, mask); empty without tshark."""
    try:
        done = subprocess.run(["tshark", "-G", "fields"], capture_output=True, text=True, check=True, timeout=60)
    except (FileNotFoundError, subprocess.CalledProcessError, subprocess.TimeoutExpired):
        return {}
    found = {}
    for line in done.stdout.splitlines():
        part = line.split("\t")
        if part[0] == "F" and part[2].startswith(("infiniband.", "opa.")):
            found[part[2]] = (part[3], int(part[6] or "0", 0) if part[6].startswith("0x") else 0)
    return found


@pytest.mark.slow
def test_every_wireshark_name_of_subnet_management_is_a_field() -> None:
    names = wireshark_names()
    if not names:
        pytest.skip("needs tshark")
    ours = builtin().names
    families = re.compile(
        r"^infiniband\.(mad|smplid|smpdirected|nodedescription|nodeinfo|switchinfo|portinfo|p_keytable|sltovlmappingtable|vlarbitrationtable"
        r"|linearforwardingtable|randomforwardingtable|multicastforwardingtable|sminfo|vendordiag|ledinfo|linkspeedwidthpairstable"
        r"|notice|trap|classportinfo|informinfo)\.|^opa\.(nodedescription|nodeinfo|switchinfo|sminfo|ledinfo)\."
    )
    missing = {name for name in names if families.match(name) and ".reserved" not in name} - set(ours)
    assert missing == NOT_OURS


@pytest.mark.slow
def test_bits_of_wireshark_names_agree() -> None:
    """Where Wireshark has a mask of whole-field width, ours has as many bits."""
    names = wireshark_names()
    if not names:
        pytest.skip("needs tshark")
    wrong = {}
    for struct in STRUCTS:
        if struct.__module__.rpartition(".")[2] not in SUBNET_MODULES:
            continue
        for field in struct.fields:
            known = names.get(field.filter_name)
            if known is None or field.kind not in INT_KINDS or not known[1]:
                continue
            width = bin(known[1]).count("1")
            if width != field.bits:
                wrong[field.filter_name] = (width, field.bits)
    assert wrong == WIRESHARK_WRONG_WIDTH


def test_mad_header_is_24_bytes() -> None:
    assert named("MAD").size == 24


def test_derived_structures_keep_their_own_fields() -> None:
    """Fields of the base are copied; one of the same name takes the place, others come behind."""
    of_p_key, of_q_key, counters = (named(name) for name in ("TrapPKey", "TrapQKey", "PortCounters"))
    assert [field.name for field in of_q_key.fields] == [field.name for field in of_p_key.fields]
    assert of_q_key.key_value.secret == "Q_Key" and not of_p_key.key_value.secret
    assert all(field.owner is of_q_key for field in of_q_key.fields) and of_p_key.sl.owner is of_p_key
    assert counters.select_vl15_dropped.part_of == (counters.counter_select, 11)
    assert "OfPort" not in {struct.__name__ for struct in STRUCTS}


@every(("low", "high"), [(0, 0), (0, 3), (4, 7), (1, 6), (7, 7), (7, 8), (8, 15), (9, 14), (0, 8), (15, 16), (3, 30), (31, 31)])
@every("width", [16, 32, 64])
def test_parts_of_little_endian_numbers(width: int, low: int, high: int) -> None:
    """In one byte of the number or over several, beside the bounds of bytes."""
    low, high = min(low, width - 1), min(high, width - 1)
    whole, before = uint(width, "Whole", little=True), uint(8, "Before")
    body = {"key": "little", "before": before, "whole": whole, "some": part(whole, high, low, "Some"), "top": bit(whole, width - 1, "Top")}
    made: Any = type(Struct)("Little", (Struct,), body)
    inside = low // 8 == high // 8
    assert made.some.span == ((1 + low // 8, 2 + low // 8) if inside else (1, 1 + width // 8)), "what is highlighted"
    for number in (0x8877665544332211, 0x0102030405060708, (1 << 64) - 1, 1 << low, 1 << high, 1 << width - 1):
        number &= (1 << width) - 1
        view = made(b"\xff" + number.to_bytes(width // 8, "little"))
        assert (view.some, view.top) == (number >> low & (1 << high - low + 1) - 1, bool(number >> width - 1))


def test_undecided_bits_have_both_readings() -> None:
    """Where sources contradict each other and none decides, each reading is a field with its source in the label."""
    change = bytes_as("TrapLocalChange", bytes(10) + b"\0\x20" + bytes(2))
    assert change.capability_mask2_change and change.link_speed_ext_enabled_change and not change.hierarchy_info_change
    page = bytes_as("VendorDiag", bytes(range(64)))
    assert page.diag_data == bytes(range(2, 64)) and page.diag_data_60 == bytes(range(4, 64))
    pairs = bytes_as("LinkSpeedWidthPairsTable", bytes(33) + b"\x83\x03\x80")
    assert (pairs.speed_two_five, pairs.speed_two_five_bit, pairs.speed_five_bit, pairs.speed_ten_bit) == (0x83, True, False, True)
    for struct in map(type, (change, page, pairs)):
        assert "Undecided" in (struct.__doc__ or "") and any("'s reading)" in field.label for field in struct.fields)

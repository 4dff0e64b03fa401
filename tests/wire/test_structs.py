"""Does every declared structure keep the conventions: documented, cited, named as the standard names it, keys secret?"""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict

import pytest

from ibdissect.wire.catalog import builtin
from ibdissect.wire.mad import MAD
from ibdissect.wire.spec import INT_KINDS, Struct

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
SAME_NAME = {"opa.trap.lidaddr", "opa.trap.gid", "opa.trap.qp", "infiniband.linkrecord.servicedata"}
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


def plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def ids(struct: type[Struct]) -> str:
    return f"{struct.__module__.rpartition('.')[2]}.{struct.__name__}"


@pytest.mark.parametrize("struct", STRUCTS, ids=ids)
def test_documented_and_cited(struct: type[Struct]) -> None:
    assert struct.__doc__ and struct.__doc__ != Struct.__doc__
    assert struct.section, "section says where the layout stands"
    assert struct.key and struct.prefix


@pytest.mark.parametrize("struct", STRUCTS, ids=ids)
def test_fields_fill_the_structure_without_overlap(struct: type[Struct]) -> None:
    at = 0
    for field in struct.fields:
        if field.part_of is None:
            assert field.bit == at
            at += field.bits * field.count
        else:
            whole = field.part_of[0]
            assert whole.bit <= field.bit and field.bit + field.bits <= whole.bit + whole.bits
    assert at == struct.size * 8


@pytest.mark.parametrize("struct", [s for s in STRUCTS if s.__module__.rpartition(".")[2] in SUBNET_MODULES], ids=ids)
def test_label_and_python_name_agree(struct: type[Struct]) -> None:
    """In the subnet management modules, whose labels are the standard's; headers are labelled as Wireshark does."""
    for field in struct.fields:
        if field.kind not in NO_NAME:
            assert plain(OTHER_NAME.get(field.name, field.name)) == plain(field.label), f"{field!r} is labelled {field.label}"


@pytest.mark.parametrize("struct", STRUCTS, ids=ids)
def test_filter_names(struct: type[Struct]) -> None:
    for field in struct.fields:
        assert re.fullmatch(r"[a-z0-9_-]+(\.[a-z0-9_]+)+", field.filter_name), field.filter_name
    own = [field.filter_name for field in struct.fields if field.kind not in ("pad", "hole")]
    shared = {name for name in own if own.count(name) > 1}
    assert shared <= SAME_NAME, "one name, one field in a structure"


def test_a_filter_name_means_the_same_kind_of_value_everywhere() -> None:
    kinds: dict[str, set[str]] = defaultdict(set)
    for struct in STRUCTS:
        if struct.__module__.rpartition(".")[2] not in SUBNET_MODULES:
            continue
        for field in struct.fields:
            if field.kind not in NO_NAME:
                kinds[field.filter_name].add("int" if field.kind in INT_KINDS else field.kind)
    assert {name: found for name, found in kinds.items() if len(found) > 1} == {}


@pytest.mark.parametrize("struct", STRUCTS, ids=ids)
def test_keys_are_secret(struct: type[Struct]) -> None:
    for field in struct.fields:
        label = plain(field.label)
        kind = next((kind for kind, name in KEY_LABELS.items() if label == name or (label in TRAPS_TOO and kind == "Q_Key")), None)
        if kind is not None and field.kind in ("uint", "raw") and field.bits >= 32:
            assert field.secret == kind, f"{field!r} shows a {kind}"


@pytest.mark.parametrize("struct", STRUCTS, ids=ids)
def test_every_field_reads_any_bytes(struct: type[Struct]) -> None:
    """Views over all zeros, all ones and a pattern read every field without an exception, within its width."""
    for data in (bytes(struct.size), b"\xff" * struct.size, bytes(n * 37 & 0xFF for n in range(struct.size))):
        view = struct(data)
        for field in struct.fields:
            value = field.__get__(view, struct)
            for entry in value if field.count > 1 else (value,):
                if field.kind == "uint":
                    assert 0 <= entry < 1 << field.bits
                    if field.show is not None:
                        assert field.show(entry)
                elif field.kind == "flag":
                    assert entry in (False, True)
                elif field.kind in ("raw", "gid", "hole"):
                    assert len(entry) == field.bits // 8


def test_keys_of_structures_are_shared_only_within_a_family() -> None:
    """Structures under one key live in one module, or describe the same attribute (traps, P_Keys)."""
    modules: dict[tuple[str, str], set[str]] = defaultdict(set)
    for struct in STRUCTS:
        module = struct.__module__.rpartition(".")[2]
        if module in SUBNET_MODULES:
            modules[struct.prefix, struct.key].add(module)
    assert {key: found for key, found in modules.items() if len(found) > 1} == {}


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
    assert MAD.size == 24

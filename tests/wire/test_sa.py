"""A ComponentMask chooses the components that saquery, opensm and python-rdma say it does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ibdissect.wire.catalog import builtin
from ibdissect.wire.sa import components_of, components_set, mask_for
from ibdissect.wire.spec import Field
from ibdissect.words import Struct
from tests.cases import every
from tests.craft import bytes_as, named

RECORDS = [struct for struct in builtin().structs if components_of(struct)]


def field_of(record: type[Struct], component: str) -> Field[object]:
    """The field that a component means, through nested structures."""
    struct = record
    *nested, last = re.sub(r"\[\d+\]$", "", component).split(".")
    for name in nested:
        inner = vars(struct)[name].of
        assert inner is not None
        struct = inner
    field = vars(struct)[last]
    assert isinstance(field, Field)
    return field


@every("record", RECORDS)
def test_components_are_fields_in_wire_order(record: type[Struct]) -> None:
    """Component numbers follow the wire; only the two parts of a service id may stand apart."""
    named = [name for name in components_of(record) if name]
    assert len(named) == len(set(named)) <= 64
    starts = []
    for name in named:
        field = field_of(record, name)
        assert field.kind not in ("pad", "hole")
        outer = name.split(".")[0]
        first = vars(record)[outer].bit
        index = re.search(r"\[(\d+)\]$", name)
        inner = (field.bit if "." in name else 0) + (int(index[1]) * field.bits if index else 0)
        starts.append(first + inner)
    assert starts == sorted(starts)


def test_the_example_of_python_rdma() -> None:
    """seed004: choosing DGID and DLID of a path gives 20; the frame it prints asks with 2072."""
    assert mask_for(named("PathRecord"), ["dgid", "dlid"]) == 20
    assert components_set(named("PathRecord"), 2072) == ["sgid", "dlid", "reversible"]


@every(
    ("record", "bit", "component"),
    [
        ("PathRecord", 12, "numb_path"),
        ("PathRecord", 21, "packet_life_time"),
        ("NodeRecord", 14, "node_description.node_string"),
        ("NodeRecord", 8, "node_info.port_guid"),
        ("PortInfoRecord", 7, "port_info.capability_mask"),
        ("PortInfoRecord", 42, "port_info.guid_cap"),
        ("PortInfoRecord", 52, "port_info.link_round_trip_latency"),
        ("PortInfoRecord", 57, "port_info.link_speed_ext_enabled"),
        ("MCMemberRecord", 16, "join_state"),
        ("ServiceRecord", 7, "service_data8_0"),
        ("ServiceRecord", 23, "service_data16_0"),
        ("ServiceRecord", 36, "service_data64_1"),
        ("GuidInfoRecord", 11, "guid_info.guid_block[7]"),
        ("MulticastForwardingTableRecord", 3, "block_num"),
        ("InformInfoRecord", 15, "inform_info.producer_type"),
        ("LinkRecord", 3, "to_lid"),
    ],
)
def test_bits_of_opensm(record: str, bit: int, component: str) -> None:
    """IB_xx_COMPMASK_... of opensm's ib_types.h."""
    assert components_set(named(record), 1 << bit) == [component]
    assert mask_for(named(record), [component]) == 1 << bit


def test_reserved_and_unknown_bits_keep_their_number() -> None:
    assert components_set(named("LinkRecord"), 1 << 4 | 1 << 63 | 1) == ["from_lid", "bit 4", "bit 63"]
    assert components_set(named("LinkRecord"), 0) == []
    with pytest.raises(ValueError, match="LinkRecord has no component 'lid'"):
        mask_for(named("LinkRecord"), ["lid"])
    with pytest.raises(ValueError, match="no component ''"):
        mask_for(named("LinkRecord"), [""])


def test_masks_of_a_captured_session(shared: Path) -> None:
    """Every query of saquery chooses components that exist."""
    data = (shared / "captures/opensm/14-saquery.pcap").read_bytes()
    attributes, at, queries = builtin().attributes, 24, 0
    while at < len(data):
        size = int.from_bytes(data[at + 8 : at + 12], "little")
        mad = data[at + 16 + 16 + 28 : at + 16 + size]
        at += 16 + size
        if len(mad) < 256 or mad[1] != 0x03 or mad[3] != 0x12:
            continue
        ((_, record),) = attributes[0x03, int.from_bytes(mad[16:18], "big")]
        chosen = components_set(record, bytes_as("SAFormat", mad).component_mask)
        assert not any(name.startswith("bit ") for name in chosen), (record, chosen)
        queries += bool(chosen)
    assert queries > 100

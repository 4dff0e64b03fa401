"""A query chooses what was set in its record, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from ibdissect import layers
from ibdissect.layers import SAFormat, component_mask, sa_query
from ibdissect.wire.catalog import builtin
from ibdissect.wire.sa import components_of, components_set
from tests.cases import every


@every(
    ("record", "fields", "mask"),
    [
        # Bits of OpenSM's IB_PR_COMPMASK_*, IB_MCR_COMPMASK_*, IB_LR_COMPMASK_*, IB_SR_COMPMASK_*
        ("PathRecord", {"dgid": "fe80::1", "sgid": "fe80::2"}, 1 << 2 | 1 << 3),
        ("PathRecord", {"reversible": 1, "numb_path": 1, "p_key": 0xFFFF}, 1 << 11 | 1 << 12 | 1 << 13),
        ("PathRecord", {"slid": 0}, 1 << 5),
        ("PathRecord", {"service_id": 7}, 1 << 1),
        ("PathRecord", {"service_id": 1 << 56}, 1 << 0),
        ("PathRecord", {}, 0),
        ("MCMemberRecord", {"mgid": "ff12::1", "port_gid": "fe80::1", "join_state": 1}, 1 << 0 | 1 << 1 | 1 << 16),
        ("LinkRecord", {"from_lid": 3, "to_lid": 4}, 1 << 0 | 1 << 3),
        ("ServiceRecord", {"service_name": "x", "service_lease": 10}, 1 << 6 | 1 << 4),
        ("ServiceRecord", {"service_data8": bytes(15) + b"\1"}, 1 << 22),
    ],
)
def test_mask_of_what_was_set(record: str, fields: dict[str, Any], mask: int) -> None:
    assert component_mask(getattr(layers, record)(**fields)) == mask


def test_components_inside_a_nested_attribute() -> None:
    record = layers.PortInfoRecord(port_info=layers.PortInfo(lid=4))
    assert components_set(layers.PortInfoRecord.declared, component_mask(record)) == ["port_info.lid"]
    assert component_mask(layers.PortInfoRecord()) == 0
    record = layers.GuidInfoRecord(lid=1, guid_info=layers.GUIDInfo(guid_block=[0, 5, 0, 0, 0, 0, 0, 6]))
    assert component_mask(record) == 1 << 0 | 1 << 5 | 1 << 11


def test_a_record_without_values_asks_for_nothing() -> None:
    records = [struct for struct in builtin().structs if components_of(struct)]
    assert records and {struct.__name__: mask for struct in records if (mask := component_mask(layers.layer(struct)()))} == {}


def test_a_query_builds_and_reads_back() -> None:
    query = sa_query(layers.PathRecord(sgid="fe80::2", dgid="fe80::1"), "numb_path", transaction_id=9)
    read = SAFormat(bytes(query))
    assert len(bytes(query)) == 256
    assert (read.mgmt_class, read.method, read.attribute_id, read.transaction_id) == (0x03, 0x12, 0x35, 9)
    assert read.component_mask == 1 << 2 | 1 << 3 | 1 << 12
    assert read[layers.PathRecord].sgid == "fe80::2"


def test_a_given_mask_stays() -> None:
    assert sa_query(layers.PathRecord(sgid="fe80::2"), component_mask=0x77).component_mask == 0x77


def test_a_name_that_is_no_component_is_refused() -> None:
    with pytest.raises(ValueError, match="PathRecord has no component 'mgid'"):
        component_mask(layers.PathRecord(), "mgid")


def test_an_omni_path_query_has_its_own_form() -> None:
    query = sa_query(layers.STLInformInfo(subscribe=1), base_version=0x80)
    read = layers.STLSAFormat(bytes(query))
    assert (read.base_version, read.attribute_id, read.component_mask) == (0x80, 0x03, 0)
    assert bytes(query)[56 + 25] == 1

"""Structures that survive scrubbing, and the fate of each kind of field."""

from __future__ import annotations

import csv
from collections import Counter

from ibdissect.scrub.kinds import ScrubKind, kind_of, survivors
from ibdissect.wire.catalog import builtin
from ibdissect.wire.cm import REQ
from ibdissect.wire.dm import ServiceEntry
from ibdissect.wire.encapsulation import ERSPAN2, ERSPAN3, GENEVE, UDP, VLAN, VXLAN, IPv6
from ibdissect.wire.headers import BTH, DETH, GRH
from ibdissect.wire.mad import MAD
from ibdissect.wire.nvidia_routers import AdjSiteLocalSubnetEntry
from ibdissect.wire.nvidia_traps import TrapTenant
from ibdissect.wire.sa_paths import MultiPathRecord, PathRecord
from ibdissect.wire.sa_service import ServiceRecord
from ibdissect.wire.sm import NodeDescription, NodeInfo
from ibdissect.wire.sm_port import PortInfo
from ibdissect.wire.sm_tables import LinearForwardingTable
from ibdissect.wire.ulp.ipoib import IPoIB
from ibdissect.words import CmPayload, CmService
from tests.conftest import REFERENCE

STAYING = {"number", "pkey", "ports"}
"""Words of `holds` of numbers that stay: named values and measures, partitions and ports of devices."""


def test_structures_of_payload_do_not_survive() -> None:
    headers, management = survivors(builtin())
    assert {GRH, BTH, DETH} <= set(headers) and not {MAD, NodeInfo} & set(headers)
    assert {MAD, NodeInfo, PortInfo, PathRecord, NodeDescription, LinearForwardingTable} <= set(management)
    assert IPoIB not in headers and IPoIB not in management
    private = [one for one in builtin().structs if any(isinstance(place, CmService | CmPayload) for place in one.carried_by)]
    assert len(private) > 5 and not set(private) & {*headers, *management}


def test_every_field_is_replaced_or_dropped_or_stays_for_a_reason() -> None:
    """A plain number that stays is a row of tests/reference/kept.csv: add one only if it cannot tell who, and say why."""
    with open(REFERENCE / "kept.csv", newline="", encoding="utf-8") as file:
        kept = {(row["module"], row["structure"], row["field"]): row["reason"] for row in csv.DictReader(file)}
    found, others = set(), Counter[str]()
    for struct in (one for some in survivors(builtin()) for one in some):
        for field in struct.fields:
            whole = field if field.part_of is None else field.part_of[0]
            if kind_of(field) is not ScrubKind.KEEP or kind_of(whole) not in (ScrubKind.KEEP, ScrubKind.MARK):
                others[kind_of(field)] += 1
            elif field.holds == "unknown":
                found.add((struct.__module__.removeprefix("ibdissect.wire."), struct.__name__, field.name))
            else:
                assert field.holds in STAYING, field
                assert field.holds != "number" or field.values or field.unit or field.kind == "flag", field
    assert found - kept.keys() == set(), "say in tests/reference/kept.csv why it may stay, or declare what it holds"
    assert kept.keys() - found == set(), "no longer there"
    assert all(len(reason) > 6 for reason in kept.values())
    assert set(ScrubKind) - {ScrubKind.KEEP} <= others.keys(), "every kind is declared somewhere"


def test_what_names_a_network_or_a_service_is_replaced() -> None:
    network = (VLAN.id, VXLAN.vni, GENEVE.vni, ERSPAN2.session, ERSPAN3.group, GRH.flow_label, IPv6.flow_label, REQ.primary_flow_label,
               TrapTenant.physical_group_id, TrapTenant.virtual_group_id)  # fmt: skip
    assert {kind_of(field) for field in network} == {ScrubKind.NETWORK}
    assert {kind_of(field) for field in (REQ.service_id, ServiceEntry.service_id, ServiceRecord.service_id)} == {ScrubKind.SERVICE}
    assert {kind_of(field) for field in (UDP.source_port, UDP.destination_port)} == {ScrubKind.PORT}
    assert kind_of(AdjSiteLocalSubnetEntry.subnet_prefix) is ScrubKind.PREFIX
    assert kind_of(MultiPathRecord.service_id56_lsb) is ScrubKind.DROP


def test_the_kind_of_a_field_follows_from_what_it_holds() -> None:
    kinds = {
        PortInfo.m_key: ScrubKind.KEY, PortInfo.gid_prefix: ScrubKind.PREFIX, PortInfo.lid: ScrubKind.LID, PortInfo.lmc: ScrubKind.KEEP,
        NodeInfo.node_guid: ScrubKind.GUID, NodeDescription.node_string: ScrubKind.TEXT, PathRecord.dgid: ScrubKind.GID,
        PathRecord.reserved_480: ScrubKind.MARK, BTH.destqp: ScrubKind.QPN, REQ.private_data: ScrubKind.DROP, BTH.p_key: ScrubKind.KEEP,
    }  # fmt: skip
    assert {field: kind_of(field) for field in kinds} == kinds

"""Which structures survive scrubbing, and what becomes of each kind of field?"""

from __future__ import annotations

from ibdissect.scrub.kinds import Kind, kind_of, survivors
from ibdissect.wire.catalog import builtin
from ibdissect.wire.cm import REQ
from ibdissect.wire.headers import BTH, DETH, GRH
from ibdissect.wire.mad import MAD
from ibdissect.wire.places import CmPayload, CmService
from ibdissect.wire.sa_paths import PathRecord
from ibdissect.wire.sm import NodeDescription, NodeInfo
from ibdissect.wire.sm_port import PortInfo
from ibdissect.wire.sm_tables import LinearForwardingTable
from ibdissect.wire.ulp.ipoib import IPoIB


def test_structures_of_payload_do_not_survive() -> None:
    headers, management = survivors(builtin())
    assert {GRH, BTH, DETH} <= set(headers) and not {MAD, NodeInfo} & set(headers)
    assert {MAD, NodeInfo, PortInfo, PathRecord, NodeDescription, LinearForwardingTable} <= set(management)
    assert IPoIB not in headers and IPoIB not in management
    private = [one for one in builtin().structs if any(isinstance(place, CmService | CmPayload) for place in one.carried_by)]
    assert len(private) > 5 and not set(private) & {*headers, *management}


def test_the_kind_of_a_field_follows_from_what_it_holds() -> None:
    kinds = {
        PortInfo.m_key: Kind.KEY, PortInfo.gid_prefix: Kind.PREFIX, PortInfo.lid: Kind.LID, PortInfo.lmc: Kind.KEEP,
        NodeInfo.node_guid: Kind.GUID, NodeDescription.node_string: Kind.TEXT, PathRecord.dgid: Kind.GID,
        PathRecord.reserved_480: Kind.MARK, BTH.destqp: Kind.QPN, REQ.private_data: Kind.DROP, BTH.p_key: Kind.KEEP,
    }  # fmt: skip
    assert {field: kind_of(field) for field in kinds} == kinds

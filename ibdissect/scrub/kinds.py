"""What is in a field, as far as scrubbing cares: an identity, a key, a text, somebody's data, or a number that may stay?"""

from __future__ import annotations

import re
from enum import Enum, auto
from functools import cache
from typing import Any

from ibdissect.table.locate import EXTENDED_STRUCTS
from ibdissect.table.table import HEADERS
from ibdissect.wire import cc, cc_log, mad, notice, opa, opa_notice, opa_tables, sm, sm_tables, snmp, transport, vendor_mlnx
from ibdissect.wire.catalog import Catalog, StructType
from ibdissect.wire.convert import lid_text
from ibdissect.wire.places import Inside, Mad, MadFormat, VendorOui
from ibdissect.wire.spec import Field


class Kind(Enum):
    """What becomes of a field."""

    KEEP = auto()
    """Stays as it is."""
    DROP = auto()
    """Becomes zero: data, and bytes that nobody declared."""
    MARK = auto()
    """Becomes zero if it was zero, else one: rules look at reserved bits, but nobody needs their value."""
    KEY = auto()
    TEXT = auto()
    GUID = auto()
    PREFIX = auto()
    GID = auto()
    LID = auto()
    QPN = auto()
    IP4 = auto()
    MAC = auto()


IDENTITIES = (Kind.KEY, Kind.TEXT, Kind.GUID, Kind.PREFIX, Kind.GID, Kind.LID, Kind.QPN, Kind.IP4, Kind.MAC)
"""What is replaced by a substitute, the same for the same value wherever it stands."""

_BY_KIND = {"gid": Kind.GID, "mac": Kind.MAC, "ip4": Kind.IP4, "text": Kind.TEXT, "pad": Kind.MARK, "raw": Kind.DROP, "rest": Kind.DROP}
_LID = re.compile(r"(?:^|_)(?:sw|s|d|m|drs|drd)?lid(?:addr)?\d?(?:_|$)")
_QPN = re.compile("qp|eec|srq")
_PREFIX = re.compile("(?:gid|subnet)_prefix")

_PORTS = frozenset((
    sm.SMPDirected.initial_path, sm.SMPDirected.return_path, opa.STLSMPDirected.initial_path, opa.STLSMPDirected.return_path,
    notice.TrapMKey.dr_notice_return_path, opa_notice.STLTrapMKey.dr_return_path, cc.SwitchCongestionSetting.victim_mask,
    cc.SwitchCongestionSetting.credit_mask, cc_log.CongestionLogSwitch.port_map, sm_tables.LinkSpeedWidthPairsTable.port_mask,
    opa_tables.STLSwitchCongestionLog.port_map, opa_tables.STLSwitchCongestionSetting.victim_mask,
    opa_tables.STLSwitchCongestionSetting.credit_mask,
))  # fmt: skip
"""Raw bytes that are port numbers or a bit for each port: where, but not who."""
_DATA = frozenset((
    transport.AtomicETH.swapdt, transport.AtomicETH.cmpdt, transport.AtomicAckETH.origremdt, transport.ImmDt.immdt,
    snmp.SNMPTunnelingFormat.raddress,
    vendor_mlnx.ConfigSpaceRecord.address, vendor_mlnx.ConfigSpaceRecord.record_data, vendor_mlnx.ConfigSpaceRecord.mask,
))  # fmt: skip
"""Numbers that are what applications send, addresses of other networks, or the contents of a device's registers."""
_NO_LIDS = frozenset(("lid_by_vport_index", "max_lid"))
_TRANSPORT = (frozenset(HEADERS) | frozenset(EXTENDED_STRUCTS)) - {transport.Payload, mad.MAD}
_OF_MADS = (MadFormat, Mad, VendorOui)


@cache
def kind_of(field: Field[Any]) -> Kind:
    """What becomes of a field; `nested` and `hole` fields have nothing of their own."""
    if field.secret:
        return Kind.KEY
    if field in _PORTS:
        return Kind.KEEP
    if field in _DATA or field.kind in ("nested", "hole"):
        return Kind.DROP
    if field is transport.CNP.reserved:
        return Kind.MARK
    if field.kind in _BY_KIND:
        return _BY_KIND[field.kind]
    if field.base == "guid":
        return Kind.PREFIX if _PREFIX.fullmatch(field.name) else Kind.GUID
    if field.bits in (16, 32) and (field.show is lid_text or _LID.search(field.name)) and field.name not in _NO_LIDS:
        return Kind.LID
    if field.bits == 24 and _QPN.search(field.name):
        return Kind.QPN
    return Kind.KEEP


def survivors(catalog: Catalog) -> tuple[tuple[StructType, ...], tuple[StructType, ...]]:
    """Structures of which declared fields survive: headers of link, network and transport; parts of management datagrams.

    What is carried in payloads, and in the private data of connection management, is not among them.
    """
    inside = [struct for struct in catalog.structs if struct not in _TRANSPORT and struct is not transport.Payload]
    known = {struct for struct in inside if struct is mad.MAD or any(isinstance(place, _OF_MADS) for place in struct.carried_by)}
    before = 0
    while before < len(known):
        before = len(known)
        for struct in inside:
            owners = [place.field.owner for place in struct.carried_by if isinstance(place, Inside)]
            owners += [field.owner for field in catalog.nesting.get(struct, ())]
            if any(owner in known for owner in owners):
                known.add(struct)
    return tuple(struct for struct in catalog.structs if struct in _TRANSPORT), tuple(s for s in inside if s in known)

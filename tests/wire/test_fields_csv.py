"""The declared structures agree, field by field, with the second source of offsets (tests/reference/fields.csv)."""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ibdissect.wire.catalog import builtin
from ibdissect.wire.mad import MAD, RMPP
from ibdissect.wire.notice import Notice, OtherNotice, TrapBKey
from ibdissect.words import Inside, Struct
from tests.conftest import REFERENCE
from tests.wire.names import plain

NOT_YET: set[tuple[str, str]] = set()
"""(class, attribute) of fields.csv that no structure declares yet; must end empty."""

ALIASES: dict[tuple[str, str], str] = {
    ("MADHeaderDirected", "status"): "status",
    ("SwitchInfo", "enhancedPort0"): "EnhancedPortZero",
    ("PortInfo", "mcastPKeyTrapSuppressionEnabled"): "MulticastPKeyTrapSuppressionEnabled",
    ("P_KeyTable", "PKeyBlock"): "P_KeyTableBlock",
    ("LinearForwardingTable", "portBlock"): "Port",
    ("MulticastForwardingTable", "portMaskBlock"): "PortMask",
    ("LinkSpeedWidthPairsTable", "speed2_5"): "SpeedTwoFive",
    ("LinkSpeedWidthPairsTable", "speed5"): "SpeedFive",
    ("LinkSpeedWidthPairsTable", "speed10"): "SpeedTen",
    ("Notice", "producerTypeOrVendorID"): "ProducerType",
    ("Notice", "trapNumberOrDeviceID"): "TrapNumber",
    ("RMPPHeader", "data1/segmentNumber"): "Data1",
    ("RMPPHeader", "data2/payloadLength|newWindowlast"): "Data2",
    ("RMPPHeader", "data2/payloadLength|newWindowLast"): "Data2",
    ("BTH", "ackReq"): "a",
    ("RDETH", "EEC"): "eecnxt",
    ("AtomicETH", "swapData"): "swapdt",
    ("AtomicETH", "cmpData"): "cmpdt",
    ("AtomicAckETH", "origRData"): "origremdt",
    ("CC format", "mgtData"): "data",
    ("CongestionKeyInfo", "protectBit"): "CC_KeyProtectBit",
    ("CongestionKeyInfo", "leasePeriod"): "CC_KeyLeasePeriod",
    ("CongestionKeyInfo", "violations"): "CC_KeyViolations",
    ("SwitchInfoRecord", "switchInfo.enhancedPort0"): "EnhancedPortZero",
    ("LinearForwardingTableRecord", "linearForwardingTable.portBlock"): "Port",
    ("MulticastForwardingTableRecord", "multicastForwardingTable.portMaskBlock"): "PortMask",
    ("P_KeyTableRecord", "PKeyTable.PKeyBlock"): "P_KeyTableBlock",
    ("STL_SwitchInfo", "AR.Enable"): "AdaptiveRoutingEnable",
    ("STL_SwitchInfo", "AR.Pause"): "AdaptiveRoutingPause",
    ("STL_SwitchInfo", "AR.Algorithm"): "AdaptiveRoutingAlgorithm",
    ("STL_SwitchInfo", "AR.Frequency"): "AdaptiveRoutingFrequency",
    ("STL_SwitchInfo", "AR.LostRoutesOnly"): "AdaptiveRoutingLostRoutesOnly",
    ("STL_SwitchInfo", "AR.Threshold"): "AdaptiveRoutingThreshold",
}
"""(attribute, name in fields.csv) -> label, where the two spell a field differently."""

TRAP_ALIASES = {
    "gid": "GIDADDR", "gid1": "GIDADDR1", "gid2": "GIDADDR2", "lid": "LIDADDR", "lid1": "LIDADDR1", "lid2": "LIDADDR2", "port": "PORTNO",
    "swLid": "SWLIDADDR", "swPort": "PORTNO", "capabilityMask2": "CAPABILITYMASK2", "drReturnPath": "DRNoticeReturnPath",
}  # fmt: skip

_LIBIBMAD_ENTRY = "libibmad: localQP 0/24 sl 24/4 svc 28/4 remoteQP 32/24 localLID 64/16 remoteLID 80/16 ts 96/32"

DIFFERENT: dict[tuple[str, str], str] = {
    ("BTH", "service"): "one field with function: the opcode, whose parts `wire.opcodes` knows",
    ("BTH", "function"): "one field with service: the opcode",
    ("BTH", "reserved_32"): "FECN and BECN since the congestion control annex",
    ("DM format", "reserved_192"): "holds an RMPP header when its version is not 0 (kernel core/mad.c)",
    ("STL_SwitchInfo", "CapabilityMask.reserved"): "bits of a mask, which is one field",
    ("CongestionLog(CA).entry", _LIBIBMAD_ENTRY): "layout disputed; opensm's is declared",
    ("PortInfoRecord", "portInfo.reserved_409"): "MulticastPKeyTrapSuppressionEnabled in newer PortInfo",
    ("PortInfoRecord", "portInfo.reserved_448"): "LinkSpeedExt fields of XDR in newer PortInfo (opensm)",
    ("SwitchInfoRecord", "switchInfo.reserved_136"): "MulticastFDBTop lies behind it in newer SwitchInfo (opensm)",
    ("MulticastForwardingTableRecord", "position"): "opensm and Wireshark: upper 4 bits",
    ("MulticastForwardingTableRecord", "blockNum"): "opensm and Wireshark: 9 bits",
    ("PathRecord", "serviceID56LSB"): "a component without room of its own in seed004: the low 56 bits of ServiceID",
    ("PathRecord", "reserved_464"): "starts with the two bits of ReversePathPKeyMemberBit in today's python-rdma",
    ("MultiPathRecord", "reserved_114"): "Wireshark names these bits GIDScope",
    ("MultiPathRecord", "SDGID"): "as many GIDs as the counts say, kept as one run of bytes",
    ("VendorDiag", "reserved_16"): "seed000 and Wireshark: 62 bytes of DiagData at byte 2",
    ("VendorDiag", "diagData"): "seed000 and Wireshark: 62 bytes of DiagData at byte 2",
}
"""(attribute, field) of rows that are deliberately declared otherwise -> why."""

CM_IDS = {"LCID": "LocalCommunicationID", "RCID": "RemoteCommunicationID"}
CM_PATH = {
    "SLID": "LocalPortLID", "DLID": "RemotePortLID", "SGID": "LocalPortGID", "DGID": "RemotePortGID", "PD": "PacketRate",
    "IPD": "PacketRate", "flowLabel": "FlowLabel", "TClass": "TrafficClass", "hopLimit": "HopLimit", "SL": "SL",
    "subnetLocal": "SubnetLocal", "localACKTimeout": "LocalACKTimeout", "HopLimit": "HopLimit", "LocalACKTimeout": "LocalACKTimeout",
}  # fmt: skip
ALIASES.update({(cm, short): label for cm in ("MRA", "REJ", "RTU", "DREQ", "DREP", "LAP", "APR") for short, label in CM_IDS.items()})
ALIASES.update({("REQ", f"{path}Path.{k}"): path + label for path in ("primary", "alternate") for k, label in CM_PATH.items()})
ALIASES.update({("LAP", f"alt{k}"): f"Alternate{label}" for k, label in CM_PATH.items()})
ALIASES.update(
    {
        ("REQ", "LCID"): "LocalCommunicationID", ("REQ", "LGUID"): "LocalCAGUID",
        ("REQ", "remoteResponseTimeout"): "RemoteCMResponseTimeout",
        ("REQ", "transportService"): "TransportServiceType", ("REQ", "flowControl"): "EndToEndFlowControl",
        ("REQ", "localResponseTimeout"): "LocalCMResponseTimeout", ("REQ", "pathPacketMTU"): "PathPacketPayloadMTU",
        ("REP", "LCID"): "LocalCommunicationID", ("REP", "RCID"): "RemoteCommunicationID",
        ("REP", "localEEContext"): "LocalEEContextNumber",
        ("REP", "flowControl"): "EndToEndFlowControl", ("REP", "LGUID"): "LocalCAGUID", ("LAP", "RQPN"): "RemoteQPN",
        ("LAP", "RCMTimeout"): "RemoteCMResponseTimeout", ("APR", "additionalInfoLength"): "AdditionalInformationLength",
        ("APR", "additionalInfo"): "AdditionalInformation",
        ("SIDR_REP(IBA>=1.1 layout)", "additionalInfoLength"): "AdditionalInformationLength",
    }
)  # fmt: skip
_VENDOR_ID = "vendor id bits of IBA comment 9434 (kernel ibta_vol1_c12.h)"
DIFFERENT.update({("REP", f"reserved_{n}"): _VENDOR_ID for n in (120, 152, 184)})
DIFFERENT["REQ", "reserved_32"] = DIFFERENT["SIDR_REP(IBA>=1.1 layout)", "reserved"] = _VENDOR_ID
DIFFERENT["MRA", "privateData"] = "222 bytes at 10 since IBA 1.1 (kernel)"
_OLD_CLASS_PORT_INFO = (
    "baseVersion", "classVersion", "capabilityMask", "capabilityMask2", "respTimeValue", "redirectGID", "redirectTC", "redirectSL",
    "redirectFL", "redirectLID", "redirectPKey", "redirectQP", "redirectQKey", "trapGID", "trapTC", "trapSL", "trapFL", "trapLID",
    "trapPKey", "trapHL", "trapQP", "trapQKey",
)  # fmt: skip
_OLD_SIDR_REP = ("QPN", "status", "serviceID", "QKey", "privateData", *(f"classPortinfo.{name}" for name in _OLD_CLASS_PORT_INFO))
DIFFERENT.update({("SIDR_REP", name): "layout of IBA 1.0; newer traffic has another (kernel ib_cm.h)" for name in _OLD_SIDR_REP})


@dataclass(frozen=True)
class Row:
    """One line of fields.csv."""

    mgmt_class: str
    attr_id: str
    attr: str
    field: str
    bit: int
    width: int
    reserved: bool
    superseded: bool


@dataclass(frozen=True)
class Place:
    """A run of bits that a structure declares, counted like fields.csv counts."""

    names: frozenset[str]
    bit: int
    width: int
    pad: bool


def rows(path: Path) -> list[Row]:
    found = []
    with path.open(newline="") as file:
        for r in csv.DictReader(file):
            reserved, superseded = r["access"].startswith("RSVD"), r["access"] == "RSVD-OLD" or "SUPERSEDED" in r["notes"]
            place = int(r["bit_offset"]), int(r["bit_width"])
            found.append(Row(r["class"], r["attr_id"], r["attr"], r["field"], *place, reserved, superseded))
    return found


def places(struct: type[Struct], base: int = 0) -> Iterator[Place]:
    """Everything the structure declares: fields, their single entries, and what nested structures declare."""
    for field in struct.fields:
        names = frozenset({plain(field.label), plain(field.name), plain(field.filter_name.rpartition(".")[2])})
        is_pad = field.kind == "pad"
        start = base + field.bit
        yield Place(names, start, field.bits * field.count, is_pad)
        for n, bit in enumerate(field.entries()):
            if field.count > 1:
                yield Place(names | {f"{name}{n}" for name in names}, base + bit, field.bits, is_pad)
            if field.of is not None:
                yield from places(field.of, base + bit)


CLASS_NUMBERS = {"any": [0x03], "0x01/0x03": [0x01, 0x03], "0x09-0x0F": [0x09], "0x30-0x4F": [0x30], "OPA-0x01/0x81": [0x01]}


def trap_structs(attr: str) -> list[type[Struct]]:
    """Structures of the details of `Notice.trap64-67`: those placed in Notice for the first of these numbers."""
    match = re.search(r"trap(\d+)", attr)
    assert match is not None
    number = int(match[1])
    return [
        struct
        for struct in builtin().structs
        for place in struct.carried_by
        if isinstance(place, Inside)
        and place.field in (Notice.data_details, OtherNotice.data_details)
        and struct is not TrapBKey
        and any(field in (Notice.trap_number, OtherNotice.trap_number) and number in numbers for field, numbers in place.when)
    ]


def layers(mgmt_class: str, attr_id: str, attr: str) -> list[tuple[type[Struct], int]]:
    """Structures that a key of fields.csv means, each with the bit that its first bit has in fields.csv."""
    catalog = builtin()
    if mgmt_class == "RMPP":
        return [(RMPP, 192)]
    if mgmt_class == "MAD":
        found: list[tuple[type[Struct], int]] = [(MAD, 0)]
        return found + [(s, 0) for s in catalog.formats[0x81, 1]] if attr_id == "hdr-dr" else found
    if not mgmt_class.startswith(("0x", "any", "OPA")):
        return [(s, 0) for s in catalog.structs if s.__name__ in (mgmt_class, attr) and s.prefix == "infiniband"]
    base_version = 0x80 if mgmt_class.startswith("OPA") else 1
    numbers = CLASS_NUMBERS.get(mgmt_class) or [int(mgmt_class, 0)]
    if attr_id == "hdr":
        formats = [(s, 0) for n in numbers for s in catalog.formats.get((n, base_version), ())]
        return [(MAD, 0), *formats] if formats else []
    if attr.startswith("Notice."):
        return [(s, 80) for s in trap_structs(attr)]
    if attr == "CongestionLog(CA).entry":
        return [(s, 0) for s in catalog.structs if s.__name__ == "CongestionLogEventCA"]
    attributes = [
        struct for n in numbers for place, struct in catalog.attributes.get((n, int(attr_id, 0)), ()) if place.base_version == base_version
    ]
    return [layer for struct in attributes for layer in ((struct, 0), *variants(struct))]


def variants(struct: type[Struct]) -> Iterator[tuple[type[Struct], int]]:
    """Structures that may fill a field of `struct`, and from which bit."""
    for place, inner in builtin().inside.get(struct, ()):
        yield inner, place.field.bit


def wanted_names(row: Row) -> set[str]:
    """Spellings under which a row's field may be declared."""
    alias = ALIASES.get((row.attr, row.field))
    last = re.sub(r"\[\d+\]$|\(.*\)$", "", row.field.rpartition(".")[2])
    if row.attr.startswith("Notice."):
        alias = TRAP_ALIASES.get(last, alias)
    return {plain(name) for name in (row.field, last, re.sub(r"\[\d+\]$|\(.*\)$|0?\.\.\d+$", "", row.field), alias) if name}


def fault(row: Row, declared: list[Place]) -> str:
    """Why a row is not declared as fields.csv says; empty when it is."""
    if row.reserved or plain(row.field).startswith("reserved"):
        if row.superseded:
            return ""
        bits = {bit for p in declared if p.pad for bit in range(p.bit, p.bit + p.width)}
        free = bits.issuperset(range(row.bit, row.bit + row.width))
        behind = row.bit >= max(p.bit + p.width for p in declared)
        return "" if free or behind else "not declared as reserved"
    if re.search(r" \d+/\d+| \d+ bits each| of \d+ bits|@\d+ w\d+", row.field):
        # one line for all fields of an entry: compare where it starts and ends
        ends = {p.bit + p.width for p in declared}
        whole = row.bit in {p.bit for p in declared} and row.bit + row.width in ends
        return "" if whole else f"nothing starts at bit {row.bit} and ends at {row.bit + row.width}"
    names = wanted_names(row)
    same = [p for p in declared if p.names & names]
    if any((p.bit, p.width) == (row.bit, row.width) for p in same):
        return ""
    return f"want bit {row.bit} width {row.width}, have {[(p.bit, p.width) for p in same] or 'no such field'}"


def test_every_row_of_fields_csv() -> None:
    by_place: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in rows(REFERENCE / "fields.csv"):
        by_place[row.mgmt_class, row.attr_id, row.attr].append(row)
    faults, undeclared, compared = [], set(), 0
    for (mgmt_class, attr_id, attr), group in by_place.items():
        found = layers(mgmt_class, attr_id, attr)
        if not found:
            undeclared.add((mgmt_class, attr_id))
            continue
        declared = [place for struct, base in found for place in places(struct, base)]
        for row in group:
            if (row.attr, row.field) in DIFFERENT:
                continue
            compared += 1
            why = fault(row, declared)
            if why:
                faults.append(f"{mgmt_class} {attr_id} {attr}.{row.field}: {why}")
    assert not faults, "\n".join(["a declaration and its rows in tests/reference/fields.csv differ:", *faults])
    assert undeclared == NOT_YET
    assert compared > 400


def test_deliberate_differences_are_still_in_the_source() -> None:
    assert set(DIFFERENT) - {(row.attr, row.field) for row in rows(REFERENCE / "fields.csv")} == set()


def test_a_wrong_offset_is_found() -> None:
    """The comparison itself: one bit off, a wrong width, a missing field and a used reserved bit are all faults."""
    declared = list(places(MAD))
    row = Row("MAD", "hdr", "MADHeader", "method", 24, 8, False, False)
    assert fault(row, declared) == ""
    for bit, width, name in ((23, 8, "method"), (24, 7, "method"), (24, 8, "methode")):
        assert fault(Row("MAD", "hdr", "MADHeader", name, bit, width, False, False), declared)
    assert fault(Row("MAD", "hdr", "MADHeader", "reserved_24", 24, 8, True, False), declared)

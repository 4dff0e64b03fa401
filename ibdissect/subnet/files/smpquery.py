"""The outputs of smpquery, saquery and sminfo.

Formats: smpquery.c, saquery.c and libibmad's dump.c. saquery shows only what the requester may see, so it never proves that a LID is
unknown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator

from ibdissect.subnet import SWITCH
from ibdissect.subnet.multicast_groups import GroupFacts
from ibdissect.subnet.nodes import SwitchFacts
from ibdissect.subnet.p_keys import BLOCK, block_of
from ibdissect.wire.names import PORT_STATE
from ibdissect.wire.numbers import MASTER, MULTICAST_LIDS
from ibdissect.wire.sm_port import PortInfo
from ibdissect.wire.spec import Field

from .file_facts import (
    FileFact,
    GroupFact,
    InfoFact,
    LinkFact,
    ManagerFact,
    NamedPort,
    NodeFact,
    PortFact,
    RouteFact,
    SwitchFact,
    TableFact,
)
from .lines import KIND_WORDS, NODE_PORTS, UNICAST_LIDS, Lines, gid, guid, lmc_of, number, port_guid
from .virtual_lanes import VLS as VL_NUMBERS
from .virtual_lanes import WEIGHTS, mapped, weighted

INFO_BYTES = 64
P_KEY_ROW = re.compile(r"\s*(\d+):((?:\s+0x[0-9a-fA-F]{4}){1,8})\s*")
CAPACITY = re.compile(r"\s*(\d+) pkeys capacity for this port\s*")
ASKED = re.compile(r".*\bsmpquery\b.*\bpkeys?\s+(?:-\S+\s+)*(0x[0-9a-fA-F]+|\d+)(?:\s+(\d+))?")
NAMED = re.compile(r".*?(?:lid|pkeys)[-_. ]?(\d+)(?:[-_. ]*(?:port|p)?[-_. ]?(\d+))?")
VALUE = re.compile(r"\s*(\w[\w /]*?):?\.+(.*)")
HEAD = re.compile(r"#?\s*(Port|Node|Switch) info: (?:Lid (\d+)|.*?)(?: port (\d+))?\s*")
SM = re.compile(r"sminfo: sm lid (\d+) sm guid (0x[0-9a-fA-F]+),.* priority (\d+) state (\d+) .*")
STATES = {name: number for number, name in PORT_STATE.items()}
PHYSICAL = {"Sleep": 1, "Polling": 2, "Disabled": 3, "PortConfigurationTraining": 4, "LinkUp": 5, "LinkErrorRecovery": 6, "PhyTest": 7}
VLS = {"VL0": 1, "VL0-1": 2, "VL0-3": 3, "VL0-7": 4, "VL0-14": 5}
MTUS = {"256": 1, "512": 2, "1024": 3, "2048": 4, "4096": 5}
WIDTHS = {"1X": 1, "4X": 2, "8X": 4, "12X": 8, "2X": 16}
SPEEDS = {"2.5 Gbps": 1, "5.0 Gbps": 2, "10.0 Gbps": 4}
EXTENDED = {"14.0625 Gbps": 1, "25.78125 Gbps": 2, "53.125 Gbps": 4, "106.25 Gbps": 8}
PORT_INFO: dict[str, tuple[Field[int] | Field[bool], dict[str, int]]] = {
    "GidPrefix": (PortInfo.gid_prefix, {}), "Lid": (PortInfo.lid, {}), "SMLid": (PortInfo.master_sm_lid, {}),
    "CapMask": (PortInfo.capability_mask, {}), "DiagCode": (PortInfo.diag_code, {}), "MkeyLeasePeriod": (PortInfo.m_key_lease_period, {}),
    "LocalPort": (PortInfo.local_port_num, {}), "LinkWidthActive": (PortInfo.link_width_active, WIDTHS),
    "LinkState": (PortInfo.port_state, STATES), "PhysLinkState": (PortInfo.port_physical_state, PHYSICAL),
    "ProtectBits": (PortInfo.m_key_protect_bits, {}), "LMC": (PortInfo.lmc, {}), "LinkSpeedActive": (PortInfo.link_speed_active, SPEEDS),
    "NeighborMTU": (PortInfo.neighbor_mtu, MTUS), "SMSL": (PortInfo.master_smsl, {}), "VLCap": (PortInfo.vl_cap, VLS),
    "VLArbHighCap": (PortInfo.vl_arbitration_high_cap, {}), "VLArbLowCap": (PortInfo.vl_arbitration_low_cap, {}),
    "MtuCap": (PortInfo.mtu_cap, MTUS), "HoqLife": (PortInfo.hoq_life, {}), "OperVLs": (PortInfo.operational_vls, VLS),
    "PartEnforceInb": (PortInfo.partition_enforcement_inbound, {}), "PartEnforceOutb": (PortInfo.partition_enforcement_outbound, {}),
    "FilterRawInb": (PortInfo.filter_raw_inbound, {}), "FilterRawOutb": (PortInfo.filter_raw_outbound, {}),
    "GuidCap": (PortInfo.guid_cap, {}), "SubnetTimeout": (PortInfo.subnet_time_out, {}), "RespTimeVal": (PortInfo.resp_time_value, {}),
    "CapabilityMask2": (PortInfo.capability_mask2, {}), "LinkSpeedExtActive": (PortInfo.link_speed_ext_active, EXTENDED),
}  # fmt: skip
SWITCH_INFO = (
    "LinearFdbCap", "RandomFdbCap", "McastFdbCap", "OptSLtoVLMapping", "PartEnforceCap", "InboundPartEnf", "OutboundPartEnf",
    "EnhancedPort0", "FilterRawInbound", "FilterRawOutbound", "LinearFdbTop",
)  # fmt: skip
"""In the order of `SwitchFacts`, and LinearFDBTop."""
LAST_OF_PORT_INFO = "MaxCreditHint"
"""A PortInfo that ends before this field is ignored: missing fields would be 0."""


def smpquery(lines: Lines) -> Iterator[FileFact]:
    """Outputs of smpquery portinfo, nodeinfo, switchinfo and pkeys, one or many, with or without the command lines between."""
    asked = _asked(os.path.basename(lines.path), NAMED)
    table: dict[int, tuple[int, list[int]]] = {}
    for text in lines:
        head, row, last = HEAD.fullmatch(text), P_KEY_ROW.fullmatch(text), CAPACITY.fullmatch(text)
        if head:
            lid, at = number(head[2] or "", UNICAST_LIDS, 10) or 0, number(head[3] or "", NODE_PORTS, 10)
            yield from _SMP[head[1]](PrintedStructure(lines, lid, at))
        elif row:
            place = number(row[1], range(0, 1 << 15, 8), 10)
            if place is None:
                lines.unknown("eight P_Keys and the place of the first")
                continue
            _, entries = table.setdefault(place // BLOCK, (lines.number, [0] * BLOCK))
            for i, key in enumerate(row[2].split(), place % BLOCK):
                entries[i] = int(key, 16)
        elif last:
            if asked is None:
                lines.unknown("the LID of the port, in the file's name (lid9-port1.txt) or in a command line above (smpquery pkeys 9 1)")
            else:
                size = number(last[1], range(1, 1 << 15), 10) or 0
                yield from (TableFact(line, asked, block, block_of(keys), size) for block, (line, keys) in table.items())
            table, asked = {}, None
        elif (command := _asked(text, ASKED)) is not None:
            asked, table = command, {}
        elif text.strip() and not text.startswith(("$", "#")) and "smpquery" not in text:
            lines.unknown("a line of smpquery")


def _asked(text: str, pattern: re.Pattern[str]) -> NamedPort | None:
    found = pattern.match(text)
    lid = number(found[1], UNICAST_LIDS, 0 if found[1].startswith("0x") else 10) if found else None
    if not found or lid is None:
        return None
    at = number(found[2], NODE_PORTS, 10) if found[2] else None
    return NamedPort(lid=lid, number=-1 if at is None else at)


class PrintedStructure:
    """What a tool printed about one structure."""

    def __init__(self, lines: Lines, lid: int = 0, at: int | None = None) -> None:
        self.lines, self.lid, self.at = lines, lid, at
        """LID and number of the port are 0 and None unless the heading gives them."""
        self.values: dict[str, tuple[str, int]] = {}
        """Values and their lines by printed name, from lines `name....value`."""
        self.rows: list[tuple[int, str]] = []
        """Other lines with their numbers: rows of tables, inner headings, names of bits."""
        for text in lines:
            value = VALUE.match(text)
            if value:
                self.values.setdefault(value[1], (value[2].strip(), lines.number))
            elif text[:1].strip():
                lines.back()
                break
            else:
                self.rows.append((lines.number, text))
        self.line = min((line for _, line in self.values.values()), default=lines.number)
        """The first line with a value."""

    def text(self, name: str) -> str:
        return self.values.get(name, ("", 0))[0]

    def number(self, name: str, allowed: range) -> int | None:
        return number(self.text(name), allowed, 0) if name in self.values else None

    def port(self, lid: str, at: str) -> NamedPort:
        """A port by the names of its LID and its number."""
        found = self.number(at, NODE_PORTS)
        return NamedPort(lid=self.number(lid, UNICAST_LIDS) or 0, number=-1 if found is None else found)


def _port_info(info: PrintedStructure) -> Iterator[FileFact]:
    if LAST_OF_PORT_INFO not in info.values:
        info.lines.unknown("a whole PortInfo")
        return
    own, lmc = info.number("Lid", UNICAST_LIDS), info.number("LMC", range(8))
    at = info.number("LocalPort", NODE_PORTS) if info.at is None else info.at
    lid = info.lid or own or 0
    if at is None or not lid:
        info.lines.unknown("the LID and the number of the port")
        return
    if own:
        yield PortFact(info.line, NamedPort(lid=own, number=at), -1 if lmc is None else lmc)
    whole = 0
    for name, (field, words) in PORT_INFO.items():
        text = info.text(name)
        value = words.get(text) if words else number(text, range(1 << field.bits), 0)
        whole |= (value or 0) << (8 * INFO_BYTES - field.bit - field.bits)
    yield InfoFact(info.line, NamedPort(lid=lid, number=at), whole.to_bytes(INFO_BYTES, "big"))


def _node_info(info: PrintedStructure) -> Iterator[FileFact]:
    yield from _node(info, ("NodeType", "NumPorts", "SystemGuid", "Guid", "PortGuid", "PartCap", "DevId", "LocalPort", "VendorId"))


def _node(info: PrintedStructure, names: tuple[str, ...], description: str = "") -> Iterator[FileFact]:
    texts = [info.text(name) for name in names]
    kind, node, port = KIND_WORDS.get(texts[0].lower(), 0), guid(texts[3]), guid(texts[4])
    ports, cap, device, local, vendor = (number(texts[i] or "-", range(1 << 32), 0) for i in (1, 5, 6, 7, 8))
    if not kind or not node or not port or ports is None or local is None or local > 255:
        info.lines.unknown("a whole NodeInfo")
        return
    system, device, vendor, cap = guid(texts[2]) or 0, (device or 0) & 0xFFFF, (vendor or 0) & 0xFFFFFF, (cap or 0) & 0xFFFF
    yield NodeFact(info.line, node, kind, ports & 0xFF, description, system, device, vendor, cap)
    yield PortFact(info.line, NamedPort(port, node, 0 if kind == SWITCH else local, info.lid))


def _switch_info(info: PrintedStructure) -> Iterator[FileFact]:
    found = [info.number(name, range(1 << 16)) for name in SWITCH_INFO]
    if None in found or not info.lid:
        info.lines.unknown("a whole SwitchInfo and the LID of the switch")
        return
    *facts, top = (one or 0 for one in found)
    yield SwitchFact(info.line, info.lid, SwitchFacts(*facts), top)


Parse = Callable[[PrintedStructure], Iterator[FileFact]]
_SMP: dict[str, Parse] = {"Port": _port_info, "Node": _node_info, "Switch": _switch_info}


def sminfo(lines: Lines) -> Iterator[FileFact]:
    """The master subnet manager."""
    for text in lines:
        found = SM.fullmatch(text.strip())
        port = guid(found[2]) if found else None
        if found and port:
            state, priority = (number(found[i], range(16), 10) or 0 for i in (4, 3))
            yield ManagerFact(lines.number, port, number(found[1], UNICAST_LIDS, 10) or 0, priority, state, state == MASTER)
        elif text.strip():
            lines.unknown("the LID and the GUID of the subnet manager")


RECORD = re.compile(r"(\S.*?) ?(?:Record)?(?: (group|member))? ?dump:\s*")


def saquery(lines: Lines) -> Iterator[FileFact]:
    """Records of any attribute, in any order; those without facts about ports are skipped."""
    paths: dict[int, tuple[int, set[int]]] = {}
    tables: list[TableFact] = []
    for text in lines:
        head = RECORD.fullmatch(text)
        if head is None:
            continue
        name = head[1].removesuffix("Record").strip() + (f" {head[2]}" if head[2] else "")
        if name == "PKeyTable":
            tables += _p_key_record(lines)
        elif name == "Path":
            _path(PrintedStructure(lines), paths)
        elif name in _SA and not (name == "Link" and lines.strange):  # opensm appends garbage to its list of links
            yield from _SA[name](PrintedStructure(lines))
        else:
            PrintedStructure(lines)
    yield from _sized(tables, lines)
    for port, (line, lids) in paths.items():
        yield PortFact(line, NamedPort(port, lid=min(lids)), lmc_of(lids))


def _p_key_record(lines: Lines) -> Iterator[TableFact]:
    line, record = lines.number, PrintedStructure(lines)
    keys = [number(word, range(1 << 16), 16) for _, text in record.rows for word in text.split() if word.startswith("0x")]
    lid, at, block = record.number("LID", UNICAST_LIDS), record.number("Port", NODE_PORTS), record.number("Block", range(1024))
    if lid is None or at is None or block is None or len(keys) != BLOCK or None in keys:
        lines.unknown("LID, Port, Block and 32 P_Keys")
        return
    yield TableFact(line, NamedPort(lid=lid, number=at), block, block_of(key or 0 for key in keys))


def _sized(tables: list[TableFact], lines: Lines) -> Iterator[TableFact]:
    """Tables with all their blocks have that size; the size is unknown if a record is damaged or cut off.

    The last table may continue if the output was cut between two records, so its size is unknown if another table has more blocks.
    """
    blocks: dict[NamedPort, set[int]] = {}
    for one in tables:
        blocks.setdefault(one.end, set()).add(one.block)
    most = max(map(len, blocks.values()), default=0)
    for one in tables:
        mine = blocks[one.end]
        whole = not lines.strange and len(mine) == max(mine) + 1 and (len(mine) == most or one.end != tables[-1].end)
        yield TableFact(one.line, one.end, one.block, one.keys, BLOCK * len(mine) if whole else 0)


def _lanes_record(record: PrintedStructure) -> Iterator[FileFact]:
    """SL to VL: a row of VLs; VL arbitration: rows of 16 VLs, and of their weights."""
    listed: dict[str, list[str]] = {"VL": [], "Weight": []}
    for name, _, row in (text.partition(":") for _, text in record.rows):
        listed.setdefault(name.strip(), []).extend(word.strip() for word in row.split("|") if word.strip())
    end = record.port("LID", "Port")
    if "OutPort" in record.values:
        yield from mapped(record.lines, end, record.text("InPort"), record.text("OutPort"), listed["VL"])
    else:
        vls, weights = ([number(word, allowed, 10) for word in listed[name]] for name, allowed in (("VL", VL_NUMBERS), ("Weight", WEIGHTS)))
        yield from weighted(record.lines, end, record.number("Block", range(1, 5)) or 1, vls, weights)


def _forwarding_record(record: PrintedStructure) -> Iterator[FileFact]:
    lid = record.number("LID", UNICAST_LIDS)
    for line, words in ((line, text.split()) for line, text in record.rows):
        target, port = (number(words[0], UNICAST_LIDS, 10), number(words[1], range(255), 10)) if len(words) == 2 else (None, None)
        if lid and target and port is not None:
            yield RouteFact(line, NamedPort(lid=lid), target, port)


def _path(record: PrintedStructure, paths: dict[int, tuple[int, set[int]]]) -> None:
    for gid_name, lid_name in (("sgid", "slid"), ("dgid", "dlid")):
        port, lid = port_guid(record.text(gid_name)), record.number(lid_name, UNICAST_LIDS)
        if port and lid:
            paths.setdefault(port, (record.values[lid_name][1], set()))[1].add(lid)


def _node_record(record: PrintedStructure) -> Iterator[FileFact]:
    names = ("node_type", "num_ports", "sys_guid", "node_guid", "port_guid", "partition_cap", "device_id", "port_num", "vendor_id")
    record.lid = record.number("lid", UNICAST_LIDS) or 0
    yield from _node(record, names, record.text("NodeDescription"))


def _port_record(record: PrintedStructure) -> Iterator[FileFact]:
    if "GidPrefix" in record.values:  # not the short form of saquery -s
        record.lid, record.at = record.number("EndPortLid", UNICAST_LIDS) or 0, record.number("PortNum", NODE_PORTS)
        yield from _port_info(record)


def _link_record(record: PrintedStructure) -> Iterator[FileFact]:
    near, far = (record.port(f"{end}LID", f"{end}Port") for end in ("From", "To"))
    if not near.lid or not far.lid or min(near.number, far.number) < 0:
        record.lines.unknown("LIDs and ports of both ends")
        return
    yield LinkFact(record.line, near, far)


def _manager_record(record: PrintedStructure) -> Iterator[FileFact]:
    port = guid(record.text("GUID"))
    if port:
        lid, priority, state = record.number("LID", UNICAST_LIDS), record.number("Priority", range(16)), record.number("SMState", range(16))
        yield ManagerFact(record.line, port, lid or 0, priority or 0, state or 0, state == MASTER)


def _switch_record(record: PrintedStructure) -> Iterator[FileFact]:
    caps = "LinearFDBCap", "RandomFDBCap", "MulticastFDBCap", "PartitionEnforcementCap"
    names = *caps, "flags", "LifeTimeValue/PortStateChange/OpSL2VL", "LinearFDBTop"
    found = [record.number(name, range(1 << 16)) for name in names]
    lid = record.number("LID", UNICAST_LIDS)
    if None in found or not lid:
        record.lines.unknown("a whole SwitchInfo")
        return
    linear, random, multicast, cap, flags, life, top = (one or 0 for one in found)
    bits = (flags >> shift & 1 for shift in (7, 6, 3, 5, 4))
    facts = SwitchFacts(linear, random, multicast, life & 3, cap, *bits)
    yield SwitchFact(record.line, lid, facts, top)


def _group_record(record: PrintedStructure) -> Iterator[FileFact]:
    record.values = {name.lower(): value for name, value in record.values.items()}
    mgid, mlid = gid(record.text("mgid")), record.number("mlid", MULTICAST_LIDS)
    if mgid is None or mlid is None:
        record.lines.unknown("the MGID and the MLID of a group")
        return
    p_key, q_key = record.number("pkey", range(1 << 16)), record.number("qkey", range(1 << 32))
    mtu, rate, sl = (record.number(name, range(256)) or 0 for name in ("mtu", "rate", "sl"))
    port, joined = gid(record.text("portgid")) or b"", record.number("joinstate", range(16))
    if joined is None:
        joined = (record.number("scopestate", range(256)) or 0) & 15
    facts = GroupFacts(mlid, p_key if p_key is not None else -1, q_key or 0, mtu & 63, rate & 63, sl & 15)
    yield GroupFact(record.line, mgid, facts, port if any(port) else b"", joined)


_SA: dict[str, Parse] = {
    "Node": _node_record, "PortInfo": _port_record, "Link": _link_record, "SMInfo": _manager_record, "SwitchInfo": _switch_record,
    "MCMember": _group_record, "MCMember group": _group_record, "MCMember member": _group_record, "LFT": _forwarding_record,
    "SL2VLTable": _lanes_record, "VLArbTable": _lanes_record,
}  # fmt: skip

"""What do the outputs of smpquery, saquery and sminfo say?

Formats: smpquery.c, saquery.c and libibmad's dump.c. saquery shows only what the requester may see, so it never proves that a LID is
unknown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator

from ibdissect.fabric.groups import GroupFacts
from ibdissect.fabric.nodes import SwitchFacts
from ibdissect.wire.names import PORT_STATE
from ibdissect.wire.sm_port import PortInfo
from ibdissect.wire.spec import Field

from .facts import End, Fact, GroupFact, InfoFact, LinkFact, ManagerFact, NodeFact, PortFact, RouteFact, SwitchFact, TableFact
from .lanes import VLS as VL_NUMBERS
from .lanes import WEIGHTS, mapped, weighted
from .text import KIND_WORDS, LIDS, NODE_PORTS, Lines, gid, guid, number

Values = dict[str, tuple[str, int]]
"""Printed name -> value and line."""
ENTRIES, BLOCK_BYTES = 32, 64
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
    "MtuCap": (PortInfo.mtu_cap, MTUS), "OperVLs": (PortInfo.operational_vls, VLS),
    "PartEnforceInb": (PortInfo.partition_enforcement_inbound, {}), "PartEnforceOutb": (PortInfo.partition_enforcement_outbound, {}),
    "FilterRawInb": (PortInfo.filter_raw_inbound, {}), "FilterRawOutb": (PortInfo.filter_raw_outbound, {}),
    "GuidCap": (PortInfo.guid_cap, {}), "SubnetTimeout": (PortInfo.subnet_time_out, {}), "RespTimeVal": (PortInfo.resp_time_value, {}),
    "CapabilityMask2": (PortInfo.capability_mask2, {}), "LinkSpeedExtActive": (PortInfo.link_speed_ext_active, EXTENDED),
}  # fmt: skip
SWITCH_INFO = (
    "LinearFdbCap", "RandomFdbCap", "McastFdbCap", "OptSLtoVLMapping", "PartEnforceCap", "InboundPartEnf", "OutboundPartEnf",
    "EnhancedPort0", "LinearFdbTop",
)  # fmt: skip
"""In the order of `SwitchFacts`, and LinearFDBTop."""
LAST_OF_PORT_INFO = "MaxCreditHint"
"""A PortInfo that ends before this field is ignored: missing fields would be 0."""


def smpquery(lines: Lines) -> Iterator[Fact]:
    """Outputs of smpquery portinfo, nodeinfo, switchinfo and pkeys, one or many, with or without the command lines between."""
    asked = _asked(os.path.basename(lines.path), NAMED)
    table: dict[int, tuple[int, list[int]]] = {}
    for text in lines:
        head, row, last = HEAD.fullmatch(text), P_KEY_ROW.fullmatch(text), CAPACITY.fullmatch(text)
        if head:
            lid = number(head[2] or "", LIDS, 10) or 0
            yield from _SMP[head[1]](_record(lines)[0], lid, number(head[3] or "", NODE_PORTS, 10), lines)
        elif row:
            place = number(row[1], range(0, 1 << 15, 8), 10)
            if place is None:
                lines.unknown("eight P_Keys and the place of the first")
                continue
            block = table.setdefault(place // ENTRIES, (lines.number, [0] * ENTRIES))
            for i, key in enumerate(row[2].split()):
                block[1][place % ENTRIES + i] = int(key, 16)
        elif last:
            if asked is None:
                lines.unknown("the LID of the port, in the file's name (lid9-port1.txt) or in a command line above (smpquery pkeys 9 1)")
            for number_, (line, keys) in table.items() if asked is not None else ():
                yield TableFact(line, asked, number_, _packed(keys), number(last[1], range(1, 1 << 15), 10) or 0)  # type: ignore[arg-type]
            table, asked = {}, None
        elif (command := _asked(text, ASKED)) is not None:
            asked, table = command, {}
        elif text.strip() and not text.startswith(("$", "#")) and "smpquery" not in text:
            lines.unknown("a line of smpquery")


def _asked(text: str, pattern: re.Pattern[str]) -> End | None:
    found = pattern.match(text)
    lid = number(found[1], LIDS, 0 if found[1].startswith("0x") else 10) if found else None
    if not found or lid is None:
        return None
    at = number(found[2], NODE_PORTS, 10) if found[2] else None
    return End(lid=lid, number=-1 if at is None else at)


def _packed(keys: Iterable[int | None]) -> bytes:
    return b"".join((key or 0).to_bytes(2, "big") for key in keys)


def _record(lines: Lines) -> tuple[Values, list[tuple[int, str]]]:
    """The `name....value` lines of a record, and the others with their numbers: rows of tables, inner headings, names of bits."""
    found, rows = Values(), list[tuple[int, str]]()
    for text in lines:
        value = VALUE.match(text)
        if value:
            found.setdefault(value[1], (value[2].strip(), lines.number))
        elif text[:1].strip():
            lines.back()
            break
        else:
            rows.append((lines.number, text))
    return found, rows


def _number(values: Values, name: str, allowed: range) -> int | None:
    found = values.get(name)
    return number(found[0], allowed, 0) if found is not None else None


def _line(values: Values, lines: Lines) -> int:
    return min((line for _, line in values.values()), default=lines.number)


def _port_info(values: Values, lid: int, at: int | None, lines: Lines) -> Iterator[Fact]:
    line = _line(values, lines)
    if LAST_OF_PORT_INFO not in values:
        lines.unknown("a whole PortInfo")
        return
    own, lmc = _number(values, "Lid", LIDS), _number(values, "LMC", range(8))
    local = _number(values, "LocalPort", NODE_PORTS)
    at = local if at is None else at
    lid = lid or own or 0
    if at is None or not lid:
        lines.unknown("the LID and the number of the port")
        return
    if own:
        yield PortFact(line, End(lid=own, number=at), -1 if lmc is None else lmc)
    whole = 0
    for name, (field, words) in PORT_INFO.items():
        text = values.get(name, ("", 0))[0]
        value = words.get(text) if words else number(text, range(1 << field.bits), 0)
        whole |= (value or 0) << (8 * BLOCK_BYTES - field.bit - field.bits)
    yield InfoFact(line, End(lid=lid, number=at), whole.to_bytes(BLOCK_BYTES, "big"))


def _node_info(values: Values, lid: int, at: int | None, lines: Lines) -> Iterator[Fact]:
    yield from _node(
        values, lid, lines, ("NodeType", "NumPorts", "SystemGuid", "Guid", "PortGuid", "PartCap", "DevId", "LocalPort", "VendorId")
    )


def _node(values: Values, lid: int, lines: Lines, names: tuple[str, ...], description: str = "") -> Iterator[Fact]:
    line = _line(values, lines)
    texts = [values.get(name, ("", 0))[0] for name in names]
    kind, node, port = KIND_WORDS.get(texts[0].lower(), 0), guid(texts[3]), guid(texts[4])
    ports, cap, device, local, vendor = (number(texts[i] or "-", range(1 << 32), 0) for i in (1, 5, 6, 7, 8))
    if not kind or not node or not port or ports is None or local is None or local > 255:
        lines.unknown("a whole NodeInfo")
        return
    system, device, vendor, cap = guid(texts[2]) or 0, (device or 0) & 0xFFFF, (vendor or 0) & 0xFFFFFF, (cap or 0) & 0xFFFF
    yield NodeFact(line, node, kind, ports & 0xFF, description, system, device, vendor, cap)
    yield PortFact(line, End(port, node, 0 if kind == 2 else local, lid))


def _switch_info(values: Values, lid: int, at: int | None, lines: Lines) -> Iterator[Fact]:
    found = [_number(values, name, range(1 << 16)) for name in SWITCH_INFO]
    if None in found or not lid:
        lines.unknown("a whole SwitchInfo and the LID of the switch")
        return
    *facts, top = (one or 0 for one in found)
    yield SwitchFact(_line(values, lines), lid, SwitchFacts(*facts), top)


_SMP: dict[str, Callable[[Values, int, int | None, Lines], Iterator[Fact]]] = {
    "Port": _port_info, "Node": _node_info, "Switch": _switch_info,
}  # fmt: skip


def sminfo(lines: Lines) -> Iterator[Fact]:
    """The master subnet manager."""
    for text in lines:
        found = SM.fullmatch(text.strip())
        port = guid(found[2]) if found else None
        if found and port:
            state, priority = (number(found[i], range(16), 10) or 0 for i in (4, 3))
            yield ManagerFact(lines.number, port, number(found[1], LIDS, 10) or 0, priority, state, state == 3)
        elif text.strip():
            lines.unknown("the LID and the GUID of the subnet manager")


RECORD = re.compile(r"(\S.*?) ?(?:Record)?(?: (group|member))? ?dump:\s*")


def saquery(lines: Lines) -> Iterator[Fact]:
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
        elif name in ("SL2VLTable", "VLArbTable"):
            yield from _lanes_record(lines)
        elif name == "LFT":
            yield from _forwarding_record(lines)
        elif name == "Path":
            _path(_record(lines)[0], paths)
        elif name in _SA and not (name == "Link" and lines.strange):  # opensm appends garbage to its list of links
            yield from _SA[name](_record(lines)[0], lines)
        else:
            _record(lines)
    yield from _sized(tables, lines)
    for port, (line, lids) in paths.items():
        first, count = min(lids), len(lids)
        whole = count & (count - 1) == 0 and count <= 128 and max(lids) - first + 1 == count
        yield PortFact(line, End(port, lid=first), count.bit_length() - 1 if whole else -1)


def _p_key_record(lines: Lines) -> Iterator[TableFact]:
    line, (values, rows) = lines.number, _record(lines)
    keys = [number(word, range(1 << 16), 16) for _, text in rows for word in text.split() if word.startswith("0x")]
    lid, at, block = (_number(values, name, allowed) for name, allowed in (("LID", LIDS), ("Port", NODE_PORTS), ("Block", range(1024))))
    if lid is None or at is None or block is None or len(keys) != ENTRIES or None in keys:
        lines.unknown("LID, Port, Block and 32 P_Keys")
        return
    yield TableFact(line, End(lid=lid, number=at), block, _packed(keys))


def _sized(tables: list[TableFact], lines: Lines) -> Iterator[TableFact]:
    """Tables with all their blocks have that size; the size is unknown if a record is damaged or cut off.

    The last table may continue if the output was cut between two records, so its size is unknown if another table has more blocks.
    """
    blocks: dict[End, set[int]] = {}
    for one in tables:
        blocks.setdefault(one.end, set()).add(one.block)
    most = max(map(len, blocks.values()), default=0)
    for one in tables:
        mine = blocks[one.end]
        whole = not lines.strange and len(mine) == max(mine) + 1 and (len(mine) == most or one.end != tables[-1].end)
        yield TableFact(one.line, one.end, one.block, one.keys, ENTRIES * len(mine) if whole else 0)


def _lanes_record(lines: Lines) -> Iterator[Fact]:
    """SL to VL: a row of VLs; VL arbitration: rows of 16 VLs, and of their weights."""
    values, rows = _record(lines)
    listed: dict[str, list[str]] = {"VL": [], "Weight": []}
    for name, _, row in (text.partition(":") for _, text in rows):
        listed.setdefault(name.strip(), []).extend(word.strip() for word in row.split("|") if word.strip())
    end = _port(values, "LID", "Port")
    if "OutPort" in values:
        yield from mapped(lines, end, values.get("InPort", ("", 0))[0], values["OutPort"][0], listed["VL"])
    else:
        vls, weights = ([number(word, allowed, 10) for word in listed[name]] for name, allowed in (("VL", VL_NUMBERS), ("Weight", WEIGHTS)))
        yield from weighted(lines, end, _number(values, "Block", range(1, 5)) or 1, vls, weights)


def _forwarding_record(lines: Lines) -> Iterator[Fact]:
    values, rows = _record(lines)
    lid = _number(values, "LID", LIDS)
    for line, words in ((line, text.split()) for line, text in rows):
        target, port = (number(words[0], LIDS, 10), number(words[1], range(255), 10)) if len(words) == 2 else (None, None)
        if lid and target and port is not None:
            yield RouteFact(line, End(lid=lid), target, port)


def _port(values: Values, lid: str, at: str) -> End:
    """A port by the names of its LID and its number."""
    found = _number(values, at, NODE_PORTS)
    return End(lid=_number(values, lid, LIDS) or 0, number=-1 if found is None else found)


def _path(values: Values, paths: dict[int, tuple[int, set[int]]]) -> None:
    for gid_name, lid_name in (("sgid", "slid"), ("dgid", "dlid")):
        address, lid = gid(values.get(gid_name, ("", 0))[0]), _number(values, lid_name, LIDS)
        port = int.from_bytes(address[8:], "big") if address is not None else 0
        if port and lid:
            paths.setdefault(port, (values[lid_name][1], set()))[1].add(lid)


def _node_record(values: Values, lines: Lines) -> Iterator[Fact]:
    names = ("node_type", "num_ports", "sys_guid", "node_guid", "port_guid", "partition_cap", "device_id", "port_num", "vendor_id")
    yield from _node(values, _number(values, "lid", LIDS) or 0, lines, names, values.get("NodeDescription", ("", 0))[0])


def _port_record(values: Values, lines: Lines) -> Iterator[Fact]:
    if "GidPrefix" in values:  # not the short form of saquery -s
        at = _number(values, "PortNum", NODE_PORTS)
        yield from _port_info(values, _number(values, "EndPortLid", LIDS) or 0, at, lines)


def _link_record(values: Values, lines: Lines) -> Iterator[Fact]:
    near, far = (_port(values, f"{end}LID", f"{end}Port") for end in ("From", "To"))
    if not near.lid or not far.lid or min(near.number, far.number) < 0:
        lines.unknown("LIDs and ports of both ends")
        return
    yield LinkFact(_line(values, lines), near, far)


def _manager_record(values: Values, lines: Lines) -> Iterator[Fact]:
    port = guid(values.get("GUID", ("", 0))[0])
    state = _number(values, "SMState", range(16)) or 0
    if port:
        lid, priority = _number(values, "LID", LIDS) or 0, _number(values, "Priority", range(16)) or 0
        yield ManagerFact(_line(values, lines), port, lid, priority, state, state == 3)


def _switch_record(values: Values, lines: Lines) -> Iterator[Fact]:
    caps = "LinearFDBCap", "RandomFDBCap", "MulticastFDBCap", "PartitionEnforcementCap"
    names = *caps, "flags", "LifeTimeValue/PortStateChange/OpSL2VL", "LinearFDBTop"
    found = [_number(values, name, range(1 << 16)) for name in names]
    lid = _number(values, "LID", LIDS)
    if None in found or not lid:
        lines.unknown("a whole SwitchInfo")
        return
    linear, random, multicast, cap, flags, life, top = (one or 0 for one in found)
    yield SwitchFact(
        _line(values, lines), lid, SwitchFacts(linear, random, multicast, life & 3, cap, flags >> 7, flags >> 6 & 1, flags >> 3 & 1), top
    )


def _group_record(values: Values, lines: Lines) -> Iterator[Fact]:
    lower = {name.lower(): value for name, value in values.items()}
    mgid = gid(lower.get("mgid", ("", 0))[0])
    mlid = _number(lower, "mlid", range(0xC000, 0xFFFF))
    if mgid is None or mlid is None:
        lines.unknown("the MGID and the MLID of a group")
        return
    p_key, q_key = _number(lower, "pkey", range(1 << 16)), _number(lower, "qkey", range(1 << 32))
    mtu, rate, sl = (_number(lower, name, range(256)) or 0 for name in ("mtu", "rate", "sl"))
    port = gid(lower.get("portgid", ("", 0))[0]) or b""
    joined = _number(lower, "joinstate", range(16))
    if joined is None:
        joined = (_number(lower, "scopestate", range(256)) or 0) & 15
    facts = GroupFacts(mlid, p_key if p_key is not None else -1, q_key or 0, mtu & 63, rate & 63, sl & 15)
    yield GroupFact(_line(values, lines), mgid, facts, port if any(port) else b"", joined)


_SA: dict[str, Callable[[Values, Lines], Iterator[Fact]]] = {
    "Node": _node_record, "PortInfo": _port_record, "Link": _link_record, "SMInfo": _manager_record, "SwitchInfo": _switch_record,
    "MCMember": _group_record, "MCMember group": _group_record, "MCMember member": _group_record,
}  # fmt: skip

"""Compares our declarations with the C structures of an open ib_types.h and writes the tables of docs/open-header.md.

    python docs/open_header.py PATH/ib_types.h >docs/open-header.md

The header is not kept here (GPL-2.0 or BSD, NVIDIA 2021-2025): in cisco-system-traffic-generator/trex-core it is
external_libs/ibverbs/x86_64/include/infiniband/iba/ib_types.h. Every packed structure is compared with the declarations whose `section`
names it, or whose name is the same or stands in NAMED: each member that is not reserved must begin where a field of ours begins, and the
sizes must agree. Every attribute id of the header must be declared.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from ibdissect.wire.catalog import builtin
from ibdissect.wire.mad import MAD
from ibdissect.wire.places import Inside, Mad, MadFormat
from ibdissect.wire.spec import Struct

Members = list[tuple[str, int, int]]
"""Name, offset and bytes of each member."""
WIDTH = {"uint8_t": 1, "char": 1, "uint16_t": 2, "uint32_t": 4, "uint64_t": 8, "ib_net16_t": 2, "ib_net32_t": 4, "ib_net64_t": 8}
WIDTH |= {"ib_gid_t": 16, "ib_gid_prefix_t": 8, "ib_svc_name_t": 64}
BEFORE = {"ib_vend_key_info_t": 8, "ib_n2n_key_info_t": 8, "ib_neighbors_info_t": 8}
"""Bytes of the MAD (its key) in front of the C structure."""
RESERVED = re.compile(r"\w*(resv|resvd|reserved|resesved|rsvd|pad+ing|pad)\d*$")
NAMED = {
    "ib_path_rec_t": "PathRecord", "ib_member_rec_t": "MCMemberRecord", "ib_lft_record_t": "LinearForwardingTableRecord",
    "ib_node_desc_t": "NodeDescription", "ib_portinfoext_record_t": "PortInfoExtendedRecord", "ib_slvl_table_t": "SLtoVLMappingTable",
    "ib_slvl_table_record_t": "SLtoVLMappingTableRecord", "ib_vl_arb_element_t": "VLArbitrationEntry",
    "ib_vl_arb_table_t": "VLArbitrationTable", "ib_vl_arb_table_record_t": "VLArbitrationTableRecord",
    "ib_port_counters_ext_t": "PortCountersExtended", "ib_iou_info_t": "IOUnitInfo", "ib_ioc_profile_t": "IOControllerProfile",
    "ib_svc_entry_t": "ServiceEntry", "ib_svc_entries_t": "ServiceEntries", "ib_cong_info_t": "CongestionInfo",
    "ib_cong_key_info_t": "CongestionKeyInfo", "ib_cong_log_event_sw_t": "CongestionLogEventSwitch",
    "ib_cong_log_event_ca_t": "CongestionLogEventCA", "ib_cong_log_t": "CongestionLog", "ib_sw_cong_setting_t": "SwitchCongestionSetting",
    "ib_sw_port_cong_setting_element_t": "SwitchPortCongestionSettingElement", "ib_ca_cong_entry_t": "CACongestionEntry",
    "ib_sw_port_cong_setting_t": "SwitchPortCongestionSetting", "ib_ca_cong_setting_t": "CACongestionSetting",
    "ib_cc_tbl_entry_t": "CongestionControlTableEntry", "ib_cc_tbl_t": "CongestionControlTable", "ib_plft_def_t": "PrivateLFTDef",
    "ib_plft_def_element_t": "PLFTDefEntry", "ib_plft_map_t": "PrivateLFTMap", "ib_port_sl_to_plft_map_t": "PortSLToPrivateLFTMap",
    "ib_port_sl_to_plft_map_entry_t": "PortSLToPLFTEntry", "ib_general_info_smp_t": "GeneralInfoCapability",
    "rtr_adj_site_local_subn_record_t": "AdjSiteLocalSubnetEntry", "rtr_next_hop_record_t": "NextHop",
    "ib_ar_lft_t": "ARLinearForwardingTable", "ib_ar_group_hbf_weight_t": "HBFGroupWeight", "ib_ar_group_copy_t": "ARGroupTableCopy",
    "ib_rn_rcv_string_table_t": "RNRcvString", "ib_enh_qos_arbiter_info_record_t": "EnhancedQoSArbiterInfoRecord",
    "ib_perfmgt_mad_t": "PerfMgtFormat", "ib_dm_mad_t": "DeviceMgtFormat", "ib_cc_mad_t": "CongestionControlFormat",
    "ib_sa_mad_t": "SAFormat", "ib_smp_t": "SMPDirected", "ntc_cckey_0": "TrapCCKey",
}  # fmt: skip
"""C types whose name is not that of our structure."""
NO_DATA = {"PREPARE_TO_TEST", "TEST_DEVICE_ONCE", "TEST_DEVICE_LOOP"}
OTHERS = """\
Structures of the header that have none here: parts of unions (unicast, multicast, generic, vend, raw_data, ascii, encap_algo_info,
log_sw, log_ca) and of other structures (ib_rmpp_mad_t, ib_ppcc_algo_info_t), traps without contents (ntc_1148,
ntc_1322), the details of a key violation without a trap number (ntc_vskey), a record of software (ib_ioc_info_t), and the SL to VL table
with masks of ports behind it (ib_sl2vl_mapping_table_t), of which the header does not say when it is used.
"""
EXPLAINED = {
    "ib_enh_qos_arbiter_info_record_t": "reserved bytes at the end",
    "ib_router_info_t": "MaxARGroupID and GlobalRouterLIDStart share a word of the header",
    "ib_multipath_rec_t": "the GIDs after it are structures of their own, as many as the counts say",
}


def main() -> None:
    header = re.sub(r"/\*.*?\*/|//[^\n]*|\\\n", " ", Path(sys.argv[1]).read_text("latin-1"), flags=re.S)
    types = _types(header)
    print("# Against the open header\n")
    print("Written by `python docs/open_header.py PATH/ib_types.h`, which says where that header is to be had.\n")
    _print_ids(header)
    print("## Structures\n")
    print("| place | our structure | C type | bytes here | bytes there | members compared | differences |\n|---|---|---|---|---|---|---|")
    alone = []
    for name, members in types.items():
        found = _ours(name)
        for struct in found:
            before = BEFORE.get(name, 0)
            shifted = [(member, before + at, length) for member, at, length in members]
            size = max((at + length for _, at, length in shifted), default=0)
            faults = list(_faults(struct, shifted))
            if size != struct.size:
                faults.append("reserved bytes at the end" if _only_reserved(shifted, struct.size) else f"{size} bytes")
            why = EXPLAINED.get(name, "; ".join(faults))
            print(f"| {_place(struct)} | {struct.__name__} | {name} | {struct.size} | {size} | {len(members)} | {why} |")
        alone += [] if found else [name]
    print("\n" + OTHERS)
    if new := [name for name in alone if name not in OTHERS]:
        print("New: " + ", ".join(new))


def _print_ids(header: str) -> None:
    places: dict[int, list[str]] = {}
    for struct in builtin().structs:
        for place in struct.carried_by:
            if isinstance(place, Mad) and struct.__name__ not in places.setdefault(place.attr_id, []):
                places[place.attr_id].append(struct.__name__)
    print("## Attribute ids\n\nThe header does not say which class an id belongs to: what is declared here may be of several.\n")
    print("| id | name there | declared here |\n|---|---|---|")
    ids = {(int(number, 0), name) for name, number in re.findall(r"#define\s+IB_MAD_ATTR_(\w+)\s+\(CL_HTON16\((0x\w+)\)\)", header)}
    for number, name in sorted(ids):
        ours = ", ".join(each for each in places.get(number, ()) if not each.startswith("STL"))
        print(f"| 0x{number:04x} | {name} | {'it has no data' if name in NO_DATA else ours or '**none**'} |")
    print()


def _ours(name: str) -> list[type[Struct]]:
    plain = NAMED.get(name, re.sub(r"^ib_|_t$|_", "", name)).lower()
    return [each for each in builtin().structs if re.search(rf"\b_?{name}\b", each.section) or each.__name__.lower() == plain]


def _types(header: str) -> dict[str, Members]:
    """Every packed structure of which all members are known; arrays, nested structures and unions count as one member."""
    macros = dict(re.findall(r"#define[ \t]+(\w+)[ \t]+(\S[^\n]*)", header))
    tokens = re.findall(r"\w+|[^\w\s]", re.sub(r"#[^\n]*", "", header))
    found, known, at = dict[str, Members](), dict(WIDTH), 0
    while at < len(tokens):
        if tokens[at] == "struct" and "{" in tokens[at + 1 : at + 3]:
            _, at = _compound(tokens, at, known, macros, found)
        else:
            at += 1
    return found


def _compound(tokens: list[str], at: int, known: dict[str, int], macros: dict[str, str], found: dict[str, Members]) -> tuple[int, int]:
    """The bytes of the structure or union at `at`, 0 if unknown, and where its closing brace is followed by; a named one is noted."""
    union, members, good, offset = tokens[at] == "union", Members(), True, 0
    at = tokens.index("{", at) + 1
    while tokens[at] != "}":
        if tokens[at] in ("struct", "union") and "{" in tokens[at + 1 : at + 3]:
            width, at = _compound(tokens, at, known, macros, found)
        else:
            width, at = known.get(tokens[at], 0), at + 1
        end = tokens.index(";", at)
        name, *sizes = "".join(tokens[at:end]).replace("]", "").split("[")
        for size in sizes:
            width *= _number(size, macros)
        good &= width > 0
        members.append((name, offset, width))
        offset, at = offset if union else offset + width, end + 1
    size = max((start + length for _, start, length in members), default=0) if good else 0
    at += 1
    packed = tokens[at] == "PACK_SUFFIX"
    at += packed
    if size and (packed or tokens[at].endswith("_t")):
        known[tokens[at]] = size
        if not union:
            found[tokens[at]] = members
    return size, at


def _number(text: str, macros: dict[str, str], depth: int = 9) -> int:
    """The value of an expression of numbers and macros; 0 if it is something else."""
    if depth and re.search(r"\b[A-Za-z_]", text):
        return _number(re.sub(r"\b[A-Za-z_]\w*", lambda name: f"({macros.get(name[0], '?')})", text), macros, depth - 1)
    return int(eval(text.replace("/", "//"))) if re.fullmatch(r"(0x[\da-fA-F]+|\d+|[-+*/()\s])+", text) else 0


def _faults(struct: type[Struct], members: Members) -> Iterator[str]:
    """Members that begin where no field of ours does."""
    starts = {bit // 8 for bit in _starts(struct)}
    if any(isinstance(place, MadFormat) for place in struct.carried_by):
        starts |= {field.bit // 8 for field in MAD.fields}
    for member, at, _ in members:
        if not RESERVED.match(member) and at < struct.size and at not in starts:
            yield f"no field at byte {at} ({member})"


def _starts(struct: type[Struct], base: int = 0) -> Iterator[int]:
    for field in struct.fields:
        for bit in field.entries():
            yield base + bit
            if field.kind == "nested" and field.of is not None:
                yield from _starts(field.of, base + bit)


def _only_reserved(members: Members, size: int) -> bool:
    return all(RESERVED.match(member) for member, at, length in members if at + length > size)


def _place(struct: type[Struct]) -> str:
    places = [f"0x{place.mgmt_class:02x} 0x{place.attr_id:04x}" for place in struct.carried_by if isinstance(place, Mad)]
    inside = [place.field.owner.__name__ for place in struct.carried_by if isinstance(place, Inside) and place.field.owner]
    return ", ".join(places or inside[:1]) or "nested"


if __name__ == "__main__":
    main()

"""Compares our declarations with the C structures of an open ib_types.h and writes the table of docs/open-header.md.

    python docs/open_header.py PATH/ib_types.h >docs/open-header.md

The header is not kept here (GPL-2.0 or BSD, NVIDIA 2021-2025): in cisco-system-traffic-generator/trex-core it is
external_libs/ibverbs/x86_64/include/infiniband/iba/ib_types.h. Every structure whose `section` names one of its types is compared:
each member that is not reserved must begin where a field of ours begins, and the sizes must agree.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from ibdissect.wire.catalog import builtin
from ibdissect.wire.places import Inside, Mad
from ibdissect.wire.spec import Struct

WIDTH = {"uint8_t": 1, "uint16_t": 2, "uint32_t": 4, "uint64_t": 8, "ib_net16_t": 2, "ib_net32_t": 4, "ib_net64_t": 8, "ib_gid_t": 16}
SHARED = {"ib_vend_key_info_t": 8, "ib_n2n_key_info_t": 8, "ib_neighbors_info_t": 8}
"""Bytes of the MAD (its key) in front of the C structure."""
RESERVED = re.compile(r"(resv|resvd|reserved|resesved|pad+ing)\d*$")
EXPLAINED = {
    "ib_router_info_t": "MaxARGroupID and GlobalRouterLIDStart share a word of the header",
    "ib_multipath_rec_t": "the GIDs after it are structures of their own, as many as the counts say",
}


def main() -> None:
    header = re.sub(r"/\*.*?\*/|//[^\n]*", "", Path(sys.argv[1]).read_text("latin-1"), flags=re.S)
    numbers = {name: int(value, 0) for name, value in re.findall(r"#define\s+(\w+)\s+(0x[0-9A-Fa-f]+|\d+)\s", header)}
    types = dict(_types(header, numbers))
    print("# Against the open header\n")
    print("Written by `python docs/open_header.py PATH/ib_types.h`, which says where that header is to be had.\n")
    print("| place | our structure | C type | bytes here | bytes there | members compared | differences |\n|---|---|---|---|---|---|---|")
    for struct in builtin().structs:
        for name in re.findall(r"\b(?:_?ib_|rtr_|qos_|ntc_)\w+", struct.section):
            if name in types:
                before = SHARED.get(name, 0)
                members = [(member, before + at, length) for member, at, length in types[name]]
                size = max((at + length for _, at, length in members), default=0)
                faults = list(_faults(struct, members))
                if size != struct.size:
                    faults.append("reserved bytes at the end" if _only_reserved(members, struct.size) else f"{size} bytes")
                why = EXPLAINED.get(name, "; ".join(faults))
                print(f"| {_place(struct)} | {struct.__name__} | {name} | {struct.size} | {size} | {len(members)} | {why} |")


def _types(header: str, numbers: dict[str, int]) -> Iterator[tuple[str, list[tuple[str, int, int]]]]:
    """(name, [(member, offset, bytes), ...]) of each packed structure without unions; arrays and nested types count as one member."""
    known = dict(WIDTH)
    for body, name in re.findall(r"struct\s+\w*\s*\{([^{}]*)\}\s*PACK_SUFFIX\s+(\w+)\s*;", header):
        at, members = 0, []
        for kind, member, count in re.findall(r"(\w+)\s+(\w+)\s*(?:\[([^\]]+)\])?\s*;", body):
            terms = [numbers.get(term.strip(), -1) if not term.strip().isdigit() else int(term) for term in (count or "1").split("/")]
            if kind not in known or min(terms) < 1:
                break
            length = known[kind] * terms[0] // (terms[1] if len(terms) > 1 else 1)
            members.append((member, at, length))
            at += length
        else:
            known[name] = at
            yield name, members


def _faults(struct: type[Struct], members: list[tuple[str, int, int]]) -> Iterator[str]:
    """Members that begin where no field of ours does."""
    starts = {bit // 8 for bit in _starts(struct)}
    for member, at, _ in members:
        if not RESERVED.match(member) and at < struct.size and at not in starts:
            yield f"no field at byte {at} ({member})"


def _starts(struct: type[Struct], base: int = 0) -> Iterator[int]:
    for field in struct.fields:
        for bit in field.entries():
            yield base + bit
            if field.kind == "nested" and field.of is not None:
                yield from _starts(field.of, base + bit)


def _only_reserved(members: list[tuple[str, int, int]], size: int) -> bool:
    return all(RESERVED.match(member) for member, at, length in members if at + length > size)


def _place(struct: type[Struct]) -> str:
    places = [f"0x{place.mgmt_class:02x} 0x{place.attr_id:04x}" for place in struct.carried_by if isinstance(place, Mad)]
    inside = [place.field.owner.__name__ for place in struct.carried_by if isinstance(place, Inside) and place.field.owner]
    return ", ".join(places or inside[:1]) or "nested"


if __name__ == "__main__":
    main()

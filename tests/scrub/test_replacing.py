"""The parts of a GID are replaced each by itself, and of reserved bits only that some were set is left."""

from __future__ import annotations

import ipaddress
import random

import pytest

from ibdissect.wire.catalog import builtin
from ibdissect.wire.headers import GRH
from tests.craft import erf_pcap, gmp, native, smp
from tests.decode.made import native_table, table_of
from tests.scrub.made import scrub, scrubbed

GIDS: dict[str, dict[str, str]] = {
    "fe80::2:c903:0:1": {"guid": "0002c90300000001"}, "fe80::1": {"guid": "0000000000000001"},
    "2001:db8:1:2::5": {"prefix": "20010db800010002", "guid": "0000000000000005"},
    "::": {}, "::1": {}, "::2": {"ip4": "00000002"}, "::ffff:10.1.2.3": {"ip4": "0a010203"}, "::10.1.2.3": {"ip4": "0a010203"},
    "::1:0:7": {"guid": "0000000100000007"}, "::fffe:0:7": {"guid": "0000fffe00000007"},
    "0:0:0:1::1": {"prefix": "0000000000000001", "guid": "0000000000000001"},
    "0:0:0:1::ffff:0:7": {"prefix": "0000000000000001", "guid": "0000ffff00000007"},
    "ff12::1": {}, "ff12:401b:ffff::1:2": {"group": "0000000000010002"},
    "ff12:401b::1:2": {"group": "0000000000010002"}, "ff12:601b::1:2": {"group": "0000000000010002"},
    "ff12:a01b::1:2": {"group": "0000000000010002"},
    "ff12:402b::1:2": {"site": "ff12402b00000000", "group": "0000000000010002"},
    "ff12:401b:0:1::1": {"site": "ff12401b00000001"}, "ff3e:40:2001:db8::1:2": {"site": "ff3e004020010db8", "group": "0000000000010002"},
}  # fmt: skip
"""GIDs, and what of them is replaced: not the prefix of every port, nor groups of the standard."""
PLACES = {"prefix": 0, "guid": 8, "ip4": 12, "group": 8, "site": 0}


def test_parts_of_a_gid() -> None:
    gids = [ipaddress.IPv6Address(text).packed for text in GIDS]
    blob, scrubber = scrub(erf_pcap([native(0x04, b"", grh={"sgid": gid}) for gid in gids]))
    assert {name: {value.hex() for value in values} for name, values in scrubber.replaced() if values} == {
        name: {parts[name] for parts in GIDS.values() if name in parts} for name in PLACES
    }  # fmt: skip
    for gid, new, (text, parts) in zip(gids, table_of(blob).values(GRH.sgid), GIDS.items(), strict=True):
        replaced = {PLACES[name] + i for name, value in parts.items() for i in range(len(value) // 2)}
        assert all(new[i] == gid[i] for i in {*range(16)} - replaced), text
        assert all(new[PLACES[name] :][: len(value) // 2].tobytes().hex() != value for name, value in parts.items()), text


@pytest.mark.slow
def test_of_reserved_bits_one_is_left_if_some_were_set() -> None:
    """The lowest; in every attribute of subnet and performance management."""
    chance, frames = random.Random(3), list[bytes]()
    for (mgmt_class, attribute), found in sorted(builtin().attributes.items()):
        if mgmt_class in (1, 4) and attribute < 0xFF00 and found[0][0].base_version == 1:
            for body in (chance.randbytes(64), bytes(64)):
                frames.append(smp(0x81, attribute, body, slid=5) if mgmt_class == 1 else gmp(4, 0x81, attribute, body, at=64))
    before, after, seen = native_table(frames), table_of(scrubbed(erf_pcap(frames))), 0
    for field in (field for struct in builtin().structs if len(before.occurrences(struct)) for field in struct.fields):
        if field.kind == "pad" and field.part_of is None and field.bits <= 64:
            assert after.values(field).tolist() == (before.values(field) != 0).astype(int).tolist(), field
            seen += 1
    assert seen > 30

"""Filters at the ends of their values: dates, octal bytes, classes of characters, empty windows, unsigned beside negative."""

from __future__ import annotations

import re

import pytest

from ibdissect.decode import ChunkTable
from ibdissect.dfilter.compile import compile_filter
from ibdissect.dfilter.complete import complete
from ibdissect.dfilter.names import names_of
from ibdissect.errors import FilterError
from ibdissect.wire.catalog import builtin
from tests import craft
from tests.cases import every
from tests.decode.made import native_table, tables_of
from tests.dfilter.test_compile import rows
from tests.dfilter.test_pattern import found


@pytest.fixture(scope="module")
def table() -> ChunkTable:
    """An RDMA write to a high address, a NodeDescription that fills its 64 bytes, one that does not; at 2023-11-14 22:13:20 UTC."""
    names = [craft.smp(0x81, 0x10, name.ljust(64, b"\0")) for name in (b"n" * 64, b"short")]
    write = craft.rc(0x0A, b"abcdefgh", ext={"RETH": {"va": (1 << 63) + 5, "dmalen": 8}}, dlid=4, slid=1)
    return native_table([write, *names])


@every(
    ("text", "wanted"),
    [
        ('frame.time >= "2023-11-14 22:13:20Z"', [0, 1, 2]), ('frame.time > "2023-11-14 22:13:20.001Z"', [2]),
        ('frame.time >= "2023-11-14T23:13:20+01:00"', [0, 1, 2]), ('frame.time < "2023-11-14T23:13:20-01:00"', [0, 1, 2]),
        ('frame.time < "Nov 14, 2023 22:13:20.001 UTC"', [0]), ("frame.time_epoch <= 1700000000.001", [0, 1]),
        ("reth.va > -1", [0]), ("reth.va + lrh.dlid == 9223372036854775817", [0]), ("-reth.dmalen < 0", [0]),
        ("4 & lrh.dlid", [0]), ("8 - reth.dmalen == 0", [0]), ("abs(reth.dmalen - 10) == 2", [0]),
        ('nodedescription.nodestring == "short"', [2]), ("len(nodedescription.nodestring) == 64", [1]),
        ('string(lrh.dlid) == "4"', [0]), ('frame matches "[[:digit:]]" and reth', []), ('frame contains "\\x61bcd"', [0]),
        ('frame contains "\\141bcd"', [0]), ("frame contains 'h'", [0, 2]), ("_ws.malformed", []), ("not _ws.malformed", [0, 1, 2]),
        ("udp contains vlan or udp contains vxlan or udp == mpls", []),
    ],
)  # fmt: skip
def test_selects(table: ChunkTable, text: str, wanted: list[int]) -> None:
    assert rows(text, table) == wanted


@every(
    ("text", "said"),
    [
        ("frame.time > 99999999999", "is not a date"), ('frame.time > "1969-12-31T23:00:00Z"', "outside 1970 to 2242"),
        ('frame.time > "2023-02-30 00:00:00Z"', "is not a date"), ('grh.sgid == "fe80::1%eth0"', "eth0"),
        ('frame matches "[abc"', "a closing ] is missing"), ('frame matches "[abc\\\\"', "ends with a backslash"),
        ('frame matches "[[:wrong:]]"', "class of characters"), ("reth.va == 1 + 0xffffffffffffffff", "larger than 64 bits"),
        ("lrh.dlid & 1.2.3.4 == 1", "1.2.3.4"), ('frame contains "\\477"', "is not an escape"), ("..lrh.dlid == 1", "unexpected"),
        ("grh.sgid & fe80::/10", "an address with a prefix length can only be compared"), ("-grh.sgid == fe80::", "cannot be negated"),
        ("-erf == 1", "cannot be negated"), ("lrh.dlid == 'ab'", "more than one byte"), ("lrh.dlid == ''", "empty"),
    ],
)  # fmt: skip
def test_says_what_is_wrong(text: str, said: str) -> None:
    with pytest.raises(FilterError) as caught:
        compile_filter(text)
    assert said in str(caught.value)


@pytest.mark.slow
@every("pattern", [rb"[\b]", rb"[\012]", rb"[\0]", rb"a\012", rb"[\x41-\x43]+", rb"[]a]", rb"[^]]", rb"[\d\s]", rb"[a\-z]"])
def test_classes_of_bytes_are_those_of_re(pattern: bytes) -> None:
    theirs = re.compile(pattern, re.IGNORECASE)
    texts = [front + bytes([value]) for value in range(128) for front in (b"", b"a")]
    assert found(pattern, texts) == [theirs.search(text) is not None for text in texts]


@pytest.mark.slow
@every(
    ("pattern", "yes", "no"),
    [(rb"[[:alpha:]]", b"azAZ", b"09 _\xe4"), (rb"[[:^digit:]]", b"a_ ", b"0123456789"), (rb"[[:xdigit:]_]", b"09afAF_", b"gG "),
     (rb"[[:space:][:punct:]]", b" \t\n.,!", b"a0")],
)  # fmt: skip
def test_named_classes(pattern: bytes, yes: bytes, no: bytes) -> None:
    assert all(found(pattern, [bytes([value]) for value in yes])) and not any(found(pattern, [bytes([value]) for value in no]))


def test_an_empty_window_selects_nothing() -> None:
    """A file that holds nothing yet is no reason to fail."""
    for table in tables_of(craft.erf_pcap([])):
        assert not compile_filter("lrh.dlid == 1 or frame contains 00").rows(table).any()


def test_what_may_follow_presence_and_what_has_no_name() -> None:
    assert {one.text for one in complete("arp ", 4)} <= {"and", "or", "xor", "&&", "||", "^^", "in", "=="} and complete("arp ", 4)
    names = names_of(builtin())
    assert names.find("..bth") is None and names.find(".") is None and names.label("no.such.name") == ""
    assert names.label("infiniband.bth.p_key") == "Partition Key"

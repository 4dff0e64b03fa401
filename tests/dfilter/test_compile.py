"""Compiled filters select what they say, and every mistake in one names its place."""

from __future__ import annotations

import io
import pickle
import random
import re
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ibdissect
from ibdissect.capture.opening import open_capture
from ibdissect.decode import ChunkTable
from ibdissect.dfilter.compile import compile_filter
from ibdissect.dfilter.names import names_of
from ibdissect.errors import FilterError
from ibdissect.wire.catalog import builtin
from tests import craft
from tests.cases import every
from tests.decode.made import ethernet_table, native_table


def rows(text: str, table: ChunkTable) -> list[int]:
    """Rows that a filter selects."""
    return compile_filter(text).rows(table).nonzero()[0].tolist()


@pytest.fixture(scope="module")
def native() -> ChunkTable:
    """Five frames: RC send, RC write, PortInfo request and response, RC send to another LID."""
    info = craft.build("PortInfo", lid=9, m_key=5)
    return native_table(
        [
            craft.rc(0x04, b"hello", dlid=4, slid=1),
            craft.rc(0x0A, b"HELLO\n", dlid=1, slid=4, ext={"RETH": {"va": 1 << 63, "dmalen": 8}}, bth={"p_key": 0x7FFF, "se": 1}),
            craft.smp(0x01, 0x0015, modifier=1),
            craft.smp(0x81, 0x0015, info, modifier=1),
            craft.rc(0x04, b"other", dlid=7, slid=7, grh={"sgid": bytes.fromhex("fe80" + "00" * 13 + "01")}),
        ]
    )


@every(
    ("text", "wanted"),
    [
        ("", [0, 1, 2, 3, 4]),
        ("lrh.dlid == 4 or lrh.dlid == 7", [0, 4]),
        ("lrh.dlid == 4 xor bth.opcode == 4", [4]),
        ("bth xor lrh xor deth", [2, 3]),
        ("not deth and lrh.dlid != 4", [1, 4]),
        ("portinfo", [3]),
        ("infiniband.portinfo.lid == 9", [3]),
        ("portinfo.m_key == 5", [3]),
        ("bth.se == True", [1]),
        ("bth.se == bth.tver", [0, 2, 3, 4]),
        ("bth.tver < bth.se", [1]),
        ("bth.se < 0xffffffffffffffff", [0, 1, 2, 3, 4]),
        ("bth.se > 0xffffffffffffffff", []),
        ("bth.se in {1, 0xffffffffffffffff}", [1]),
        ("bth.p_key in {0x7ff0..0x7fff, 1}", [1]),
        ("lrh.slid in {lrh.dlid}", [4]), ("lrh.slid in {9, 1..lrh.dlid}", [0, 2, 3, 4]), ("lrh.slid in {lrh.dlid..9}", [1, 4]),
        ("lrh.slid in {lrh.dlid, 4}", [1, 4]), ("lrh.slid in {portinfo.lid, lrh.dlid}", [4]), ("lrh.slid not in {lrh.dlid}", [0, 1, 2, 3]),
        ("lrh.dlid == lrh.slid", [4]),
        ("reth.va == 0x8000000000000000", [1]),
        ("reth.va > 9223372036854775807", [1]),
        ("reth.va - 1 == 9223372036854775807", [1]),
        ("reth.dmalen == lrh.dlid + 7", [1]),
        ("lrh.dlid - 5 < 0", [0, 1, 2, 3]),
        ("grh.sgid == fe80::/16", [4]),
        ("grh.sgid[15] == 1", [4]),
        ("payload contains \"ello\"", [0]),
        ("payload matches \"ello\"", [0, 1]),
        ("payload matches \"^hello$\"", [0, 1]),
        ("payload[0:2] == 68:65", [0]),
        ("payload[-1:] == \"r\"", [4]),
        ("payload[1-2,0] == \"elh\"", [0]),
        ("mad.method == \"GetResp\"", [3]),
        ("mad.method == Get", [2]),
        ("frame.number in {2, 4..5}", [1, 3, 4]),
        ("frame.number > 4 && frame.len > 1", [4]),
        ("frame.time_relative >= 0.001 and frame.time_relative < 0.003", [1, 2]),
        ("frame.time_delta > 0.0005", [1, 2, 3, 4]),
        ("frame.time >= \"2023-11-14 22:13:20.002Z\"", [2, 3, 4]),
        ("frame.time_epoch > 1700000000.0035", [4]),
        ("len(payload) == 5 and count(lrh) == 1", [0, 4]),
        ("max(lrh.dlid, lrh.slid) == 4", [0, 1]),
        ("_ws.malformed", []),
        ("ibdissect.code", []),
    ],
)  # fmt: skip
def test_selects(native: ChunkTable, text: str, wanted: list[int]) -> None:
    assert rows(text, native) == wanted


def test_around_infiniband() -> None:
    arp = bytes(12) + b"\x08\x06" + bytes(28)
    icmp = bytes(12) + b"\x08\x00" + bytes([0x45, 0, 0, 28, 0, 0, 0, 0, 64, 1]) + bytes(10) + bytes(8)
    tcp = bytes(12) + b"\x08\x00" + bytes([0x46, 0, 0, 44, 0, 0, 0, 0, 64, 6]) + bytes(14) + b"\x00\x50\x30\x39" + bytes(16)
    table = ethernet_table([craft.roce2(0x04, b"x", vlan=5, ip={"ecn": 3}), arp, icmp, tcp])
    for text, wanted in (
        ("udp.port == 4791", [0]), ("vlan.id == 5", [0]), ("ip.addr == 192.168.0.0/16", [0]), ("ip.dsfield.ecn == 3", [0]),
        ("ip.flags.df == 1", [0]), ("eth.dst[0:2] == 02:03", [0]), ("arp", [1]), ("icmp", [2]), ("tcp", [3]), ("tcp.port == 80", [3]),
        ("tcp.port == 12345", [3]), ("tcp.srcport == 80 and tcp.dstport == 12345", [3]), ("ip", [0, 2, 3]), ("icmpv6", []),
        ("infiniband", [0]), ("not infiniband", [1, 2, 3]), ("eth.addr == 00:00:00:00:00:00", [1, 2, 3]),
        ("ip.addr != 192.168.0.1", [2, 3]),
    ):  # fmt: skip
        assert rows(text, table) == wanted, text


def test_findings_are_asked_for() -> None:
    """By code, name and severity, in the frames that they name."""
    frames = [craft.native(), craft.native(bth={"tver": 1}), craft.gmp(0x03, 1, 0x3F), craft.smp(1, 0x11, header={"transaction_id": 0})]
    with ibdissect.open(io.BytesIO(craft.erf_pcap(frames))) as opened:
        found, table = opened.lint(), opened.table()
        for text, holds in (
            ('ibdissect.code == "BTH003" or ibdissect.code matches "^mad011"', lambda one: one.code in ("BTH003", "MAD011")),
            ('ibdissect.severity == "error"', lambda one: one.severity == "error"),
            ('ibdissect.severity == "info"', lambda one: one.severity == "info"),
            ('ibdissect.rule == "attr-unknown-for-class"', lambda one: one.code == "MAD011"),
            ('ibdissect.rule in {"attr-unknown-for-class", "tid-zero"}', lambda one: one.code in ("MAD011", "MAD012")),
            ('ibdissect.rule == "\\xff"', lambda one: False),
        ):  # fmt: skip
            assert table.filter(text).frames().tolist() == sorted({one.frame for one in found if holds(one)}), text


def test_a_rule_is_known_by_its_former_name() -> None:
    assert repr(compile_filter('ibdissect.rule == "response-destqp0"').expr) == repr(
        compile_filter('ibdissect.rule == "response-not-to-qp0"').expr
    )


def test_time_deltas_continue_across_chunks() -> None:
    capture = craft.erf_pcap([craft.rc(0x04, bytes(200)) for _ in range(40)])
    wanted, delta = compile_filter("frame.time_relative > 0.0295"), compile_filter("frame.time_delta == 0")
    known = compile_filter("frame.time_relative < 0.0005", first_ns=1_700_000_000_000_000_000 + 20_000_000)
    later: list[int] = []
    first: list[int] = []
    after: list[int] = []
    with open_capture(io.BytesIO(capture), window=2000) as reader:
        tables = [ChunkTable(chunk) for chunk in reader.chunks()]
    assert len(tables) > 3
    for table in tables:
        for each, into in ((wanted, later), (delta, first), (known, after)):
            into += (each.rows(table).nonzero()[0] + table.chunk.first).tolist()
    assert later == list(range(31, 41)) and first == [1] and after == list(range(1, 22))


def test_survives_pickling(native: ChunkTable) -> None:
    text = 'payload matches "ello" and lrh.dlid in {1..4}'
    again = pickle.loads(pickle.dumps(compile_filter(text)))
    assert again.text == text and again.rows(native).tolist() == compile_filter(text).rows(native).tolist()


def test_names_say_what_is_read() -> None:
    assert compile_filter("bth.p_key == 1 and frame.len > 5 or mad").names == {"infiniband.bth.p_key", "frame.len", "infiniband.mad"}


@every(
    ("text", "column", "said"),
    [
        ("infiniband.bth.p_kee == 1", 0, "infiniband.bth.p_key"),
        ("lrh.dlid == 1 and nodeinfo.nodeguit", 18, "nodeinfo.nodeguid"),
        ("lrh.dlid = 1", 9, '"=="'),
        ("lrh.dlid == 1 AND bth", 14, '"and"'),
        ("lrh.dlid == 1 bth", 14, "joined"),
        ("lrh.dlid ==", 11, "ends"),
        ("(bth", 4, "ends"),
        ("lrh.dlid == 65536", 12, "65535"),
        ("lrh.dlid == " + "9" * 5000, 12, "(5000 characters) is too big"),
        ("bth.se == " + "9" * 5000, 10, "too big"),
        ("lrh.dlid == 0" + "7" * 5000, 12, "too big"),
        ("frame.number in {1.." + "9" * 5000 + "}", 20, "too big"),
        ("ip.src == 1.2.3.4/" + "9" * 5000, 10, "32"),
        ("frame.time_relative > " + "9" * 5000, 22, "seconds"),
        ("frame.time_epoch > " + "9" * 5000, 19, "range"),
        ("frame[" + "9" * 5000 + "] == 1", 6, "not a slice"),
        ("lrh.dlid == ffff", 12, "0xffff"),
        ("lrh.dlid == 09", 12, "octal"),
        ("lrh.dlid == \"4\"", 12, "string"),
        ("mad.method == \"Gett\"", 14, '"Get"'),
        ("grh.sgid == 1.2.3.4", 12, "GID"),
        ("grh.sgid == fe80::/200", 12, "128"),
        ("ip.src == 1.2.3.4/33", 10, "32"),
        ("eth.src == 00:01", 11, "6"),
        ("lrh.dlid[0:1] == 00", 0, "sliced"),
        ("frame[0:0] == 00", 6, "at least 1"),
        ("frame[5-2] == 00", 6, "before it starts"),
        ("frame[0:2,x] == 00", 10, "not a slice"),
        ("lrh.dlid contains 01", 0, "contains"),
        ("frame matches abc", 14, "double quotes"),
        ("frame matches \"a(b\"", 15, "parenthesis"),
        ("frame contains \"\\q\"", 16, "escape"),
        ("frame contains \"abc", 15, "final quote"),
        ("4 == lrh.dlid", 0, "left side"),
        ("lrh.dlid == grh.sgid", 12, "cannot be compared"),
        ("lrh.dlid in {1, \"x\"}", 16, "string"),
        ("len(frame) in {1}", 0, "only a field"),
        ("nofunc(lrh.dlid) == 1", 0, "len"),
        ("max(1, 2) == 2", 4, "must be a field"),
        ("len(bth)", 0, "function alone"),
        ("5", 0, "value alone"),
        ("lrh.dlid == 1 / 0", 16, "zero"),
        ("frame.time > \"yesterday\"", 13, "not a date"),
        ("frame.time_relative > 1ms", 22, "seconds"),
        ("arp == 1", 0, "presence"),
        ("linearforwardingtable.port + linearforwardingtable.port == 3", 0, "many times"),
    ],
)  # fmt: skip
def test_mistakes_name_their_place(text: str, column: int, said: str) -> None:
    with pytest.raises(FilterError) as caught:
        compile_filter(text)
    assert caught.value.column == column and said in str(caught.value) and caught.value.text == text


@every(
    "text",
    [
        "(" * 5000, "bth and (" * 300 + "bth" + ")" * 300, "(" * 500 + "bth" + ") or mad) and bth" * 250,
        "lrh.dlid == 1" + " + 1" * 500, "a" * ((1 << 15) + 1),
        'frame matches "((((a{50}){50}){50}){50})"', 'frame matches "' + "(.{999}a)" * 40 + '"', 'frame matches "' + "(" * 300 + '"',
    ],
)  # fmt: skip
def test_monsters_are_refused(text: str) -> None:
    with pytest.raises(FilterError):
        compile_filter(text)


def test_length_without_depth_is_fine(native: ChunkTable) -> None:
    assert rows("!" * 4001 + "deth", native) == [0, 1, 4]
    assert rows(" or ".join(f"lrh.dlid == {n}" for n in range(4, 800)), native) == [0, 4]
    assert rows("(" * 500 + "bth" + ")" * 500, native) == [0, 1, 2, 3, 4]


WORDS = (
    "lrh.dlid", "infiniband.bth.opcode", "frame", "eth.src", "ip.src", "grh.sgid", "nodedescription.nodestring", "frame.time", "4", "0x10",
    "-1", "fe80::/64", "00:01", '"a.*b"', "'x'", "1..3", "==", "!=", "===", "<", "&", "&&", "||", "and", "or", "xor", "not", "in", "{", "}",
    "(", ")", "[0:2]", "[-1]", "contains", "matches", "any", "all", "+", "/", ",", "len(", "max(", "!", "mad", "frame.time_relative", "1.5",
    "bth.se", "True", "portinfo.portstate", "Active", "erf.ts", "infiniband.payload", "arp", "upper(", "string(", "count(",
)  # fmt: skip


@pytest.mark.slow
@given(st.one_of(st.text(max_size=60), st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)))
def test_any_text_compiles_or_is_refused(native: ChunkTable, text: str) -> None:
    try:
        compiled = compile_filter(text)
    except FilterError as error:
        assert 0 <= error.column <= len(text)
    else:
        assert compiled.rows(native).shape == (5,)


@pytest.mark.slow
def test_any_bytes_can_be_filtered() -> None:
    """Every name on frames of random bytes: nothing raises, absent and present stay apart."""
    noise = random.Random(7)
    frames = [craft.ud(craft.mad(noise.choice((1, 0x81, 3, 4, 7)), 0x81, noise.randrange(0x40), noise.randbytes(232))) for _ in range(200)]
    table = native_table(frames + [noise.randbytes(noise.randrange(90)) for _ in range(200)])
    from ibdissect.dfilter.names import names_of
    from ibdissect.wire.catalog import builtin

    seen = 0
    for name in names_of(builtin()).every():
        there = compile_filter(name).rows(table)
        assert np.array_equal(compile_filter(f"not {name}").rows(table), ~there)
        seen += bool(there.any())
    assert seen > 200


@pytest.mark.slow
def test_nothing_heavy_is_imported() -> None:
    code = "import sys, ibdissect.dfilter.compile; print(sorted({'rich', 'textual', 'scapy', 'lark', 'click'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


CONDITIONS = st.sampled_from(
    ["bth", "mad", "lrh.dlid==1", "lrh.dlid == 0x1f", "lrh.dlid\t>= 4", "lrh.dlid >4", "ip.src == 1.2.3.4", "ip.src==1.2.3.4/8", "bth.se",
     "lrh.slid ~= 2", "grh.sgid == fe80::1", "lrh.dlid === lrh.slid", "lrh.dlid !== 3", "lrh.dlid eq 3", "frame contains \"s\"", "not bth",
     "eth.src == 00-01-02-03-04-05", "lrh.dlid != -", "lrh.dlid == 1..", "bth.", "any lrh.dlid == 1", "lrh.dlid in {1}", "bth.se == -1",
     "bth\u00a0"]
)  # fmt: skip
JOINS = st.sampled_from([" and ", " or ", "&&", " && ", "||", " || ", " xor ", " ", "", " xand ", "\n&& ", " AND ", " and  not "])


@pytest.mark.slow
@given(CONDITIONS, st.lists(st.tuples(JOINS, CONDITIONS).map("".join), max_size=4).map("".join))
@settings(max_examples=4 * settings.default.max_examples)
def test_what_is_read_without_the_grammar_is_read_as_by_the_grammar(first: str, more: str) -> None:
    assert meaning(first + more) == meaning(f"({first}{more})")


def meaning(text: str) -> str:
    """What a filter asks; nothing if it is refused. Only the grammar knows parentheses."""
    try:
        return re.sub(" at 0x[0-9a-f]+", "", repr(compile_filter(text).expr))
    except FilterError:
        return ""


@every(
    "text",
    ["bth", "bth.p_key==0x7fff", " lrh.dlid >= 4\t", "ip.src == 10.0.0.1 && bth", "lrh.dlid == 1 or lrh.slid != 2 or mad", "bth xand mad",
     "lrh.dlid == 1 &&", "bth and mad or grh", "lrh.dlid == lrh.slid == 1", "any lrh.dlid == 1", "grh.sgid[0] == 1", "lrh.dlid == 1 bth",
     "bth && mad || grh", "mad or grh and bth", "bth.p_key == 0x7fff || lrh.dlid == 1 || mad", "lrh.slid ~= 2 && lrh.dlid !== 3"],
)  # fmt: skip
def test_common_filters_mean_the_same_in_parentheses(text: str) -> None:
    assert meaning(text) == meaning(f"({text})")


def test_attributes_have_their_names_and_smp_is_a_protocol() -> None:
    names = names_of(builtin())
    found = names.find("mad.attributeid")
    assert found is not None and found.numbers["PortInfo"] == 0x15 and found.numbers["NodeRecord"] == 0x11
    assert "STLSCtoVLMappingTable" not in found.numbers, "it means two numbers"
    assert repr(compile_filter("mad.attributeid == PortInfo && smp").expr) == repr(compile_filter("mad.attributeid == 0x15 && smp").expr)
    with pytest.raises(FilterError, match="PortInfo"):
        compile_filter("mad.attributeid == PortInf")

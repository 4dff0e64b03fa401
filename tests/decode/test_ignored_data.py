"""Data of a request that nobody reads is hidden everywhere, learnt from nowhere, and gone after scrubbing."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import ibdissect
from ibdissect.decode import ChunkTable
from ibdissect.decode.conditions import rows_where
from ibdissect.decode.hidden.cut_keys import without_keys
from ibdissect.decode.hidden.key_numbers import KeyNumbering
from ibdissect.decode.ignored_data import unread
from ibdissect.dfilter.compile import compile_filter
from ibdissect.dissect.frame_trees import dissect_row
from ibdissect.dissect.json_lines import JsonLines
from ibdissect.dissect.printers import dump
from ibdissect.dissect.shown_value import BESIDE, Presenter
from ibdissect.transport.multicast import Multicast
from ibdissect.wire.catalog import Catalog, builtin_modules
from ibdissect.wire.pm import PortCounters
from ibdissect.wire.pm_samples import PortSamplesResult
from ibdissect.wire.sa import mask_for
from ibdissect.wire.sa_paths import MCMemberRecord, MultiPathRecord, PathRecord
from ibdissect.wire.sa_records import GuidInfoRecord, NodeRecord
from ibdissect.wire.sa_service import ServiceRecord
from ibdissect.wire.sm import NodeInfo
from ibdissect.wire.sm_port import PortInfo
from ibdissect.wire.sm_tables import GUIDInfo
from ibdissect.words import Mad, Struct, array, column, raw, uint
from tests.cases import every, few
from tests.craft import build, erf_pcap, gmp, rc, smp
from tests.decode.hidden.test_cut_keys import in_rows
from tests.decode.made import native_table, table_of
from tests.scrub.made import scrub, scrubbed

KEY = 0xDEADBEEFCAFEF00D
STALE = build(PortInfo, m_key=KEY, lid=7)


def asked(method: int, attr_id: int, mask: int) -> bytes:
    return gmp(0x03, method, attr_id, struct.pack(">24xQ", mask) + STALE, at=24)


@pytest.mark.slow
def test_stale_data_of_a_get_is_hidden_and_the_attribute_is_not_there() -> None:
    frames = [smp(0x01, 0x11, STALE), smp(0x01, 0x15, STALE, modifier=1), asked(0x01, 0x11, 0), asked(0x12, 0x31, 0)]
    table = native_table(frames)
    for struct_ in (NodeInfo, PortInfo, NodeRecord, ServiceRecord):
        assert not len(table.occurrences(struct_))
    digits = f"{KEY:016X}"
    for row in range(len(frames)):
        shown = dump(dissect_row(table, row, Presenter())).replace("\n", " ")
        assert digits[:8] not in shown and digits[8:] not in shown
        assert digits[:8] in dump(dissect_row(table, row, Presenter(show_keys=True)))
    assert KEY.to_bytes(8, "big") not in table.once(without_keys).tobytes()


def test_attributes_of_sets_answers_and_queries_that_choose_are_read() -> None:
    """Sets, answers, and queries that choose a component carry attributes."""
    table = native_table([smp(0x02, 0x15, STALE), smp(0x81, 0x15, STALE), asked(0x12, 0x11, 1)])
    assert len(table.occurrences(PortInfo)) == 2
    assert len(table.occurrences(NodeRecord)) == 1


def test_scrubbing_leaves_nothing_of_it() -> None:
    assert KEY.to_bytes(8, "big") not in scrubbed(erf_pcap([smp(0x01, 0x11, STALE), asked(0x01, 0x11, 0)]))


def test_no_column_shows_it() -> None:
    with ibdissect.open(io.BytesIO(erf_pcap([smp(0x01, 0x11, STALE), asked(0x01, 0x11, 0)]))) as opened:
        for name in ("infiniband.payload", "infiniband.mad", "frame"):
            assert opened.table()[name].value.tolist() == [None, None]


def refused(method: int, mask: int = 3) -> bytes:
    """An answer without records that repeats the request's MCMemberRecord."""
    record = build(MCMemberRecord, mgid=0xFF12 << 112 | 1, port_gid=0xFE80 << 112 | 7, q_key=0xCAFEF00D)
    return gmp(0x03, method, 0x38, struct.pack(">12xQHHQ", 0, 7, 0, mask) + record, at=24, header={"status": 0x0300})


def test_a_failed_answer_shows_the_requests_record_but_nothing_is_learnt() -> None:
    table = native_table([refused(0x81), refused(0x92)])
    assert not len(table.occurrences(MCMemberRecord)) and len(table.shown.occurrences(MCMemberRecord)) == 2
    layers = [layer.label for layer in dissect_row(table, 0, Presenter()).layers]
    assert "MCMemberRecord (the request's)" in layers and "Attribute data" not in layers
    assert compile_filter("infiniband.mcmemberrecord.portgid == fe80::7").rows(table).all()
    with ibdissect.open(io.BytesIO(erf_pcap([refused(0x81), refused(0x92)])), show_keys=True) as opened:
        assert opened.table()["infiniband.mcmemberrecord.q_key"].value.tolist() == [0xCAFEF00D] * 2
    masker = KeyNumbering()
    masker.feed(table)
    text = dump(dissect_row(table, 0, Presenter(masker)))
    assert "Q_Key#1" in text and "CAFEF00D" not in text.upper()
    knowledge = Multicast()
    list(knowledge.feed(table))
    assert not knowledge.groups


@pytest.mark.slow
def test_a_failed_answer_shows_all_that_it_repeats_but_no_key() -> None:
    """Whatever the mask names: the reader sees which query failed. A copy for others has no key in it."""
    frames = [refused(method, mask) for method in (0x81, 0x92) for mask in (7, 3, 0)]
    table = native_table(frames)
    assert compile_filter("infiniband.mcmemberrecord.portgid == fe80::7").rows(table).all()
    for row in range(len(frames)):
        assert "CAFEF00D" not in dump(dissect_row(table, row, Presenter())).replace("\n", " ").upper()
    assert gone(frames, (0xCAFEF00D).to_bytes(4, "big"))


def segment(method: int, kind: int, number: int, mask: int, data: bytes, attr_id: int = 0x35, flags: int = 1) -> bytes:
    """A packet of an RMPP transfer of subnet administration."""
    return gmp(0x03, method, attr_id, struct.pack(">BBBxIIQHHQ", 1, kind, flags, number, 0, 0, 0, 0, mask) + data, at=24)


@pytest.mark.slow
def test_of_a_query_in_segments_only_what_the_first_one_names_is_read() -> None:
    path, left = build(PathRecord, **PATH), KEY.to_bytes(8, "big")
    mask, sources = mask_for(PathRecord, ["dgid"]), mask_for(MultiPathRecord, ["sgid_count", "sdgid"])
    paths = build(MultiPathRecord, sgid_count=2, service_id8_msb=0x5A) + (0xFE80 << 112 | 1).to_bytes(16, "big")
    frames = [
        segment(0x12, 1, 1, mask, path), segment(0x12, 1, 2, mask, left), segment(0x12, 2, 1, mask, left), segment(0x94, 4, 0, 0, left),
        segment(0x14, 1, 1, sources, paths, 0x3A), segment(0x14, 1, 2, sources, (0xFE80 << 112 | 2).to_bytes(16, "big"), 0x3A),
    ]  # fmt: skip
    table = native_table(frames)
    assert table.once(unread).tolist() == [False, True, True, True, False, False]
    assert shown(table, 0)["infiniband.pathrecord.dgid"][0] == "fe80::1"
    for row, name in ((0, "infiniband.pathrecord.dlid"), (4, "infiniband.multipathrecord.serviceid8msb")):
        assert shown(table, row)[name] == (None, BESIDE)
    dumps = [dump(dissect_row(table, row, Presenter())).replace("\n", " ").upper() for row in range(6)]
    assert not any(text in one for one in dumps for text in ("5A17", "DEADBEEF", "CAFEF00D"))
    assert " FE800000 " in dumps[4] and " FE800000 " in dumps[5], "the bytes of the GIDs are read"
    assert gone(frames, left) and gone(frames, b"\x5a\x17")


@few("kind", [2, 3, 4], fast=(2,))
def test_an_ack_without_the_active_flag_does_not_count(kind: int) -> None:
    """Receivers ignore the RMPP header without the flag Active, so it is a plain query."""
    mask, path = mask_for(PathRecord, ["dgid"]), build(PathRecord, **PATH)
    table = native_table([segment(0x12, kind, 1, mask, path, flags=flags) for flags in (0, 6, 1)])
    assert table.once(unread).tolist() == [False, False, True]
    assert [shown(table, row)["infiniband.pathrecord.dgid"][0] for row in (0, 1)] == ["fe80::1"] * 2
    assert len(table.occurrences(PathRecord)) == 2


def test_a_later_segment_of_a_query_that_is_not_active_is_no_whole_record() -> None:
    table = native_table([segment(0x12, 1, 2, mask_for(PathRecord, ["dgid"]), KEY.to_bytes(8, "big"), flags=0)])
    assert table.once(unread).tolist() == [True] and not len(table.occurrences(PathRecord))


def gone(frames: list[bytes], what: bytes) -> bool:
    """Whether bytes are in the frames, and not in their scrubbed copy."""
    return any(what in frame for frame in frames) and what not in scrubbed(erf_pcap(frames))


def test_an_answer_that_did_not_fail_is_itself() -> None:
    table = native_table([gmp(0x03, 0x81, 0x11, struct.pack(">12xQHHQ", 0, 14, 0, 3) + build(NodeRecord, lid=7), at=24)])
    assert table.shown is table and len(table.occurrences(NodeRecord)) == 1
    request = dissect_row(native_table([refused(0x01)]), 0, Presenter())
    assert not [layer.label for layer in request.layers if "request's" in layer.label], "it is no answer"


def test_which_requests_nobody_reads() -> None:
    """Method, attribute and, of the SA, ComponentMask say so; vendor and unknown attributes may be read."""
    smps = {(method, attr_id): method == 1 and attr_id in (0x11, 0x15)
            for method in (1, 2, 5, 0x81) for attr_id in (0x11, 0x15, 0x99, 0xFF10)}  # fmt: skip
    queries = {(method, attr_id, mask): method in (1, 0x12) and attr_id == 0x11 and not mask
               for method in (1, 2, 0x12, 0x15, 0x81, 0x92) for attr_id in (0x11, 0x99) for mask in (0, 1, 1 << 63)}  # fmt: skip
    table = native_table([*(smp(*what, STALE) for what in smps), *(asked(*what) for what in queries), gmp(0x04, 1, 0x12, STALE)])
    expected = [*smps.values(), *queries.values(), False]
    assert table.once(unread).tolist() == expected and sum(expected) == 4
    for row, hidden in in_rows(table):
        mad = int(table.located.at("mad")[row] - table.chunk.offset[row])
        data = range(mad + 64, mad + 128) if row < len(smps) else range(mad + 56, mad + 256)
        assert (hidden & set(range(mad, mad + 256)) == set(data)) is expected[row], row


PATH = {"dgid": 0xFE80 << 112 | 1, "sgid": 0xFE80 << 112 | 2, "dlid": 0x5A17, "reversible": 1, "numb_path": 5, "sl": 7, "qos_class": 0x321}


def path_query(*names: str, method: int = 0x01, beyond: bytes = b"", **stale: int) -> bytes:
    """A query for a path by some components; the others are left over, as are bytes behind the record."""
    data = struct.pack(">24xQ", mask_for(PathRecord, names)) + build(PathRecord, **PATH, **stale) + beyond
    return gmp(0x03, method, 0x35, data, at=24)


def counters(method: int) -> bytes:
    return gmp(0x04, method, 0x12, build(PortCounters, port_select=3, counter_select=0x7F, symbol_error_counter=9, port_xmit_data=77))


def named(frames: list[bytes], name: str) -> list[list[object]]:
    """The rows with a value of a field, and the values: as a column, and as filters read them."""
    with ibdissect.open(io.BytesIO(erf_pcap(frames))) as opened:
        table = opened.table()
        found = [list(pair) for pair in zip((table[name].frame - 1).tolist(), table[name].value.tolist(), strict=True)]
        for value in {value for _, value in found}:
            assert (table.filter(f"{name} == {value}").frames() - 1).tolist() == [row for row, held in found if held == value], value
        return found


def shown(table: ChunkTable, row: int, **how: bool) -> dict[str, tuple[object, str]]:
    """Value and text of each field of a frame, which tree and JSON line must agree about."""
    presenter = Presenter(**how)  # type: ignore[arg-type]
    tree = {node.name: (node.value, node.text) for node in dissect_row(table, row, presenter).walk() if node.name}
    (line,) = JsonLines(presenter).lines(table, np.array([row]))

    def walk(nodes: list[dict[str, Any]]) -> Iterator[tuple[str, tuple[object, str]]]:
        for node in nodes:
            if "name" in node:
                yield node["name"], (node["value"], node["text"])
            yield from walk(node.get("fields", []))

    assert dict(walk(json.loads(line)["layers"])) == tree
    return tree


@pytest.mark.slow
def test_a_query_shows_the_components_it_names() -> None:
    """The others are there neither as fields nor as bytes, whether they are zero or not."""
    frames = [path_query("dgid", "reversible", "sl"), path_query(*PATH), path_query("dlid", method=0x12), path_query("dlid", method=2)]
    table = native_table(frames)
    prefix = "infiniband.pathrecord."
    tree = shown(table, 0)
    assert tree[f"{prefix}dgid"][0] == "fe80::1" and tree[f"{prefix}reversible"][0] is True and tree[f"{prefix}sl"][0] == 7
    for name in ("sgid", "dlid", "numbpath", "qosclass", "slid", "serviceid"):
        assert tree[f"{prefix}{name}"] == (None, BESIDE), name
    assert shown(table, 0, show_keys=True)[f"{prefix}dlid"] == (None, BESIDE)
    assert shown(table, 1)[f"{prefix}sgid"][0] == "fe80::2" and shown(table, 1)[f"{prefix}slid"][0] == 0
    assert named(frames, f"{prefix}dlid") == [[1, 0x5A17], [2, 0x5A17], [3, 0x5A17]]
    assert named(frames, f"{prefix}numbpath") == [[1, 5], [3, 5]] and named(frames, f"{prefix}reversible") == [
        [0, True],
        [1, True],
        [3, True],
    ]
    assert table.values(PathRecord.dlid).tolist() == [0, 0x5A17, 0x5A17, 0x5A17]
    assert [table.view(PathRecord, i).numb_path for i in range(4)] == [0, 5, 0, 5]
    bytes_left = dump(dissect_row(table, 0, Presenter())).replace("\n", " ")
    assert "5A17" not in bytes_left and "5A17" in dump(dissect_row(table, 0, Presenter(show_keys=True)))


@pytest.mark.slow
@every("name", ["reversible", "numb_path", "qos_class", "sl"])
def test_of_components_that_share_a_byte_only_the_named_one_is_there(name: str) -> None:
    for other in ("reversible", "numb_path", "qos_class", "sl"):
        wanted = [[0, PATH[other]]] if other == name else []
        assert named([path_query(name)], f"infiniband.pathrecord.{other.replace('_', '')}") == wanted, other
        formula = column(PathRecord, f"{other}_where_{name}", lambda view, other=other: getattr(view, other), "X")  # type: ignore[misc]
        assert native_table([path_query(name)]).values(formula).tolist() == [PATH[other] if other == name else 0], other


def test_packets_of_other_kinds_between_queries() -> None:
    others = [rc(0x04, bytes(8)) for _ in range(3)]
    table = native_table([others[0], path_query("dgid"), *others, path_query(*PATH), others[0], path_query("sl"), *others])
    assert table.values(PathRecord.dlid).tolist() == [0, 0x5A17, 0] and table.values(PathRecord.sl).tolist() == [0, 7, 7]


def test_zeros_beside_the_components_stay_zeros() -> None:
    table = native_table([gmp(0x03, 0x01, 0x35, struct.pack(">24xQ", mask_for(PathRecord, ["dlid"])) + build(PathRecord, dlid=7), at=24)])
    assert not any(hidden for _, hidden in in_rows(table))
    assert shown(table, 0)["infiniband.pathrecord.slid"][0] == 0


def test_one_query_with_left_overs_hides_nothing_of_another() -> None:
    clean = gmp(0x03, 0x01, 0x35, struct.pack(">24xQ", mask_for(PathRecord, ["dlid"])) + build(PathRecord, dlid=7), at=24)
    table = native_table([path_query("dgid"), clean])
    assert [bool(hidden) for _, hidden in in_rows(table)] == [True, False]


def test_entries_and_nested_fields_are_components() -> None:
    record = build(GuidInfoRecord, lid=7, block_num=1, guid_info=build(GUIDInfo, guid_block=list(range(0x10, 0x18))))
    masks = [mask_for(GuidInfoRecord, [f"guid_info.guid_block[{entry}]"]) for entry in (2, 5)]
    table = native_table([gmp(0x03, 0x01, 0x30, struct.pack(">24xQ", mask) + record, at=24) for mask in masks])
    assert table.column(GUIDInfo.guid_block).values.tolist() == [0x12, 0x15]
    assert not len(table.column(GuidInfoRecord.lid).values)
    assert [rows_where(GUIDInfo.guid_block == guid, table).tolist() for guid in (0x12, 0x13)] == [[True, False], [False, False]]


def test_a_datagram_of_another_base_version_is_no_query() -> None:
    """Its record has another layout, so nothing is known to be beside it."""
    query = gmp(0x03, 0x01, 0x35, path_query("dgid")[28 + 24 :], at=24, header={"base_version": 0x80})
    assert [bool(hidden) for _, hidden in in_rows(native_table([path_query("dgid"), query]))] == [True, False]


def test_a_get_of_counters_names_port_and_counters() -> None:
    frames = [counters(0x01), counters(0x81), counters(0x02), gmp(0x04, 0x01, 0x11, build(PortSamplesResult, tag=5))]
    table = native_table(frames)
    assert named(frames, "infiniband.portcounters.portselect") == [[0, 3], [1, 3], [2, 3]]
    assert named(frames, "infiniband.portcounters.counterselect") == [[0, 0x7F], [1, 0x7F], [2, 0x7F]]
    assert named(frames, "infiniband.portcounters.symbolerrorcounter") == [[1, 9], [2, 9]]
    assert shown(table, 0)["infiniband.portcounters.portxmitdata"] == (None, BESIDE)
    assert not len(table.occurrences(PortSamplesResult)) and table.once(unread).tolist() == [False, False, False, True]


def test_what_is_left_over_behind_the_record_is_hidden_too() -> None:
    left = KEY.to_bytes(8, "big")
    table = native_table([path_query(*PATH, "slid", beyond=left), path_query("dlid", beyond=bytes(8))])
    assert left not in table.once(without_keys).tobytes()
    hexes = dump(dissect_row(table, 0, Presenter())).replace("\n", " ").upper()
    assert "DEADBEEF" not in hexes and "CAFEF00D" not in hexes
    for row, hidden in in_rows(table):
        assert hidden == {i for low, high in dissect_row(table, row, Presenter()).secret_bytes for i in range(low, high)}
        assert hidden >= {int(table.located.at(name)[row] - table.chunk.offset[row]) for name in ("icrc", "vcrc")}, "checksums tell them"


def test_every_bit_behind_the_record_is_one_that_nobody_reads() -> None:
    frame = path_query("dlid", beyond=b"\x01" * 8)
    table, behind = native_table([frame]), frame.index(b"\x01" * 8)
    ((_, hidden),) = in_rows(table)
    assert hidden >= set(range(behind, behind + 8)) and min(hidden) >= behind - PathRecord.size
    again = [column(PathRecord, f"{name}_again", lambda view, name=name: getattr(view, name), "X") for name in ("dlid", "sl")]  # type: ignore[misc]
    assert [table.values(one).tolist() for one in again] == [[PATH["dlid"]], [0]]


@pytest.mark.parametrize("left", [-1, 0, 1])
def test_a_query_that_ends_at_its_mask(left: int) -> None:
    """The capture ends there, too."""
    table = native_table([asked(0x01, 0x11, 0)[: 28 + 56 + left]])
    assert table.once(unread).tolist() == [left >= 0]
    assert b"\xde" not in table.once(without_keys).tobytes(), "the first byte behind it"


def test_a_query_cut_short_hides_what_is_there() -> None:
    frame = path_query("sgid")
    table = native_table([frame[: 28 + 56 + 50]])
    assert b"\x5a\x17" not in table.once(without_keys).tobytes()
    assert "5A17" not in dump(dissect_row(table, 0, Presenter())).replace("\n", " ")


@pytest.mark.slow
def test_nothing_beside_a_request_is_learnt_or_survives_scrubbing() -> None:
    join = {"mgid": 0xFF12 << 112 | 1, "q_key": 0xCAFEF00D, "mlid": 0xC001}
    query = gmp(0x03, 0x01, 0x38, struct.pack(">24xQ", mask_for(MCMemberRecord, ["mgid"])) + build(MCMemberRecord, **join), at=24)
    frames = [query, counters(0x01), path_query("dgid", beyond=b"secret")]
    table = native_table(frames)
    masker = KeyNumbering()
    masker.feed(table)
    assert masker.name("Q_Key", 0x1111) == "Q_Key#1"
    clean, scrubber = scrub(erf_pcap(frames))
    after = table_of(clean)
    assert b"secret" not in clean and not any(hidden for _, hidden in in_rows(after))
    assert [after.values(field).tolist() for field in (MCMemberRecord.q_key, PortCounters.symbol_error_counter, PathRecord.dlid)] == [
        [0]
    ] * 3
    assert after.values(PortCounters.port_select).tolist() == [3] and after.values(MCMemberRecord.mgid).any()
    assert not any(0xCAFEF00D.to_bytes(4, "big") in values for _, values in scrubber.replaced())


def test_an_attribute_of_a_plugin_may_be_declared_larger_than_a_mad() -> None:
    class Large(Struct):
        prefix, key, section, size = "acme", "large", "ACME PRM", 200
        carried_by = (Mad(0x04, 0x0060),)
        port_select = uint(8, "PortSelect")
        counters = raw(199, "Counters")

    plugin = ModuleType("acme_of_a_test")
    Large.__module__ = plugin.__name__
    plugin.Large = Large  # type: ignore[attr-defined]
    frames = native_table([gmp(0x04, 0x01, 0x0060, b"\x01\x02", at=64)])
    table = ChunkTable(frames.chunk, Catalog([*builtin_modules(), plugin]))
    assert not len(table.occurrences(Large)) and any(hidden for _, hidden in in_rows(table))


def chosen(struct_: type[Struct], mask: int, data: bytes) -> ChunkTable:
    """A query with a record of a plugin."""
    plugin = ModuleType("acme_of_a_query")
    struct_.__module__ = plugin.__name__
    plugin.Record = struct_  # type: ignore[attr-defined]
    query = gmp(0x03, 0x01, 0x0060, struct.pack(">24xQ", mask) + data, at=24)
    return ChunkTable(native_table([query]).chunk, Catalog([*builtin_modules(), plugin]))


@pytest.mark.slow
def test_a_component_without_an_index_is_all_entries_of_an_array() -> None:
    class Several(Struct):
        prefix, key, section, size = "acme", "several", "ACME SA", 8
        carried_by = (Mad(0x03, 0x0060),)
        components = ("values", "last")
        values = array(3, uint(16, "Value"))
        last = uint(16, "Last")

    table = chosen(Several, 1, bytes(range(1, 9)))
    assert table.values(Several.values).tolist() == [[0x0102, 0x0304, 0x0506]] and table.values(Several.last).tolist() == [0]
    ((_, hidden),) = in_rows(table)
    (at,) = table.occurrences(Several).at - table.chunk.offset
    assert hidden & set(range(at, at + 8)) == {at + 6, at + 7}


@pytest.mark.slow
@every(("mask", "values"), [(1, [1, 0, 0]), (2, [0, 2, 0]), (4, [0, 0, 3]), (6, [0, 2, 3]), (3, [1, 2, 0])])
def test_a_component_at_the_edge_of_its_record(mask: int, values: list[int]) -> None:
    class Edges(Struct):
        prefix, key, section, size = "acme", "edges", "ACME SA", 3
        carried_by = (Mad(0x03, 0x0060),)
        components = ("first", "second", "third")
        first = uint(8, "First")
        second = uint(8, "Second")
        third = uint(8, "Third")

    table = chosen(Edges, mask, b"\1\2\3")
    assert [table.values(field).tolist() for field in (Edges.first, Edges.second, Edges.third)] == [[value] for value in values]


@pytest.mark.slow
@every(("mgmt_class", "status", "is_undefined"), [
    (0x01, 0x1C, True), (0x01, 0, False), (0x81, 0x8000, False), (0x81, 0x800C, True), (0x04, 0x0C, True), (0x04, 0x0100, True),
    (0x04, 0x02, False),  # a redirection says where to ask
    (0x03, 0x0300, False),  # an answer of the SA that failed has no record at all
    (0x0A, 0x0C, False),  # a vendor may use it
])  # fmt: skip
def test_what_a_failed_answer_carries_is_undefined(mgmt_class: int, status: int, is_undefined: bool) -> None:
    attribute = 0x12 if mgmt_class == 0x04 else 0x50 if mgmt_class == 0x0A else 0x11
    frames = [gmp(mgmt_class, 0x81, attribute, header={"status": status}), gmp(mgmt_class, 0x01, attribute, header={"status": status})]
    table = native_table(frames)
    labels = [[layer.label for layer in dissect_row(table, row, Presenter()).layers] for row in (0, 1)]
    assert [any("(undefined)" in label for label in some) for some in labels] == [is_undefined, False], labels


def test_the_tree_says_that_it_is_undefined() -> None:
    table = native_table([smp(0x81, 0x15, bytes(64), header={"status": status}) for status in (0, 0x1C)])
    layers = [[layer.label for layer in dissect_row(table, row, Presenter()).layers] for row in (0, 1)]
    assert "PortInfo" in layers[0] and "PortInfo (undefined)" in layers[1] and "PortInfo" not in layers[1]

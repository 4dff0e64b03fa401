"""A field becomes the filter that selects its own frame, and a wrong filter is refused with a hint."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibdissect.decode.chunk_table import ChunkTable
from ibdissect.dfilter.compile import compile_filter
from ibdissect.screen_model.capture_model import CaptureModel
from ibdissect.screen_model.value_filters import as_filter, cell_filter, combined, doubted, meant
from tests.cases import every
from tests.conftest import REPO
from tests.screen_model import made
from tests.screen_model.made import opened, selected
from tests.screen_model.test_sorting import column


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pkey-lab.pcap", "opensm-first-sweep.pcap", "rxe-rping.pcap"])
def test_every_field_as_filter_selects_its_own_frame(name: str) -> None:
    model = CaptureModel(str(REPO / "captures" / name))
    model.scan(lambda: None)
    tried: set[str] = set()
    for frame in range(1, min(model.index.frames, 60) + 1):
        table = ChunkTable(model.index.chunk([frame]))
        for node in model.tree(frame).walk():
            text = as_filter(node)
            if text is None or text in tried or node.in_front:
                continue
            tried.add(text)
            assert compile_filter(text).rows(table)[0], (frame, text)
    assert len(tried) > 50
    model.close()


def test_masked_fields_and_layers_make_no_filter(tmp_path: Path) -> None:
    model = CaptureModel(str(made.capture(tmp_path)))
    model.scan(lambda: None)
    nodes = list(model.tree(7).walk())
    assert as_filter(next(node for node in nodes if node.name == "infiniband.deth.q_key")) is None
    assert as_filter(next(node for node in nodes if node.label == "BTH")) is None
    assert as_filter(None) is None
    model.close()


def test_a_filter_with_one_more_condition() -> None:
    assert combined("", "a == 1", "and") == "a == 1" and combined("", "a == 1", "not") == "not (a == 1)"
    assert combined("b", "a == 1", "or") == "(b) or a == 1" and combined("b", "a == 1", "and not") == "(b) and not (a == 1)"
    for how in ("and", "or", "and not", "not"):
        compile_filter(combined("frame.number == 1 or arp", 'ibdissect.node == "a b"', how))


@pytest.mark.parametrize(("key", "wanted"), [
    ("number", "frame.number == 3"), ("length", "frame.len == 34"), ("p_key", "infiniband.bth.p_key == 0x9999"),
    ("protocol", '_ws.col.protocol == "RC"'), ("source", 'ibdissect.src.node == "a \\"b\\""'),
    ("destination", '_ws.col.destination == "LID 5"'),
])  # fmt: skip
def test_the_filter_of_a_cell(key: str, wanted: str, tmp_path: Path) -> None:
    model = opened(made.capture(tmp_path))
    (line,) = model.lines([3])
    assert cell_filter(line, column(key), None, ('a "b"', "")) == wanted
    assert model.filter(wanted)[1] is None and (key == "source" or 3 in selected(model, wanted))
    model.close()


@every(
    ("before", "wanted"),
    [
        ("nak", ["infiniband.aeth.syndrome.opcode == 3"]), ("udp and RNR", ["infiniband.aeth.syndrome.opcode == 1"]),
        ("lid", ["infiniband.lrh.slid", "infiniband.lrh.dlid"]), ("lid == 3", ["(infiniband.lrh.slid == 3 or infiniband.lrh.dlid == 3)"]),
        ("message.nak", []), ("rnrx", []), ('"nak', []), ("slid == 3", []), ("infiniband.lrh.lid == 3", []), ("", []),
    ],
)  # fmt: skip
def test_words_of_the_trade_have_filters(before: str, wanted: list[str]) -> None:
    found = meant(before)
    assert [text for _, text, _ in found] == wanted
    for start, text, _ in found:
        compile_filter(before[:start] + text)


def test_a_filter_for_what_no_field_holds_is_doubted() -> None:
    assert "ibdissect.message.retries" in doubted('_ws.col.info contains "[repeated PSN]"')
    assert 'ibdissect.code == "RC002"' in doubted('ibdissect.rule == "RC002"')
    assert not doubted('ibdissect.rule == "repeated-psn" and ibdissect.code == "RC002"')

"""Does the model, without a terminal, give the right lines, trees and matches for any frame in any order?"""

from __future__ import annotations

import gzip
import io
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ibdissect.capture.index import FrameIndex
from ibdissect.capture.opening import open_capture
from ibdissect.dfilter.compile import compile_filter
from ibdissect.errors import CaptureError
from ibdissect.lint.finding import Severity
from ibdissect.lint.paths import PathIgnores
from ibdissect.lint.policy import SitePolicy
from ibdissect.linting import Options, check
from ibdissect.rules import load
from ibdissect.tui.find import FindKind, Query, find
from ibdissect.tui.model import CaptureModel
from ibdissect.tui.rows import AllRows, FilteredRows
from ibdissect.tui.study import Snapshot, Study
from tests.conftest import REPO
from tests.tui import made

TOTAL = len(made.frames())


def opened(path: Path | io.BytesIO, **kw: bool) -> CaptureModel:
    model = CaptureModel(str(path) if isinstance(path, Path) else path, **kw)
    model.scan(lambda: None)
    return model


def studied(model: CaptureModel, options: Options | None = None) -> tuple[Study, Snapshot]:
    """Everything learnt; the study's thread is over."""
    study = Study(model, lambda: options or Options(rules=load()))
    shots: list[Snapshot] = []
    study.want(shots.append)
    thread = threading.Thread(target=study.run, args=(lambda: None,))
    thread.start()
    for _ in range(1000):
        if study.finished:
            break
        model.wait(0.01)
    shot = study.snapshot()
    model.close()
    thread.join(10)
    assert study.finished and not thread.is_alive()
    return study, shot


@pytest.mark.parametrize("name", ["pkey-lab.pcap", "opensm-first-sweep.pcap", "rxe-rping.pcap", "mkey-enforced.pcap.gz"])
def test_index_gives_back_every_frame(name: str) -> None:
    path = REPO / "captures" / name
    packed = name.endswith(".gz")
    with open_capture(str(path), window=3000) as reader, FrameIndex(None if packed else str(path)) as index:
        for chunk in reader.chunks():
            index.add(chunk)
        for chunk in reader.chunks():
            again = index.chunk(range(chunk.first, chunk.first + len(chunk)))
            for field in ("caplen", "length", "time_ns", "link", "interface"):
                assert np.array_equal(getattr(again, field), getattr(chunk, field)), field
            assert [again.frame_bytes(i) for i in range(len(chunk))] == [chunk.frame_bytes(i) for i in range(len(chunk))]
            assert np.array_equal(again.offset - again.pseudo, chunk.offset - chunk.pseudo) or (chunk.pseudo < 0).any()
        scattered = sorted({1, index.frames, index.frames // 2, index.frames // 3 + 1})
        assert [index.chunk([n]).frame_bytes(0) for n in scattered] == [
            index.chunk(scattered).frame_bytes(i) for i in range(len(scattered))
        ]
        assert len(index.after(index.frames)) == 0
        with pytest.raises(KeyError):
            index.time_ns(index.frames + 1)


def test_index_joins_the_small_chunks_of_a_pipe(tmp_path: Path) -> None:
    data = made.capture(tmp_path, repeat=20).read_bytes()
    with open_capture(str(made.capture(tmp_path, repeat=20)), window=400) as reader, FrameIndex(None) as index:
        chunks = list(reader.chunks())
        for chunk in chunks:
            index.add(chunk)
        assert len(chunks) > 50 and index.frames == 20 * TOTAL
        assert len(index.after(0, 1 << 20)) == index.frames  # one block
        assert index.chunk([7 * TOTAL + 7]).frame_bytes(0) == made.frames()[6]
    assert len(data) > 0


def test_a_file_that_shrinks_gives_shorter_frames(tmp_path: Path) -> None:
    path = made.capture(tmp_path)
    model = opened(path)
    path.write_bytes(path.read_bytes()[:300])
    lines = model.lines([1, TOTAL])
    assert [line.frame for line in lines] == [1, TOTAL]
    assert model.tree(TOTAL).data == b""
    model.close()
    assert model.tree(1).data == b""


def test_lines_and_tree(tmp_path: Path) -> None:
    model = opened(made.capture(tmp_path))
    lines = model.lines([3, 4, 21])
    assert [(line.frame, line.protocol, line.p_key) for line in lines] == [(3, "RC", 0x9999), (4, "SMP", 0xFFFF), (21, "RC", 0xFFFF)]
    assert lines[2].info.startswith("NAK") and lines[0].source == "LID 3" and lines[0].destination == "LID 5"
    tree = model.tree(3)
    assert tree.frame == 3 and any(node.name == "infiniband.bth.p_key" and node.value == 0x9999 for node in tree.walk())
    assert model.lines([]) == []
    psn, transaction = "infiniband.bth.psn", "infiniband.mad.transactionid"
    assert model.fields([3, 4], [psn, transaction]) == {3: {psn: "1"}, 4: {psn: "1", transaction: "0x0000000000001234"}}
    model.close()


def test_keys_have_no_number_before_the_study_came_by(tmp_path: Path) -> None:
    model = opened(made.capture(tmp_path))
    q_key = next(node for node in model.tree(7).walk() if node.name == "infiniband.deth.q_key")
    assert q_key.value is None and q_key.text == "Q_Key#?"
    studied(model)
    shown = opened(made.capture(tmp_path), show_keys=True)
    assert next(node for node in shown.tree(7).walk() if node.name == "infiniband.deth.q_key").value == 0x1234567


def test_pipes_and_compressed_files_are_walked_too(tmp_path: Path) -> None:
    data = made.capture(tmp_path).read_bytes()

    class Pipe(io.RawIOBase):
        """Bytes without a position."""

        def __init__(self) -> None:
            self.inner = io.BytesIO(data)

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: bytearray) -> int:
            return self.inner.readinto(buffer)

    packed = tmp_path / "made.pcap.gz"
    packed.write_bytes(gzip.compress(data))
    for model in (CaptureModel(Pipe()), CaptureModel(str(packed))):
        model.scan(lambda: None)
        assert model.index.frames == TOTAL and model.complete and model.error is None
        assert [line.frame for line in model.lines([2, 30])] == [2, 30]
        assert model.tree(7).data == made.frames()[6]
        model.close()


def test_what_is_no_capture_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.pcap"
    path.write_text("no capture")
    with pytest.raises(CaptureError):
        CaptureModel(str(path))


def test_filter_fills_rows(tmp_path: Path) -> None:
    model = opened(made.capture(tmp_path, repeat=30))
    rows = FilteredRows()
    model.fill(rows, compile_filter("infiniband.bth.p_key == 0x9999"), lambda: True, lambda: None)
    assert rows.frames(0, 4) == [3, 3 + TOTAL, 3 + 2 * TOTAL, 3 + 3 * TOTAL] and len(rows) == 30 and rows.checked == model.index.frames
    assert rows.frame(1) == 3 + TOTAL
    assert (rows.nearest(1), rows.nearest(TOTAL - 1), rows.nearest(10**9)) == (0, 1, 29)
    stopped = FilteredRows()
    model.fill(stopped, compile_filter("infiniband"), lambda: False, lambda: None)
    assert len(stopped) == 0 and stopped.nearest(5) == 0
    model.close()


def test_filter_for_findings_follows_the_study(tmp_path: Path) -> None:
    model = opened(made.capture(tmp_path))
    rows = FilteredRows()
    thread = threading.Thread(target=model.fill, args=(rows, compile_filter('ibdissect.code == "PKY003"'), lambda: True, lambda: None))
    thread.start()
    study = Study(model, lambda: Options(rules=load()))
    threading.Thread(target=study.run, args=(lambda: None,), daemon=True).start()
    thread.join(10)
    assert rows.frames(0, 9) == [3]
    model.close()


@pytest.mark.parametrize(
    ("kind", "text", "start", "forward", "found"),
    [
        (FindKind.TEXT, "needle", 0, True, (6, False)),
        (FindKind.TEXT, "NAK", 25, True, (20, True)),
        (FindKind.TEXT, "subngetresp", 3, False, (1, False)),
        (FindKind.HEX, "6e65 65:64", 10, False, (6, False)),
        (FindKind.HEX, "ffffffffffffffffffffffff01", 0, True, None),
        (FindKind.FILTER, "frame.number == 12", 2, True, (11, False)),
        (FindKind.FILTER, "bth.psn == 110", 29, False, (20, False)),
    ],
)
def test_find(tmp_path: Path, kind: FindKind, text: str, start: int, forward: bool, found: tuple[int, bool] | None) -> None:
    model = opened(made.capture(tmp_path))
    matcher = compile_filter(text) if kind is FindKind.FILTER else None
    rows: AllRows = model.rows
    assert find(model, rows, Query(kind, text, matcher), start, forward=forward, wanted=lambda: True) == found
    model.close()


@pytest.mark.parametrize("text", ["", "0", "xy", "0x"])
def test_hex_that_is_none(text: str) -> None:
    with pytest.raises(ValueError):
        Query.hexadecimal(text)


def test_study(tmp_path: Path) -> None:
    model = opened(made.capture(tmp_path))
    study, shot = studied(model)
    store = model.findings
    assert "PKY003" in store.codes[3] and store.worst(3) is not None and store.worst(22) is None
    assert store.after(0) == min(store.frames()) and store.after(10**9) == min(store.frames())
    assert [finding.frame for finding in store.all()] == sorted(finding.frame for finding in store.all())
    assert all(finding.message for finding in store.all())
    assert sum(store.by_rule.values()) == sum(store.counts.values()) >= len(store) > 0
    assert shot.frames == TOTAL == shot.tally.frames
    talk = next(talk for talk in shot.talks if talk.far_qp == 0x50)
    assert (talk.near, talk.far, talk.service, talk.packets, talk.near_qp) == ("LID 3", "LID 5", "RC", (12, 1), 0x60)
    assert sum(talk.spark) == 13 and (talk.repeated, talk.naks) == (1, 1)
    assert study.conversations.repeated == {20}
    datagrams = next(talk for talk in shot.talks if talk.service == "UD")
    assert (datagrams.near_qp, datagrams.far_qp, datagrams.known_by) == (0x41, 0x40, "DETH")
    assert [(one.kind, one.answered, one.unanswered) for one in shot.exchanges] == [("SM (LID routed)", 0, 1), ("PM", 0, 1)]
    assert dict(shot.tally.p_key_mix())["0x9999"] == 1
    assert shot.fabric.nodes == 1 and shot.fabric.partitions == 2
    assert sum(shot.tally.line.packets) == TOTAL and int(shot.tally.opcodes.sum()) == TOTAL
    assert dict(shot.tally.talkers)["LID 3"] > 10


def test_the_study_judges_as_the_project_says(tmp_path: Path) -> None:
    """Rules that are chosen, severities, site policy, ignored paths: the findings of `lint` with the same options."""
    path = made.capture(tmp_path)

    def found(**options: Any) -> list[tuple[str, int, Severity]]:
        given = Options(rules=load(), **options)
        model = opened(path)
        study, _ = studied(model, given)
        shown = [(finding.code, finding.frame, finding.severity) for finding in model.findings.all()]
        linted = check(str(path), given)
        assert sorted(shown) == sorted((finding.code, finding.frame, finding.severity) for finding in linted.findings)
        assert model.findings.counts == {Severity(name): count for name, count in linted.counts.items()}
        assert set(study.rules) == {rule.code for rule in given.rules_for(str(path))}
        return shown

    plain = found()
    code = plain[0][0]
    assert {severity for one, _, severity in found(severities={code: Severity.INFO}) if one == code} == {Severity.INFO}
    assert {one for one, _, _ in plain} - {one for one, _, _ in found(ignored=PathIgnores(str(tmp_path), (("*.pcap", (code,)),)))} == {code}
    assert len(found(policy=SitePolicy(lids=((1000, 1001),)))) > len(plain)

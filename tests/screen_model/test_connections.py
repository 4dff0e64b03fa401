"""The screen gets what `diagnose` says, and its filters show the frames of a connection and of a part of its time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

import ibdissect
from ibdissect.diagnosis.connection import Connection
from ibdissect.pipeline.check import CheckOptions
from ibdissect.screen_model.background_analysis import BackgroundAnalysis
from ibdissect.screen_model.capture_model import CaptureModel
from ibdissect.screen_model.connections import connection_filter, connection_of, diagnosed, points_of, slice_filter
from tests.craft import erf_pcap, interfaces_pcapng, rc
from tests.screen_model.made import opened, selected


@pytest.fixture
def slow(repo: Path) -> Iterator[tuple[CaptureModel, BackgroundAnalysis]]:
    model = opened(repo / "captures/slow-lab.pcap")
    yield model, studied(model)
    model.close()


def studied(model: CaptureModel) -> BackgroundAnalysis:
    """A study without rules that has reached the end; the capture stays open."""
    study = BackgroundAnalysis(model, lambda: CheckOptions(rules=[]))
    study.run(lambda: study.close() if study.finished else None)
    assert study.finished
    return study


def of(found: list[Connection], cause: str) -> Connection:
    return next(one for one in found if one.cause == cause)


def test_all_say_the_same(repo: Path, slow: tuple[CaptureModel, BackgroundAnalysis]) -> None:
    model, study = slow
    with ibdissect.open(str(repo / "captures/slow-lab.pcap")) as capture:
        told = capture.connections()
    assert study.finished and diagnosed(study).connections == told and len(told) == 8
    study.finished = False
    early = diagnosed(study)
    assert early.connections == told and early.shared == diagnosed(study).shared and early.frames == model.index.frames
    assert diagnosed(study, lambda: False).connections == []


def test_a_capture_without_packets_of_connections(tmp_path: Path) -> None:
    (tmp_path / "x.pcap").write_bytes(erf_pcap([]))
    model = opened(tmp_path / "x.pcap")
    assert diagnosed(studied(model)).connections == []
    model.close()


@pytest.mark.slow
def test_frames_of_a_connection(slow: tuple[CaptureModel, BackgroundAnalysis]) -> None:
    model, study = slow
    found = diagnosed(study).connections
    every = [selected(model, connection_filter(one)) for one in found]
    for one, frames in zip(found, every, strict=True):
        assert (frames[0], frames[-1]) == (one.first_frame, one.last_frame)
    assert sorted(frame for frames in every for frame in frames) == [*range(1, model.index.frames + 1)]
    for one, frames in zip(found, every, strict=True):
        for frame in {*frames[::7], frames[-1], *one.evidence}.intersection(frames):
            told = connection_of(found, model.table([frame]), frame)
            assert told is one or (told is None and frame not in (one.first_frame, one.last_frame, *one.evidence))


def test_frames_of_a_part_of_the_time(slow: tuple[CaptureModel, BackgroundAnalysis]) -> None:
    model, study = slow
    found = diagnosed(study).connections
    one = of(found, "slow-by-timeout")
    text, frame = slice_filter(one, "timeout", model)
    frames = selected(model, text)
    assert len(frames) == 8 and frame in frames and 376 in frames
    one = of(found, "slow-by-rnr")
    frames = selected(model, slice_filter(one, "rnr_wait", model)[0])
    assert len(frames) == 36 and 309 in frames
    ranges = re.findall(r"(\d+) \.\. (\d+)", slice_filter(one, "rnr_wait", model)[0].partition("}")[0])
    assert len(ranges) == 10 and all(int(low) > int(high) + 1 for (_, high), (low, _) in pairwise(ranges)), "ranges that touch are one"
    text, frame = slice_filter(one, "transferring", model)
    assert (text, frame) == (connection_filter(one), one.first_frame)


def test_connections_of_lids(tmp_path: Path) -> None:
    frames = [rc(4, bytes(8), slid=1, dlid=2, bth={"destqp": 9, "psn": 5, "a": 1})]
    frames.append(rc(0x11, slid=2, dlid=1, bth={"destqp": 8, "psn": 5}, ext={"AETH": {"syndrome": 31, "msn": 1}}))
    frames.append(rc(4, bytes(8), slid=3, dlid=2, bth={"destqp": 9, "psn": 5, "a": 1}))
    (tmp_path / "x.pcap").write_bytes(erf_pcap(frames))
    model = opened(tmp_path / "x.pcap")
    found = diagnosed(studied(model)).connections
    assert [selected(model, connection_filter(one)) for one in found] == [[1, 2], [3]]
    assert [connection_of(found, model.table([frame]), frame) is one for frame, one in ((2, found[0]), (3, found[1]))] == [True, True]
    model.close()


@pytest.fixture
def merged(repo: Path, tmp_path: Path) -> Iterator[tuple[CaptureModel, BackgroundAnalysis]]:
    """The slow capture twice, as two points 40 us apart: an interface each, all frames in order of time."""
    frames = []
    with ibdissect.open(str(repo / "captures/slow-lab.pcap")) as capture:
        for frame in capture:
            frames += [(frame.time_ns, 0, frame.data), (frame.time_ns + 40_000, 1, frame.data)]
    frames.sort(key=lambda one: one[0])
    path = tmp_path / "merged.pcapng"
    path.write_bytes(interfaces_pcapng([(point, data) for _, point, data in frames], link=1, times=[time for time, *_ in frames]))
    model = opened(path)
    yield model, studied(model)
    model.close()


def test_connections_of_merged_points_are_told_apart(merged: tuple[CaptureModel, BackgroundAnalysis]) -> None:
    """Each point's are complete: the other point's copies are no losses, before the end of the study neither."""
    model, study = merged
    found = diagnosed(study).connections
    study.finished = False
    assert [one.cause for one in diagnosed(study).connections] == [one.cause for one in found] and len(found) == 15
    points = points_of(found, model.table)
    assert sorted(point.name for point in points.values()) == ["interface 0"] * 7 + ["interface 1"] * 7
    pair = [one for one in found if one.cause == "slow-by-timeout"]
    assert [points[one.first_frame].name for one in pair] == ["interface 0", "interface 1"]
    for one in pair:
        frames = selected(model, connection_filter(one, points[one.first_frame]))
        assert (frames[0], frames[-1]) == (one.first_frame, one.last_frame)
        assert len(frames) == 68 + 5 * (one is pair[0]) < len(selected(model, connection_filter(one)))  # the first has the set-up, too
        assert connection_of(found, model.table([frames[3]]), frames[3], points) is one
        assert len(selected(model, slice_filter(one, "timeout", model, points[one.first_frame])[0])) == 8


def test_a_capture_of_one_point_names_none(slow: tuple[CaptureModel, BackgroundAnalysis]) -> None:
    model, study = slow
    assert points_of(diagnosed(study).connections, model.table) == {}

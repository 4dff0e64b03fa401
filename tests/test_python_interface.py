"""The Python interface works as documented."""

from __future__ import annotations

import gzip
import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ibdissect
from ibdissect.errors import CaptureError, ConfigError, FilterError
from tests.capture.built import Pipe
from tests.commands import REPO
from tests.craft import erf_pcap, ethernet_pcap
from tests.dissect.frames import M_KEY, all_frames, ethernet_frames

DATA = erf_pcap(all_frames())


@pytest.fixture
def path(tmp_path: Path) -> str:
    file = tmp_path / "x.pcap"
    file.write_bytes(DATA)
    return str(file)


def test_frames_are_those_of_the_file(path: str) -> None:
    with ibdissect.open(path) as capture:
        frames = list(capture)
    assert [frame.number for frame in frames] == list(range(1, 18))
    assert [frame.data for frame in frames] == all_frames()
    assert frames[1].time_ns - frames[0].time_ns == 1_000_000
    assert {frame.link for frame in frames} == {197}


def test_frames_in_any_order(path: str) -> None:
    with ibdissect.open(path) as capture:
        for number in (17, 1, 9, 2):
            assert capture.frame(number).data == all_frames()[number - 1]
            assert capture.dissect(number).frame == number
        for number in (0, 18, -1):
            with pytest.raises(IndexError):
                capture.dissect(number)


@pytest.mark.parametrize("kind", ["path", "Path", "file", "gzip", "pipe"])
def test_any_source(path: str, kind: str, tmp_path: Path) -> None:
    packed = tmp_path / "x.pcap.gz"
    packed.write_bytes(gzip.compress(DATA))

    sources = {"path": path, "Path": Path(path), "file": io.BytesIO(DATA), "gzip": str(packed), "pipe": Pipe(DATA)}
    with ibdissect.open(sources[kind]) as capture:
        tree = capture.dissect(3)
        assert tree.summary.info == "SubnGetResp(NodeDescription)"
        mkey = next(node for node in tree.walk() if node.name == "infiniband.smplid.mkey")
        assert (mkey.value, mkey.text) == (None, "M_Key#2")
        assert capture.dissect(1).summary.info.startswith("SubnGet(SMInfo)")


def test_keys_when_asked_for(path: str) -> None:
    with ibdissect.open(path, show_keys=True) as capture:
        assert next(node for node in capture.dissect(1).walk() if node.name == "infiniband.smplid.mkey").value == M_KEY


def test_columns(path: str) -> None:
    with ibdissect.open(path) as capture:
        table = capture.table()
        keys = table["infiniband.bth.p_key"]
        assert keys.frame.tolist() == [number for number in range(1, 18) if number != 14]  # frame 14 is cut inside its BTH
        assert set(keys.value.tolist()) == {0xFFFF}
        gids = table["grh.sgid"]
        assert gids.frame.tolist() == [12]
        assert gids.value.shape == (1, 16) and gids.value[0].tobytes().hex() == "fe800000000000000002c90300001491"
        assert table["infiniband.bth.m"].value.dtype == np.bool_
        assert len(table["infiniband.portinfo.lid"]) == 0
        assert b"payload of an OpCode without meaning" in table["infiniband.payload"].value.tolist()
        with pytest.raises(FilterError):
            table["infiniband.no.such"]
        assert "infiniband.bth.psn" in table and "no.such" not in table


def test_a_repeated_field_has_one_row_an_entry() -> None:
    with ibdissect.open(io.BytesIO(ethernet_pcap(ethernet_frames()))) as capture:
        ports = capture.table()["udp.port"]
        assert ports.frame.tolist() == [1, 1, 2, 2]
        assert ports.value.tolist() == [49152, 4791, 49152, 4791]


def test_not_a_capture(tmp_path: Path) -> None:
    with pytest.raises(CaptureError):
        ibdissect.open(str(tmp_path / "missing"))
    with pytest.raises(CaptureError):
        ibdissect.open(io.BytesIO(b"no capture at all, only text" * 9))


def test_lint_finds_the_frame(path: str) -> None:
    with ibdissect.open(path) as capture:
        findings = capture.lint()
    assert any(finding.frame == 13 for finding in findings)
    assert [(f.frame, f.code) for f in findings] == sorted((f.frame, f.code) for f in findings)


@pytest.mark.slow
def test_lint_of_a_file_object_starts_where_it_stood(path: str, tmp_path: Path) -> None:
    blob = Path(path).read_bytes()
    source = io.BytesIO(b"something else" + blob)
    source.seek(14)
    with ibdissect.open(path) as capture, ibdissect.open(source) as inside:
        assert len(list(inside)) == len(list(capture))
        assert [(f.code, f.frame) for f in inside.lint()] == [(f.code, f.frame) for f in capture.lint()]
        assert {f.capture for f in inside.lint()} == {"file object"}
    with ibdissect.open(Path(path)) as capture:
        assert {finding.capture for finding in capture.lint()} == {path}


def test_a_limit_of_no_findings_is_refused(repo: Path) -> None:
    with ibdissect.open(str(repo / "captures/pkey-lab.pcap")) as capture, pytest.raises(ConfigError, match="from 1 on"):
        capture.lint(max_findings=0)


PICKLED = """
import pickle, ibdissect
with ibdissect.open("captures/pkey-lab-full.pcap") as opened:
    try:
        print(pickle.loads(pickle.dumps(opened.ends())).names is not None)  # an interpreted engine is all Python
    except TypeError as error:
        print("cannot pickle" in str(error))
"""


@pytest.mark.slow
def test_pickling_the_ends_of_packets_is_no_crash() -> None:
    ran = subprocess.run([sys.executable, "-c", PICKLED], cwd=REPO, capture_output=True, text=True, timeout=120)
    assert (ran.returncode, ran.stdout) == (0, "True\n"), ran.stderr

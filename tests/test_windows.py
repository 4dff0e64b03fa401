"""A capture gives the same findings as a file, through a pipe, compressed, and with windows of any size."""

from __future__ import annotations

import gzip
import importlib
import io
import json
import struct
from collections.abc import Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ibdissect.capture import records
from ibdissect.capture.compressed import zstd_library
from ibdissect.capture.opening import open_capture
from ibdissect.lint import compared_with_answers, stateless_rules
from ibdissect.lint.point_faults import PointFaults
from ibdissect.lint.site_policy import SitePolicy
from ibdissect.pipeline.check import CheckOptions, check_reading
from ibdissect.pipeline.reading import Reading
from ibdissect.report import Run, render
from ibdissect.rules import load
from ibdissect.subnet.files.kinds_of_files import SubnetFiles
from tests.capture.built import Pipe
from tests.craft import LINK_ERF, erf_pcap
from tests.rules.cases import CASES
from tests.rules.made.conversations import counters

RULES = load()
for module in sorted(Path(__file__).parent.glob("rules/*/cases.py")):
    importlib.import_module(f"tests.rules.{module.parent.name}.cases")


class Told(NamedTuple):
    """What a check is told besides the capture."""

    policy: SitePolicy | PointFaults | None = None
    known: Sequence[Any] = ()


NOTHING = Told()
ALL = sorted((case for cases in CASES.values() for case in cases), key=attrgetter("code", "bad", "twin"))
"""In one order, whichever tests were imported before."""
PROOFS = [(f"{case.code} {kind}", capture, Told(case.policy, case.known))
          for case in ALL for kind, capture in (("bad", case.bad), ("twin", case.twin))]  # fmt: skip
ROWS = records.ROWS
HEADER = 24
"""Bytes of a pcap file before its first record."""
PCAP = b"\xd4\xc3\xb2\xa1"


def in_sequence(*captures: bytes) -> bytes:
    """The records of pcap files one after the other, in rising time: each begins a second after the end of the one before, or up to two."""
    parts, last = [captures[0][:HEADER]], 0
    erf = parts[0][20] == LINK_ERF
    for capture in captures:
        data, at = bytearray(capture[HEADER:]), 0
        later = max(0, last + 2 - int.from_bytes(data[:4], "little")) if last else 0
        while at + 16 <= len(data):
            seconds, _, size = struct.unpack_from("<3I", data, at)
            struct.pack_into("<I", data, at, min(seconds + later, 0xFFFFFFFF))
            if erf and at + 24 <= len(data):  # the ERF header has the time, too
                stamp = at + 20
                struct.pack_into("<I", data, stamp, min(struct.unpack_from("<I", data, stamp)[0] + later, 0xFFFFFFFF))
            last, at = max(last, seconds + later), at + 16 + size
        parts.append(bytes(data))
    return b"".join(parts)


def mixes() -> Iterator[tuple[str, bytes, Told]]:
    """Proofs in sequence: facts of the same ports change to those of the twin within one window, and back."""
    for case in ALL:
        bad, twin, told = case.bad, case.twin, Told(case.policy, case.known)
        if bad[:4] == PCAP and bad[:HEADER] == twin[:HEADER] and len(bad) <= 12_000:
            yield f"{case.code} bad twin bad", in_sequence(bad, twin, bad), told
            yield f"{case.code} twin bad twin", in_sequence(twin, bad, twin), told


MIXES = list(mixes())
OF_A_PIPE = "; save it as a file, which can be read again to tell them apart"
"""What CAP017 says beside if the capture could be read only once."""


def findings(source: Any, told: Told = NOTHING, window: int = 32 << 20, most: int | None = None) -> str:
    """The report as JSON, without the source's name and the mark of a pipe."""
    reader = open_capture(source, window=window)
    files = SubnetFiles([*told.known], []) if told.known else None
    report = check_reading(Reading(reader), CheckOptions(rules=RULES, max_findings=most, policy=told.policy, subnet=files))
    reader.close()
    report_json = json.loads(render("json", [report], Run()))
    report_json["captures"][0] |= {"path": "", "phases": 1}
    for finding in report_json["findings"]:
        finding["capture"] = ""
        finding["message"] = finding["message"].partition(OF_A_PIPE)[0]
    return json.dumps(report_json)


def zstd(data: bytes) -> bytes:
    packed: bytes = zstd_library().compress(data)
    return packed


def readings(data: bytes, told: Told, rows: Sequence[int]) -> Iterator[tuple[str, str]]:
    """The report of each way to read a capture, the usual one first; `rows`: frames per window. What would be one window is left out."""
    usual = findings(io.BytesIO(data), told)
    frames = json.loads(usual)["captures"][0]["frames"]
    yield "file", usual
    yield "pipe", findings(Pipe(data), told)
    if len(data) > 4096:
        yield "4 KiB", findings(io.BytesIO(data), told, 4096)
    for number in (number for number in rows if number < frames):
        records.ROWS = number
        yield f"{number} frames", findings(io.BytesIO(data), told)
        records.ROWS = ROWS


def check(name: str, data: bytes, told: Told = NOTHING) -> None:
    data = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
    few = (1, 7) if len(data) < 40_000 else (max(7, len(data) // 30_000),)
    (_, usual), *others = readings(data, told, few)
    for how, other in others:
        assert other == usual, f"{name} read as {how}"


@pytest.fixture(autouse=True)
def _rows(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Rules leave out what repeats an earlier window however little it is."""
    for module in (stateless_rules, compared_with_answers):
        monkeypatch.setattr(module, "SMALL", 1)
    yield
    records.ROWS = ROWS


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pkey-lab-full.pcap", "rxe-nak-bad-rkey.pcap"])
def test_samples(name: str, repo: Path, tmp_path: Path) -> None:
    data = (repo / "captures" / name).read_bytes()
    check(name, data)
    usual = findings(io.BytesIO(data))
    for ending, pack in (("gz", gzip.compress), ("zst", zstd)):  # what is unpacked does not depend on what is in it
        path = tmp_path / f"x.pcap.{ending}"
        path.write_bytes(pack(data))
        assert findings(str(path)) == usual, f"{name} read as {ending}"


@pytest.mark.slow
def test_the_findings_that_are_kept_are_the_first_ones() -> None:
    data = erf_pcap([counters(1, n, port_select=port) for port in range(1, 9) for n in range(1, 103)])
    kept = [finding["frame"] for finding in json.loads(findings(io.BytesIO(data), most=2))["findings"] if finding["code"] == "TXN018"]
    assert kept == [101, 203]
    assert findings(io.BytesIO(data), most=2) == findings(io.BytesIO(data), window=4096, most=2)


def check_mix(name: str, data: bytes, told: Told) -> None:
    def steady(rows: int) -> Any:
        records.ROWS = rows
        return json.loads(findings(io.BytesIO(data), told))["findings"]

    assert steady(1) == steady(ROWS), name


@pytest.mark.slow
def test_some_mixes_and_proofs() -> None:
    for mix in MIXES[::48]:
        check_mix(*mix)
    for proof in PROOFS[::48]:
        check(*proof)


@pytest.mark.thorough
@pytest.mark.parametrize("part", range(24))
def test_all_mixes_and_proofs(part: int) -> None:
    for mix in MIXES[part::24]:
        check_mix(*mix)
    for proof in PROOFS[part::24]:
        check(*proof)


@pytest.mark.slow
@pytest.mark.parametrize("part", [0, *(pytest.param(other, marks=pytest.mark.thorough) for other in range(1, 24))])
def test_shared_captures(part: int, shared: Path) -> None:
    """Those below 500 kB: larger ones take minutes in windows of 4 KiB."""
    small = [path for path in sorted((shared / "captures").rglob("*.pcap")) if path.stat().st_size < 500_000]
    for path in small[part::24]:
        check(path.name, path.read_bytes())

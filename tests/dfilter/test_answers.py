"""Filters, columns and exports know the frames of requests and of their answers."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from ibdissect.dfilter.answers import AnswerFrames
from ibdissect.dfilter.compile import compile_filter
from tests import commands, craft
from tests.cases import every
from tests.decode.made import tables_of

REQUEST, RESPONSE = "ibdissect.request_frame", "ibdissect.response_frame"
ASK = craft.gmp(4, 1, 0x12, slid=1, dlid=2, header={"transaction_id": 7})
ANSWER = craft.gmp(4, 0x81, 0x12, slid=2, dlid=1, header={"transaction_id": 7})
OTHER = craft.gmp(4, 1, 0x1D, slid=1, dlid=2, header={"transaction_id": 8})
DATA = craft.rc(0x04, bytes(8))
FRAMES = [DATA, ASK, OTHER, ASK, DATA, ANSWER, OTHER]
"""Frame 2 asks, 4 asks again, 6 answers; 3 and 7 stay without an answer. A millisecond lies between frames."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The frames as a file."""
    path = tmp_path / "asked.pcap"
    path.write_bytes(craft.erf_pcap(FRAMES))
    return path


def selected(text: str, *, whole: bool, window: int = 1 << 20) -> list[int]:
    """Frames that a filter selects; `whole`: it is told the answers of the whole capture."""
    source = craft.erf_pcap(FRAMES)
    answers = None
    if whole:
        answers = AnswerFrames()
        for table in tables_of(source):
            answers.feed(table)
    compiled, found = compile_filter(text), []
    for table in tables_of(source, window):
        found += (compiled.rows(table, answers=answers).nonzero()[0] + table.chunk.first).tolist()
    return found


@pytest.mark.slow
@every("window", [200, 1 << 20])
@every(
    ("text", "wanted"),
    [
        ("ibdissect.request_frame", [6]), ("ibdissect.request_frame == 4", [6]), ("ibdissect.request_frame == 2", []),
        ("ibdissect.response_time > 0.0019 && ibdissect.response_time < 0.0021", [6]), ("ibdissect.response_time > 1", []),
        ("ibdissect.response_frame", [2, 4]), ("ibdissect.response_frame == 6 && frame.number > 2", [4]),
        ("mad && !ibdissect.response_frame && !ibdissect.request_frame", [3, 7]),
        ("ibdissect.response_frame == frame.number", []),
    ],
)  # fmt: skip
def test_filters(text: str, wanted: list[int], window: int) -> None:
    assert selected(text, whole=True, window=window) == wanted


@pytest.mark.parametrize("window", [200, 1 << 20])
def test_without_the_whole_capture_answers_are_known_from_their_frame_on(window: int) -> None:
    for _ in range(2):  # the second reading starts from nothing again
        assert selected("ibdissect.response_time < 0.1", whole=False, window=window) == [6]


def test_a_filter_says_what_it_needs() -> None:
    asks = compile_filter("ibdissect.response_frame")
    assert asks.pairs and asks.ahead and not asks.codes
    looks_back = compile_filter("ibdissect.response_time > 1 || ibdissect.request_frame")
    assert looks_back.pairs and not looks_back.ahead
    assert not compile_filter("bth").pairs


def test_single_frames() -> None:
    answers = AnswerFrames()
    for table in tables_of(craft.erf_pcap(FRAMES)):
        answers.feed(table)
    assert [answers.value(RESPONSE, frame) for frame in range(1, 9)] == [None, 6, None, 6, None, None, None, None]
    assert [answers.value(REQUEST, frame) for frame in range(1, 9)] == [None] * 5 + [4, None, None]


@pytest.mark.slow
def test_many_answers() -> None:
    pairs = 300
    frames = [craft.gmp(4, method, 0x12, slid=1, dlid=1, header={"transaction_id": 1 + i}) for i in range(pairs) for method in (1, 0x81)]
    answers = AnswerFrames()
    for table in tables_of(craft.erf_pcap(frames)):
        answers.feed(table)
    assert len(answers) == pairs
    for i in range(pairs):
        assert answers.value(RESPONSE, 2 * i + 1) == 2 * i + 2 and answers.value(REQUEST, 2 * i + 2) == 2 * i + 1


def run(*arguments: str, given: bytes | None = None) -> tuple[int, str]:
    """Exit status and what was printed."""
    done = commands.run(*arguments, stdin=given)
    return done.returncode, (done.stdout + done.stderr).decode()


@pytest.mark.slow
def test_show(path: Path) -> None:
    names = ("frame.number", "ibdissect.request_frame", "ibdissect.response_frame", "ibdissect.response_time")
    code, text = run("show", str(path), *(part for name in names for part in ("-e", name)), "-Y", "mad")
    lines = [line.split("\t") for line in text.splitlines()]
    assert code == 0 and [line[:3] for line in lines] == [["2", "", "6"], ["3", "", ""], ["4", "", "6"], ["6", "4", ""], ["7", "", ""]]
    assert lines[3][3].startswith("0.00") and abs(float(lines[3][3]) - 0.002) < 1e-7
    assert run("show", str(path), "--count", "-Y", "ibdissect.response_frame == 6") == (0, "2\n")


def test_export(path: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    target = tmp_path / "out.csv"
    names = ("frame.number", "ibdissect.request_frame", "ibdissect.response_frame", "ibdissect.response_time")
    code, _ = run("export", str(path), "--output", str(target), *(part for name in names for part in ("-e", name)))
    rows = list(csv.DictReader(target.open()))
    assert code == 0 and [row["ibdissect.response_frame"] for row in rows] == ["", "6", "", "6", "", "", ""]
    assert [row["ibdissect.request_frame"] for row in rows] == ["", "", "", "", "", "4", ""]
    assert abs(float(rows[5]["ibdissect.response_time"]) - 0.002) < 1e-7


@pytest.mark.slow
def test_what_cannot_be_read_twice(path: Path) -> None:
    code, text = run("show", "-", "--count", "-Y", "ibdissect.response_frame", given=path.read_bytes())
    assert code == 2 and "a pipe can be read only once" in text
    assert run("show", "-", "--count", "-Y", "ibdissect.request_frame", given=path.read_bytes()) == (0, "1\n")
    code, text = run("lint", str(path), "-Y", "ibdissect.response_frame")
    assert code == 2 and "come later" in text
    assert run("lint", str(path), "-q", "-Y", "ibdissect.response_time < 1")[0] in (0, 1)


def test_every_answer_of_a_real_sweep_has_its_request(shared: Path) -> None:
    text = "infiniband.mad.method == 0x81 && !ibdissect.request_frame"
    code, count = run("show", str(shared / "captures/opensm/01-sweep-net1.pcap"), "--count", "-Y", text)
    assert (code, count) == (0, "0\n")

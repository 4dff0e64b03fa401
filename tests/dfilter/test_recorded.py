"""Display filters select in our own captures what tshark 4.0.17 selected there, also where no tshark is.

`recorded.txt` holds tshark's answers: frames, `!` for a filter that it refuses. A filter that is new
in filters.txt needs them, too: `pytest tests/dfilter --update-golden` asks tshark again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .ask import UNREAD, Answer, ibdissect, tshark
from .differences import reason
from .test_tshark import WRITTEN

RECORDED = Path(__file__).with_name("recorded.txt")
CAPTURES = ("pkey-lab.pcap", "opensm-first-sweep.pcap", "rxe-nak-bad-rkey.pcap")
FILTERS = list(dict.fromkeys(text for filters in WRITTEN.values() for text in filters))

PAYLOAD = "tshark shows these payloads as data, or hands them on, without the name"
HERE: dict[str, str] = {
    "infiniband.payload": PAYLOAD,
    'infiniband.payload matches "^."': PAYLOAD,
    "len(infiniband.payload) > 100": PAYLOAD,
    "max(infiniband.lrh.dlid, 3) == 3": "max() of a field that is not there has no value here; tshark leaves the field out",
    "infiniband.cm.req.private contains 00:00": "tshark shows the bytes only where they are not of the IP CM service",
}
"""Differences that these captures show beside those of differences.py."""


def frames_of(text: str) -> set[int]:
    """The frames of `1-3,7`."""
    pairs = [part.split("-") for part in text.split(",") if part not in ("", "!")]
    return {frame for pair in pairs for frame in range(int(pair[0]), int(pair[-1]) + 1)}


def ranges(answer: Answer) -> str:
    """`1-3,7`; `!` for a filter that was refused."""
    if answer is None:
        return "!"
    parts: list[list[int]] = []
    for frame in answer:
        if parts and frame == parts[-1][1] + 1:
            parts[-1][1] = frame
        else:
            parts.append([frame, frame])
    return ",".join(f"{a}-{b}" if b > a else str(a) for a, b in parts)


def recorded() -> Iterator[tuple[str, str, str]]:
    """(capture, filter, ranges), as written."""
    capture = ""
    for line in RECORDED.read_text("utf-8").splitlines():
        if line.startswith("["):
            capture = line.strip("[]")
        else:
            answer, _, text = line.partition("\t")
            yield capture, text, answer


@pytest.fixture(scope="module")
def answers(request: pytest.FixtureRequest, repo: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], str]:
    """tshark's answers by capture and filter."""
    if request.config.getoption("--update-golden"):
        folder, lines = tmp_path_factory.mktemp("tshark"), []
        for name in CAPTURES:
            said = tshark(repo / "captures" / name, FILTERS, folder)
            lines += [f"[{name}]", *(f"{ranges(answer)}\t{text}" for text, answer in zip(FILTERS, said, strict=True))]
        RECORDED.write_text("\n".join(lines) + "\n", "utf-8")
    return {(capture, text): answer for capture, text, answer in recorded()}


@pytest.mark.slow
@pytest.mark.parametrize("capture", CAPTURES)
def test_as_tshark_selected(repo: Path, answers: dict[tuple[str, str], str], capture: str) -> None:
    ours = dict(zip(FILTERS, map(ranges, ibdissect(repo / "captures" / capture, FILTERS)), strict=True))
    (asked,) = ibdissect(repo / "captures" / capture, [UNREAD])
    wrong = [
        f"{text}\n  tshark:    {answers[capture, text]}\n  ibdissect: {answer}"
        for text, answer in ours.items()
        if answer != answers[capture, text]
        and reason(text, capture) is None
        and text not in HERE
        and not frames_of(answer) ^ frames_of(answers[capture, text]) <= set(asked or ())
    ]
    assert not wrong, "\n".join(wrong)
    assert len(set(ours.values())) > 20, "filters that tell frames apart"


@pytest.mark.slow
def test_every_difference_is_there(repo: Path, answers: dict[tuple[str, str], str]) -> None:
    """A difference that has gone must leave the list."""
    left = set(HERE)
    for capture in CAPTURES:
        for text, answer in zip(FILTERS, ibdissect(repo / "captures" / capture, FILTERS), strict=True):
            if ranges(answer) != answers[capture, text]:
                left.discard(text)
    assert not left

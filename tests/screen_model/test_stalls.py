"""The stalls of a ladder are found, named, and drawn to one scale."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibdissect.diagnosis.connection import Connection
from ibdissect.screen_model.stalls import stalls
from tests.diagnosis.lab import MS, SEC, US, Lab
from tests.screen_model.test_ladder import ladder, ladder_of, send

START = 1_700_000_000 * SEC


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def found(folder: Path, *times: int, again: int = 0) -> dict[int, tuple[int, str, int]]:
    """The stalls of packets at these times: how long each is, what it waited for, and its lines. `again`: this one was sent before."""
    frames = [send(i + 1 if i != again or not i else 1) for i in range(len(times))]
    steps = ladder(frames, folder, times=[START + time for time in times]).steps
    return {i: (each.ns, each.what, each.lines) for i, each in stalls(steps).items()}


def test_stalls_are_gaps_that_are_much_longer_than_most(folder: Path) -> None:
    several = found(folder, 0, 5 * US, 10 * US, 10 * US + 39 * US, 10 * US + 39 * US + 40 * US)
    assert {i: ns for i, (ns, *_) in several.items()} == {4: 40 * US}
    assert found(folder, 0, MS, 2 * MS, 3 * MS) == {} == stalls([]) == found(folder, 5) == found(folder, 5, 5)
    assert found(folder, 0, 100, 200, 300, 10_299) == {} and found(folder, 0, 100, 200, 300, 10_300)[4][0] == 10_000


def test_all_are_drawn_to_one_scale(folder: Path) -> None:
    several = found(folder, 0, US, 2 * US, 3 * US, 8 * MS, 9 * MS, 9 * MS + US, 13 * MS)
    assert [lines for *_, lines in several.values()] == [8, 1, 4]
    assert [lines for *_, lines in found(folder, 0, US, 2 * US, 3 * US, 160 * MS, 165 * MS).values()] == [8]
    many = [0]
    for _ in range(60):
        many += [many[-1] + US, many[-1] + 2 * US, many[-1] + 3 * US, many[-1] + 10 * MS]
    assert {lines for *_, lines in found(folder, *many).values()} == {1}


def told(lab: Lab, folder: Path, one: Connection | None) -> list[tuple[str, str, int]]:
    """The stalls of a lab's packets: kind, what was waited for, and lines."""
    (folder / "lab.pcap").write_bytes(lab.pcap())
    return [(each.kind, each.what, each.lines) for each in stalls(ladder_of(folder / "lab.pcap").steps, one).values()]


def test_what_it_waited_for(folder: Path) -> None:
    """What is known of the connection; else that it went on with a packet that was sent before. Trouble has a line at least."""
    lab = Lab()
    at = lab.good(0, 100, 5, step=10 * US)
    lab.ask(at, 105)
    lab.ask(at + 160 * MS, 105)  # its timer ran out
    at = lab.good(at + 160 * MS + 5 * US, 106, 3, step=10 * US)
    lab.ask(at, 109)
    lab.answer(at + 5 * US, 109, 0x20 | 12)
    lab.ask(at + 5 * MS, 109)
    lab.answer(at + 5 * MS + 5 * US, 109, msn=109)
    lab.good(at + 60 * MS, 110, 4, step=10 * US)
    assert told(lab, folder, None) == [("", "until it was sent again", 8), ("", "no packet", 3)]
    assert told(lab, folder, lab.only()) == [
        ("timeout", "waiting for a time-out", 8), ("rnr", "waiting for a receive buffer", 1),
        ("idle", "the application had nothing to send", 3),
    ]  # fmt: skip

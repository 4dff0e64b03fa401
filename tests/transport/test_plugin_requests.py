"""Requests and answers of a plugin's protocol are matched by their fields, in filters and columns."""

from __future__ import annotations

from pathlib import Path

from ibdissect.dfilter.answers import AnswerFrames
from ibdissect.pipeline.reading import open_reading
from ibdissect.plugins import load
from tests import commands
from tests.talk import PLUGIN, capture

SAID = (("1:read", 1, 0), ("1:read", 2, 1), ("2:reply", 2, 3), ("2:reply", 1, 1), ("2:reply", 1, 1), ("1:reply", 2, 1), ("2:read", 7, 1))


def test_answers_belong_to_the_request_of_the_other_side_with_equal_fields(tmp_path: Path) -> None:
    path = capture(tmp_path / "a.pcapng", *SAID)
    names = ("frame.number", "ibdissect.request_frame", "ibdissect.response_frame", "ibdissect.response_time")
    words = [word for name in names for word in ("-e", name)]
    done = commands.run("show", "--plugin", PLUGIN, path, "-Y", "ibdissect.request_frame or ibdissect.response_frame", *words, text=True)
    assert [line.split("\t") for line in done.stdout.splitlines()] == [
        ["1", "", "4", ""], ["2", "", "3", ""], ["3", "2", "", "0.003000000"], ["4", "1", "", "0.005000000"],
    ]  # fmt: skip
    slow = commands.run("show", "--plugin", PLUGIN, path, "-Y", "ibdissect.response_time > 0.004", "-e", "frame.number", text=True)
    assert slow.stdout == "4\n"


def test_answers_of_several_protocols_are_in_order(tmp_path: Path) -> None:
    answers = AnswerFrames()
    with open_reading(capture(tmp_path / "a.pcapng", *SAID), catalog=load([PLUGIN]).catalog) as reading:
        for table in reading.tables():
            answers.feed(table)
            answers._add(answers._rows[:0])
    late = answers._rows[: len(answers)][::-1][:1].copy()
    late[0, 0] = 2
    answers._add(late)
    assert answers._rows[: len(answers), 0].tolist() == [2, 3, 4]

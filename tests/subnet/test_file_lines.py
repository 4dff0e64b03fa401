"""Numbers of lines precede all frames, stay in order, and come back as file and line."""

from __future__ import annotations

from ibdissect.subnet.file_lines import KnownFile, doubtful, file_and_line, is_doubtful, line_number, place_text


def test_numbers_of_lines() -> None:
    places = [(0, 0), (0, 1), (0, 70000), (1, 0), (3, 12)]
    numbers = [line_number(file, line) for file, line in places]
    assert numbers == sorted(numbers)
    assert numbers[-1] < 0
    assert [file_and_line(number) for number in numbers] == places
    assert [file_and_line(doubtful(number)) for number in numbers] == places
    assert [is_doubtful(number) for number in (numbers[1], doubtful(numbers[1]), 7)] == [False, True, False]
    files = [KnownFile("a", 0), KnownFile("b", 0)]
    assert [place_text(line_number(1, line), files) for line in (0, 9)] == ["b", "b:9"]


def test_the_last_lines_and_frames() -> None:
    """What is beyond the last line that has a number counts as that line; frames of the capture are never doubtful."""
    last = (1 << 31) - 1
    assert [file_and_line(line_number(2, line)) for line in (last - 1, last, last + 1)] == [(2, last - 1), (2, last), (2, last)]
    assert not is_doubtful(line_number(2, last + 1)) and line_number(2, last + 1) < line_number(3, 0) < 0
    assert [is_doubtful(frame) for frame in (0, 1, 1 << 31, (1 << 31) + 5, doubtful(line_number(0, 0)))] == [False] * 4 + [True]

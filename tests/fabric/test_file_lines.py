"""Do numbers of lines precede all frames, stay in order, and come back as file and line?"""

from __future__ import annotations

from ibdissect.fabric.file_lines import KnownFile, doubtful, file_and_line, is_doubtful, line_number, place_text


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

"""Sentences about several ports become one, and only those."""

from __future__ import annotations

from ibdissect.report.joined_sentences import alike
from tests.cases import every

EMPTY = "Set(P_KeyTable) from LID 1 to {}: entry 0 is empty"


def texts(*sentences: str) -> list[tuple[str, list[str]]]:
    return [(one.text, one.names) for one in alike(sentences)]


@every(
    ("names", "noun"),
    [
        ([f"node{i:02} HCA-1 port 1" for i in (1, 2, 11, 12)], "ports"),
        ([f"node{i} HCA-{i} port {i} (LID {i})" for i in (1, 2, 11, 12)], "ports"),
        (["leaf00 (LID 2)", "leaf01 (LID 4)", "spine3 (LID 12)", "host9 mlx5_0 port 1 (LID 5)"], "ports"),
        ([f"LID {i}" for i in (6, 7, 12, 17)], "ports"),
        ([f"0x0002c9030000{i}050 port 1" for i in (1, 2, 3, 4)], "ports"),
        ([f"QP 0x{number:06x}" for number in (0x31, 0x40, 0x41, 0x107)], "queue pairs"),
        (["leaf00", "leaf01", "spine", "top"], "nodes"),
    ],
)
def test_one_sentence_with_the_ports(names: list[str], noun: str) -> None:
    assert texts(*map(EMPTY.format, names)) == [(EMPTY.format(f"each of 4 {noun}"), names)]
    for behind in ("{} counts 3 violations, 0 before", "the lease of {} (12 s) ran out 12.2 s after a request"):
        assert texts(*map(behind.format, names)) == [(behind.format(f"each of 4 {noun}"), names)]


def test_fewer_stay_apart() -> None:
    few = [EMPTY.format(f"LID {i}") for i in range(1, 4)]
    assert texts(*few) == [(one, []) for one in few]


def test_equal_sentences_are_one() -> None:
    a, b = EMPTY.format("LID 1"), "another sentence about the thing"
    (first, second) = alike([a, b, a, a, b])
    assert (first.text, first.places, second.text, second.places) == (a, [[0, 2, 3]], b, [[1, 4]])


def test_equal_sentences_about_a_port_stay_with_it() -> None:
    names = [f"LID {i}" for i in (3, 1, 2, 9)]
    (one,) = alike([EMPTY.format(name) for name in (*names, names[1])])
    assert (one.names, one.places) == (names, [[0], [1, 4], [2], [3]])


@every(
    "pattern",
    [
        "the NAK for PSN {}: the sequence is wrong",
        "a packet of {} bytes of payload was lost",
        "at {}.5 s the port was down",
        "mask 0x{} of the node is wrong",
        "{} differ here",
        "the key of port {0} is {0} now, and was 5",
    ],
)
def test_numbers_are_no_ports(pattern: str) -> None:
    sentences = [pattern.format(i) for i in (11, 12, 13, 14)]
    assert texts(*sentences) == [(one, []) for one in sentences]


def test_two_differences_are_no_list() -> None:
    sentences = [f"LID {i} counts {i + 3} violations, and LID {i + 1} none" for i in range(1, 6)]
    assert texts(*sentences) == [(one, []) for one in sentences]


def test_a_count_behind_names_of_several_words_is_no_part_of_them() -> None:
    names = ("leaf00 (LID 2)", "node0 HCA-1 port 1 (LID 1)", "spine00 (LID 13)", "host9 mlx5_0 port 1 (LID 5)")
    sentences = [f"{name} counts {i + 3} M_Key violations, up from 0" for i, name in enumerate(names)]
    assert texts(*sentences) == [(one, []) for one in sentences]


def test_two_lists_of_a_rule() -> None:
    sentences = [f"{what} from LID 7 to LID {i}: the counters start anew" for i in range(1, 6) for what in ("Set(A)", "Set(B)")]
    names = [f"LID {i}" for i in range(1, 6)]
    assert texts(*sentences) == [(f"Set({what}) from LID 7 to each of 5 ports: the counters start anew", names) for what in "AB"]

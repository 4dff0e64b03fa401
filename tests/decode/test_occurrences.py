"""Places of structures are merged in frame order, and picked."""

import numpy as np

from ibdissect.decode.occurrences import NONE, Occurrences, merged


def made(*places: tuple[int, int, int]) -> Occurrences:
    return Occurrences(*np.array(places, np.int64).reshape(-1, 3).T)


def test_merged_places_are_in_frame_order() -> None:
    found = merged([made((0, 8, 9), (2, 40, 44)), NONE, made((0, 4, 8), (1, 20, 30))])
    assert list(zip(found.rows.tolist(), found.at.tolist(), found.stop.tolist(), strict=True)) == [
        (0, 4, 8), (0, 8, 9), (1, 20, 30), (2, 40, 44),
    ]  # fmt: skip
    assert found.pick(found.at > 8).rows.tolist() == [1, 2]
    assert len(merged([NONE, made()])) == 0


def test_one_part_is_that_part_and_none_is_nothing() -> None:
    one = made((3, 4, 5))
    assert merged([NONE, one]) is one and merged([]) is NONE and merged([NONE]) is NONE and len(one) == 1

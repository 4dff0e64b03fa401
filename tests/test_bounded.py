"""A bounded dict evicts the oldest key, counts that, and stays fast after many evictions; others refuse what is too much."""

from __future__ import annotations

from ibdissect.bounded import BoundedDict, Dropped, KeptDict, KeptList


def test_the_oldest_key_makes_room_and_is_counted() -> None:
    dropped = Dropped("names")
    known = BoundedDict[str, int](2, dropped)
    assert known.put("a", 1, 10, 100) is None and known.put("b", 2, 11, 110) is None
    assert known.put("a", 3, 12, 120) is None, "a known key needs no room"
    assert known.put("c", 4, 13, 130) == ("a", 3)
    assert known.put("d", 5, 14, 140) == ("b", 2)
    assert dict(known) == {"c": 4, "d": 5}
    assert (dropped.count, dropped.frame, dropped.time_ns) == (2, 13, 130)


def test_a_key_that_came_again_is_as_young_as_its_return() -> None:
    known = BoundedDict[str, int](2)
    known.put("a", 1)
    known.put("b", 2)
    known.pop("a")
    known.put("a", 3)
    assert known.put("c", 4) == ("b", 2)


def test_entries_without_room_are_counted_and_not_stored() -> None:
    dropped = Dropped("names")
    names, ages = KeptList[str](1, dropped), KeptDict[str, int](1, dropped)
    for frame, name in enumerate(("a", "b"), 1):
        names.keep(name, frame, 10 * frame)
        ages.keep(name, frame, frame, 10 * frame)
    ages.keep("a", 3, 3, 30)
    assert names == ["a"] and ages == {"a": 3} and (dropped.count, dropped.frame) == (2, 2)


def test_what_was_never_kept_is_lacked_for_sure_until_something_had_no_room() -> None:
    known = KeptDict[str, int](1, "names")
    known.keep("a", 1, 1, 10)
    assert not known.surely_lacks("a") and known.surely_lacks("b")
    known.keep("b", 2, 2, 20)
    assert not known.surely_lacks("a") and not known.surely_lacks("b") and not known.surely_lacks("c")


def test_a_value_is_made_once_and_only_if_there_is_room() -> None:
    known = KeptDict[str, list[int]](1, "names")
    first = known.get_or_make("a", list, 1, 10)
    assert first is not None and known.get_or_make("a", list, 2, 20) is first
    assert known.get_or_make("b", list, 3, 30) is None and (known.dropped.what, known.dropped.count, known.dropped.frame) == ("names", 1, 3)

"""Do records behave like the dataclasses they stand for?"""

from __future__ import annotations

import copy
import pickle
from dataclasses import field, replace

import pytest

from ibdissect.record import record


@record
class Point:
    x: int
    y: int = 2


@record
class Named(Point):
    name: str = "n"
    tags: list[str] = field(default_factory=list)


@record(eq=True)
class Key:
    part: int
    secret: int = field(default=7, repr=False)
    side: int = field(kw_only=True, default=0)


@record(eq=True, frozen=False, kw_only=True)
class Counter:
    count: int = 0


def test_arguments_and_defaults() -> None:
    assert [Point(1).x, Point(1).y, Point(x=3, y=4).y] == [1, 2, 4]
    named = Named(1, name="m")
    assert (named.x, named.y, named.name, named.tags) == (1, 2, "m", [])
    assert Named(1).tags is not Named(1).tags
    for wrong in (lambda: Point(), lambda: Point(1, 2, 3), lambda: Counter(1)):  # type: ignore[call-arg]
        with pytest.raises(TypeError):
            wrong()


def test_a_subclass_may_come_first() -> None:
    """The first instance of each class writes its own `__init__`, not that of its base."""

    @record
    class Base:
        a: int

    @record
    class Derived(Base):
        b: int

    assert (Derived(1, 2).b, Base(3).a, Derived(4, 5).a) == (2, 3, 4)


def test_slots() -> None:
    with pytest.raises(AttributeError):
        Point(1).z = 3  # type: ignore[attr-defined]
    assert not hasattr(Point(1), "__dict__")


def test_equality() -> None:
    assert Key(1) == Key(1) != Key(1, side=2) and len({Key(1), Key(1)}) == 1
    assert Point(1) != Point(1)
    counter = Counter()
    counter.count += 1
    assert counter == Counter(count=1)
    with pytest.raises(TypeError):
        hash(counter)


def test_repr_hides_what_it_should() -> None:
    assert repr(Named(1)) == "Named(x=1, y=2, name='n', tags=[])"
    assert repr(Key(1)) == "Key(part=1, side=0)"


def test_copies() -> None:
    assert replace(Key(1), side=3) == Key(1, side=3)
    assert pickle.loads(pickle.dumps(Key(4, side=5))) == copy.copy(Key(4, side=5)) == Key(4, side=5)


def test_matching() -> None:
    match Point(1, 5):
        case Point(x, y):
            assert (x, y) == (1, 5)

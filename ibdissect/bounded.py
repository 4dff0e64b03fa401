"""Bounded containers for state that grows with a capture: they evict the oldest entry or take no more, and count that in `dropped`."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, ClassVar, TypeVar

from msgspec import Struct as Record

BUDGET = 3 << 30
"""Most bytes of all state of a check, if all its bounds are reached at once. tests/test_budget.py adds up the shares."""
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Dropped(Record, eq=False):
    """How many entries of one kind were evicted or not stored; rule CAP016 reports it.

    A class with a limit has one, or a tuple of them, as its attribute `dropped`, or a container of this module, which has its own.
    """

    ever: ClassVar[bool] = False
    """Whether anything was ever dropped in this process; if not, nobody has to search."""
    what: str
    """What there were too many of, in the plural."""
    count: int = 0
    frame: int = 0
    """Frame of the first eviction."""
    time_ns: int = 0

    def add(self, frame: int, time_ns: int, count: int = 1) -> None:
        if not self.count:
            self.frame, self.time_ns = frame, time_ns
        self.count += count
        Dropped.ever = True


class BoundedDict(OrderedDict[K, V]):
    """At most `limit` keys in order of arrival; `put` evicts the oldest key to make room.

    A plain dict would be slow: finding its oldest key walks over all deleted entries at its front.
    """

    def __init__(self, limit: int, dropped: Dropped | str = "") -> None:
        """`dropped` counts evictions, or says in words what the entries are; by default, evictions are not counted."""
        super().__init__()
        self.limit, self.dropped = limit, _counted(dropped) if dropped else None

    def put(self, key: K, value: V, frame: int = 0, time_ns: int = 0) -> tuple[K, V] | None:
        """Set a key; a known key keeps its place. `frame` and `time_ns` say when. Return the evicted item, or None."""
        gone = None
        if len(self) >= self.limit and key not in self:
            gone = self.popitem(last=False)
            if self.dropped is not None:
                self.dropped.add(frame, time_ns)
        self[key] = value
        return gone


class KeptDict(dict[K, V]):
    """At most `limit` keys: further ones are not stored, but counted in `dropped`."""

    def __init__(self, limit: int, dropped: Dropped | str) -> None:
        super().__init__()
        self.limit, self.dropped = limit, _counted(dropped)

    def keep(self, key: K, value: V, frame: int, time_ns: int) -> None:
        """Set a key if there is room; `frame` and `time_ns` say when."""
        if key in self or len(self) < self.limit:
            self[key] = value
        else:
            self.dropped.add(frame, time_ns)

    def surely_lacks(self, key: K) -> bool:
        """Whether a key was never to be kept; after one was dropped, nobody knows that."""
        return key not in self and not self.dropped.count

    def get_or_make(self, key: K, make: Callable[[], V], frame: int, time_ns: int, count: int = 1) -> V | None:
        """The value of a key, made if it is missing; None if there is no room for it, which counts as `count` dropped entries."""
        if key not in self:
            if len(self) >= self.limit:
                self.dropped.add(frame, time_ns, count)
                return None
            self[key] = make()
        return self[key]


class KeptList(list[V]):
    """At most `limit` entries, like `KeptDict`."""

    def __init__(self, limit: int, dropped: Dropped | str) -> None:
        super().__init__()
        self.limit, self.dropped = limit, _counted(dropped)

    def keep(self, value: V, frame: int, time_ns: int) -> None:
        """Append an entry if there is room; `frame` and `time_ns` say when."""
        if len(self) < self.limit:
            self.append(value)
        else:
            self.dropped.add(frame, time_ns)


class ByteLimit:
    """Counts the bytes that the entries of some dicts take together; above `limit`, it clears all of them."""

    def __init__(self, limit: int, *waiting: dict[Any, Any]) -> None:
        self.limit, self.waiting, self.size = limit, list(waiting), 0

    def add(self, size: int) -> None:
        """Count more bytes, or with a negative number fewer."""
        self.size += size
        if self.size > self.limit:
            self.size = 0
            for one in self.waiting:
                one.clear()


def dropped_of(state: object) -> list[Dropped]:
    """What a state counts: in its attribute `dropped`, one or a tuple, and in the containers it has as attributes."""
    found: list[Dropped] = []
    for one in (state, *getattr(state, "__dict__", {}).values()):
        if one is state or isinstance(one, (BoundedDict, KeptDict, KeptList)):
            counters = getattr(one, "dropped", None)
            if counters is not None:
                found += [each for each in (counters if isinstance(counters, tuple) else (counters,)) if isinstance(each, Dropped)]
    return found


def _counted(dropped: Dropped | str) -> Dropped:
    return Dropped(dropped) if isinstance(dropped, str) else dropped

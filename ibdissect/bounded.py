"""How does a dict that grows with a capture stay small? It evicts its oldest key and counts that in `dropped`."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import TypeVar

from ibdissect.dropped import Dropped

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BoundedDict(OrderedDict[K, V]):
    """At most `limit` keys in order of arrival; `put` evicts the oldest key to make room.

    A plain dict would be slow: finding its oldest key walks over all deleted entries at its front.
    """

    def __init__(self, limit: int, dropped: Dropped | None = None) -> None:
        super().__init__()
        self.limit, self.dropped = limit, dropped

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
    """At most `limit` keys: one that finds no room is not taken in, and counted in `dropped`."""

    def __init__(self, limit: int, dropped: Dropped) -> None:
        super().__init__()
        self.limit, self.dropped = limit, dropped

    def keep(self, key: K, value: V, frame: int, time_ns: int) -> None:
        """Set a key if there is room; `frame` and `time_ns` say when."""
        if key in self or len(self) < self.limit:
            self[key] = value
        else:
            self.dropped.add(frame, time_ns)


class KeptList(list[V]):
    """At most `limit` entries, like `KeptDict`."""

    def __init__(self, limit: int, dropped: Dropped) -> None:
        super().__init__()
        self.limit, self.dropped = limit, dropped

    def keep(self, value: V, frame: int, time_ns: int) -> None:
        """Append an entry if there is room; `frame` and `time_ns` say when."""
        if len(self) < self.limit:
            self.append(value)
        else:
            self.dropped.add(frame, time_ns)

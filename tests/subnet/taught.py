"""What a capture teaches: the subnet as it is known at its end, what rules were told on the way, and what `fabric` lists as events."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ibdissect.subnet import FabricFollower, events
from ibdissect.subnet.changes import ChangeLog
from ibdissect.subnet.describe import describe
from ibdissect.subnet.topology import links
from tests.craft import erf_pcap
from tests.decode.made import tables_of

EVENTS = {name: kind for name, kind in vars(events).items() if isinstance(kind, type) and issubclass(kind, events.FabricEvent)}
"""As docs/plugin-words.md lists them for rules."""


class Taught:
    """All that is learnt from captures that are read one after the other."""

    def __init__(self, handled: Iterable[str] | None = None) -> None:
        """`handled`: the events that any rule handles; all, if it is not said."""
        self.follower, self._log = FabricFollower(), ChangeLog()
        if handled is not None:
            self.follower.emit_only([EVENTS[name] for name in handled])
        self.events = list[Any]()
        """What rules are told, in order."""

    @property
    def subnet(self) -> Any:
        return self.follower.subnet

    def read(self, capture: bytes | str | Path | Iterable[bytes], window: int = 1 << 20) -> Taught:
        """Learn from a capture, or from some frames, 1 ms apart."""
        for table in tables_of(capture if isinstance(capture, bytes | str | Path) else erf_pcap(capture), window):
            for event in self.follower.feed(table):
                self.events.append(event)
                self._log.take(event)
        return self

    def told(self, *names: str) -> list[Any]:
        """The events of some kinds, by their names in docs/plugin-words.md."""
        assert {*names} <= EVENTS.keys()
        return [event for event in self.events if type(event).__name__ in names]

    @property
    def changes(self) -> list[Any]:
        """What `fabric` lists as events."""
        return self._log.happened

    @property
    def forgotten(self) -> int:
        """How many changes there was no room for."""
        return self._log.happened.dropped.count

    @property
    def cables(self) -> list[tuple[Any, Any]]:
        return [*links(self.subnet)]

    @property
    def node(self) -> Any:
        """The only node."""
        (found,) = self.subnet.slots.values()
        return found

    def port(self, lid: int) -> Any:
        """Who has a LID now."""
        found = self.subnet.by_lid(lid)
        assert found is not None
        return found

    def described(self, text: Callable[[str, int], str | None] = lambda kind, value: None) -> dict[str, Any]:
        """What `fabric --format json` prints; keys as `text` says, else as numbers."""
        return describe(self.subnet, text)


def taught(*frames: bytes, window: int = 1 << 20) -> Taught:
    """What some frames teach."""
    return Taught().read(frames, window)

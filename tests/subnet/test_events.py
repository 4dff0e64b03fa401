"""Every event names the follower that emits it, so that the engine feeds it."""

from __future__ import annotations

from ibdissect.subnet import FabricFollower, events
from ibdissect.subnet.events import FabricEvent


def test_every_event_has_its_source() -> None:
    kinds = [kind for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, FabricEvent)]
    assert len(kinds) > 10 and {kind.source for kind in kinds} == {FabricFollower}

"""Subscriptions beyond those that are remembered are taken for ones that may still be in force."""

from __future__ import annotations

import pytest

from ibdissect.rules.SA import refused_requests
from tests.rules.findings import lint
from tests.rules.SA.cases import REFUSING, gsi_subscription


@pytest.mark.parametrize(("room", "found"), [(1, []), (2, ["SA020"])])
def test_subscriptions_beyond_the_bound(room: int, found: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two subscriptions both end, or only the one that was remembered is seen to."""
    monkeypatch.setattr(refused_requests, "MAX_TRAPS", room)
    begun = [*gsi_subscription(1, 6), *gsi_subscription(1, 7, 128)]
    ended = [*gsi_subscription(0, 8), *(gsi_subscription(0, 9, 128) if room == 2 else [])]
    assert [one.code for one in lint([*begun, *ended, *REFUSING], "SA020", step_ns=1_000_000_000)] == found

"""What becomes of subscriptions and requests beyond those that are remembered: they may be in force, and unanswered."""

from __future__ import annotations

import pytest

from ibdissect.mad import transactions
from ibdissect.rules.SA import refused_requests
from tests.rules.findings import lint
from tests.rules.SA.cases import LATE, REFUSING, SERVES, TRUSTED, gsi_sa, gsi_subscription
from tests.subnet.made import GET


@pytest.mark.parametrize(("room", "found"), [(1, []), (2, ["SA020"])])
def test_subscriptions_beyond_the_bound(room: int, found: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two subscriptions both end, or only the one that was remembered is seen to."""
    monkeypatch.setattr(refused_requests, "MAX_TRAPS", room)
    begun = [*gsi_subscription(1, 6), *gsi_subscription(1, 7, 128)]
    ended = [*gsi_subscription(0, 8), *(gsi_subscription(0, 9, 128) if room == 2 else [])]
    assert [one.code for one in lint([*begun, *ended, *REFUSING], "SA020", step_ns=1_000_000_000)] == found


@pytest.mark.parametrize(("room", "before", "found"), [(9, TRUSTED, ["SA006"] * 2), (9, [], []), (0, [], []), (0, TRUSTED, [])])
def test_what_was_given_up_and_not_kept_was_not_answered(
    room: int, before: list[bytes], found: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request with a third key is followed by another one of its transaction: that the SA took the key is not known."""
    monkeypatch.setattr(transactions, "MAX_GIVEN_UP", room)
    third = [gsi_sa(GET, attribute, mask=1, key=7, transaction=9) for attribute in range(0x31, 0x3B)]
    assert [one.code for one in lint([*before, *third, LATE, *SERVES], "SA006", step_ns=1_000_000_000)] == found

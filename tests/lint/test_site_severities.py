"""The severity that a finding gets where a site gave one to its rule."""

from __future__ import annotations

import pytest

from ibdissect.lint.finding import Severity
from ibdissect.lint.rule import REGISTRY
from ibdissect.lint.site_severities import severity_at_site, site_severities
from ibdissect.rules import load

load()
PKY001, PKY013 = REGISTRY["PKY001"], REGISTRY["PKY013"]


@pytest.mark.parametrize("given", [{"PKY": "info", "PKY001": "warning"}, {"PKY001": "warning", "PKY": "info"}])
def test_the_longer_prefix_wins(given: dict[str, str]) -> None:
    assert site_severities(given, [PKY001, PKY013]) == {"PKY001": Severity.WARNING, "PKY013": Severity.INFO}


def test_a_finding_that_its_rule_lowered_stays_lower() -> None:
    """Unless the site gave the rule an even lower one; a site that raises a rule does not raise what the rule doubts."""
    error, warning, info = Severity.ERROR, Severity.WARNING, Severity.INFO
    assert PKY001.severity == error
    assert severity_at_site(PKY001, None, {}) == error
    assert severity_at_site(PKY001, None, {"PKY001": warning}) == warning
    assert severity_at_site(PKY001, warning, {"PKY001": error}) == warning
    assert severity_at_site(PKY001, warning, {"PKY001": info}) == info
    assert severity_at_site(PKY001, warning, {"PKY001": warning}) == warning
    assert severity_at_site(PKY001, info, {"PKY001": warning}) == info

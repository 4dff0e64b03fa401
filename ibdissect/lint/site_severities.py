"""Severities that a site gives to rules in its configuration, `[severity]`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .finding import Severity
from .rule import Rule
from .rule_selection import matches


def site_severities(given: Mapping[str, str], rules: Iterable[type[Rule]]) -> dict[str, Severity]:
    """The severity of each rule for which `given`, severities by code, prefix or name, has one; the longer prefix wins."""
    ordered, every = sorted(given.items(), key=lambda item: len(item[0])), list(rules)
    return {rule.code: Severity(name) for code, name in ordered for rule in every if matches(rule, code)}


def severity_at_site(rule: Rule | type[Rule], own: Severity | None, of_site: Mapping[str, Severity]) -> Severity:
    """The severity of a finding. `own`: that which its rule gave to this one, which may be lower than what it or the site gives to all."""
    given = of_site.get(rule.code, rule.severity)
    return own if own is not None and own.rank < min(rule.severity.rank, given.rank) else given

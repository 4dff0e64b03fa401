"""Selection of rules by codes, prefixes and names from the command line or a configuration file."""

from __future__ import annotations

from collections.abc import Iterable

from ibdissect.errors import ConfigError, nearest
from ibdissect.moved import rule_name

from .rule import Rule, family


def split_codes(texts: str | Iterable[str]) -> list[str]:
    """Codes from a text, or from several; each may hold several separated by commas."""
    return [code.strip() for text in ([texts] if isinstance(texts, str) else texts) for code in text.split(",") if code.strip()]


def select(
    rules: Iterable[type[Rule]], chosen: Iterable[str] = (), ignored: Iterable[str] = (), *, crc: bool = True, source: str = "--select"
) -> list[type[Rule]]:
    """Rules whose code starts with (or whose name is) one of `chosen` (all if empty), without those of `ignored`.

    The longer prefix wins: `--select PKY --ignore PKY006`, but also `--ignore PKY --select PKY001`. Raises ConfigError for
    a code or name that no rule has.
    """
    known = list(rules)
    wanted, unwanted = [*dict.fromkeys(chosen)], [*dict.fromkeys(ignored)]
    for option, codes in ((source, wanted), (source.replace("select", "ignore"), unwanted)):
        for code in codes:
            if not any(matches(rule, code) for rule in known):
                raise ConfigError(option, code, "no rule has this code or name", hint=nearest_rule(code, known))
    if not wanted and not unwanted:
        return [rule for rule in known if crc or not rule.needs_crc]
    result = []
    for rule in known:
        chosen_by = max((len(code) for code in wanted if matches(rule, code)), default=0 if not wanted else -1)
        ignored_by = max((len(code) for code in unwanted if matches(rule, code)), default=-1)
        if chosen_by > ignored_by and (crc or not rule.needs_crc):
            result.append(rule)
    return result


def causes_of(
    chosen: Iterable[type[Rule]], rules: Iterable[type[Rule]], ignored: Iterable[str] = (), *, crc: bool = True
) -> list[type[Rule]]:
    """Rules that were not chosen, but explain what chosen ones find, directly or over others; without those of `ignored`.

    They run unseen, so that a rule finds the same alone as among all.
    """
    known, unwanted = [rule for rule in rules if crc or not rule.needs_crc], [*ignored]
    here, found = {rule.code for rule in chosen}, list[type[Rule]]()
    while more := _explaining(known, here):
        here |= {rule.code for rule in more}
        found += [rule for rule in more if not any(matches(rule, code) for code in unwanted)]
    return found


def _explaining(known: Iterable[type[Rule]], here: set[str]) -> list[type[Rule]]:
    """Rules that explain what some others find, without these."""
    named = {*here, *map(family, here)}
    return [rule for rule in known if rule.code not in here and not named.isdisjoint(rule.explains)]


def matches(rule: type[Rule], code: str) -> bool:
    return rule.code.startswith(code.upper()) or rule.name in (code, rule_name(code))


def nearest_rule(code: str, known: Iterable[type[Rule]]) -> str:
    """A hint for a code or name that no rule has."""
    names = [name for rule in known for name in (rule.code, rule.name)]
    return nearest(code.upper(), names, "") or nearest(code, names, "`ibdissect rules` lists them")

"""Settings of rules: thresholds that depend on the site, with their types, defaults and bounds."""

from __future__ import annotations

from typing import Any, Generic, TypeVar, overload

from msgspec import Struct as Record

from ibdissect.errors import ConfigError, nearest

from .rule import Rule

N = TypeVar("N", int, float)


MOST = 9e9
"""The largest value of all settings: as many seconds are a number of nanoseconds in 64 bits."""


class Setting(Record, Generic[N], eq=False):
    """A number that a rule depends on: declare it in the class, read it as `self.NAME` in handlers (not in `__init__`)."""

    default: N
    meaning: str
    """A noun phrase with the unit."""
    minimum: N
    name: str = ""

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self.name = name

    @overload
    def __get__(self, rule: None, owner: type[Any]) -> Setting[N]: ...
    @overload
    def __get__(self, rule: object, owner: type[Any]) -> N: ...
    def __get__(self, rule: object | None, owner: type[Any]) -> N | Setting[N]:
        """The default. A configured value is in the rule's own dictionary, which takes precedence."""
        return self if rule is None else self.default

    @property
    def key(self) -> str:
        """The name in a configuration file."""
        return self.name.replace("_", "-")

    def checked(self, value: Any, where: str, key: str) -> N:
        """A value from a configuration file. Raises ConfigError if its type is wrong or it is too small."""
        kind = type(self.default)
        if isinstance(value, bool) or not isinstance(value, (int, kind)):
            raise ConfigError(where, key, f"must be {'a whole number' if kind is int else 'a number'}, not {value!r} ({self.meaning})")
        if not self.minimum <= value <= MOST:  # also rejects NaN
            raise ConfigError(where, key, f"must be at least {self.minimum} and at most {MOST:.0e}, not {value!r} ({self.meaning})")
        return kind(value)


def settings_of(rule: type[Rule]) -> dict[str, Setting[Any]]:
    """A rule's settings by their name in a configuration file."""
    found = {name: getattr(rule, name) for name in dir(rule)}
    return {value.key: value for _, value in sorted(found.items()) if isinstance(value, Setting)}


def checked_settings(table: Any, rules: dict[str, type[Rule]], where: str) -> dict[str, dict[str, Any]]:
    """Values by rule code and attribute, from a table code (or name) -> key -> value. ConfigError suggests the nearest known key."""
    by_name = {rule.name: rule for rule in rules.values()}
    result: dict[str, dict[str, Any]] = {}
    for code, values in table.items():
        key = f"options.{code}"
        rule = rules.get(code.upper()) or by_name.get(code)
        known = settings_of(rule) if rule is not None else {}
        if rule is None:
            codes = f"known are {', '.join(sorted(rules)[:12])}"
            raise ConfigError(where, key, "no rule has this code or name", hint=nearest(code.upper(), rules, codes))
        lower = {one.lower(): one for one in known}
        if not known:
            having = [one.code for one in rules.values() if settings_of(one)]
            raise ConfigError(where, key, "this rule has no options", hint=f"rules with options: {', '.join(having)}")
        for given, value in values.items():
            name = lower.get(given.lower(), given)
            if name not in known:
                raise ConfigError(where, f"{key}.{name}", "there is no such option", hint=nearest(name, known))
            result.setdefault(rule.code, {})[known[name].name] = known[name].checked(value, where, f"{key}.{name}")
    return result

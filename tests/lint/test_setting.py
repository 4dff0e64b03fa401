"""Rule options are checked for type, bounds and name, and every rule with options uses them."""

from __future__ import annotations

from typing import Any

import pytest

from ibdissect.errors import ConfigError
from ibdissect.lint.setting import checked_settings
from ibdissect.rules import load
from ibdissect.words import Setting
from tests.cases import every
from tests.rules.pages import pages

RULES = {rule.code: rule for rule in load()}


def test_defaults_keep_their_own_bounds_and_can_be_changed() -> None:
    """Those that `rules` names; each belongs to one rule and is told with its meaning."""
    told = {code: one["options"] for code, one in pages().items() if one["options"]}
    assert len(told) > 5
    for code, options in told.items():
        for key, said in options.items():
            assert said["minimum"] <= said["default"] and said["meaning"]
            one, other = RULES[code](), RULES[code]()
            for value in (said["default"], said["default"] + 1):
                changed = checked_settings({code: {key: value}}, RULES, "file")[code]
                assert [*changed.values()] == [value]
            vars(one).update(changed)
            assert [getattr(each, *changed) for each in (one, other)] == [said["default"] + 1, said["default"]]


@every(
    ("table", "key", "said"),
    [
        ({"TXN1": {}}, "options.TXN1", "did you mean TXN"), ({"PKY001": {}}, "options.PKY001", "no options"),
        ({"TXN001": {"patience": "1"}}, "options.TXN001.patience", "must be a number"),
        ({"TXN001": {"patience": True}}, "options.TXN001.patience", "must be a number"),
        ({"TXN001": {"patience": -1}}, "options.TXN001.patience", "at least 0"),
        ({"TXN001": {"patience": float("nan")}}, "options.TXN001.patience", "at least 0"),
        ({"TXN001": {"patience": float("inf")}}, "options.TXN001.patience", "at least 0"),
        ({"TXN001": {"patience": 9_000_000_001}}, "options.TXN001.patience", "at most 9e+09"),
        ({"MKY015": {"enough": 2.5}}, "options.MKY015.enough", "must be a whole number"),
        ({"MKY015": {"enuff": 2}}, "options.MKY015.enuff", "did you mean enough?"),
    ],
)  # fmt: skip
def test_mistakes_are_named(table: dict[str, Any], key: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        checked_settings(table, RULES, "x.toml")
    assert (caught.value.source, caught.value.key) == ("x.toml", key) and said in str(caught.value)


def test_a_rule_may_be_named_and_keys_have_hyphens() -> None:
    class Told:
        long_name = Setting(1.5, "seconds", 0.0)

    assert Told.long_name.key == "long-name" and Told().long_name == 1.5
    assert checked_settings({"request-unanswered": {"patience": 3}}, RULES, "f") == {"TXN001": {"patience": 3.0}}


@every(
    ("default", "value", "good"),
    [
        (5, 3, True), (5, 2, False), (5, 9_000_000_000, True), (5, 9_000_000_001, False), (5, True, False), (5, 3.0, False),
        (5, "3", False),
        (5.0, 3, True), (5.0, 3.5, True), (5.0, 2.999, False), (5.0, 9e9, True), (5.0, float("nan"), False), (5.0, float("inf"), False),
        (5.0, False, False),
    ],
)  # fmt: skip
def test_the_bounds_and_the_type_of_a_value(default: float, value: Any, good: bool) -> None:
    setting: Setting[Any] = Setting(default, "seconds", 3, "some_time")
    assert setting.key == "some-time"
    if good:
        assert setting.checked(value, "a.toml", "k") == value and type(setting.checked(value, "a.toml", "k")) is type(default)
        return
    with pytest.raises(ConfigError) as caught:
        setting.checked(value, "a.toml", "k")
    text = str(caught.value)
    assert "(seconds)" in text and (
        "at least 3 and at most 9e+09" in text or f"must be a {'whole ' * (default == 5 and type(default) is int)}number" in text
    )


def test_an_option_is_found_whatever_the_case_of_its_name() -> None:
    assert checked_settings({"TXN001": {"Patience": 3}}, RULES, "f") == {"TXN001": {"patience": 3.0}}


def test_an_unknown_code_comes_with_known_ones() -> None:
    """The first dozen, where none is near."""
    rules = {f"AAA{number:03d}": RULES["TXN001"] for number in range(20, 0, -1)}
    with pytest.raises(ConfigError) as caught:
        checked_settings({"zzzzzzzz": {}}, rules, "f")
    assert caught.value.hint == f"known are {', '.join(f'AAA{number:03d}' for number in range(1, 13))}"

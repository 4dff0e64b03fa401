"""Selection of rules by codes, prefixes and names."""

from __future__ import annotations

import pytest

from ibdissect.errors import ConfigError
from ibdissect.lint import rule_selection
from ibdissect.lint.rule_selection import causes_of, matches, select, split_codes
from ibdissect.rules import load
from ibdissect.words import Rule

RULES = load()


def codes(chosen: list[str], ignored: list[str]) -> set[str]:
    return {rule.code for rule in select(RULES, chosen, ignored)}


def test_all_without_choice() -> None:
    assert codes([], []) == {rule.code for rule in RULES}


def test_prefix_code_and_name() -> None:
    assert codes(["AM"], []) == {rule.code for rule in RULES if rule.code.startswith("AM")}
    assert codes(["am001", "portinfo-extspeed-bit"], []) == {"AM001", "AM009"}


def test_the_longer_prefix_wins() -> None:
    assert "AM001" not in codes(["AM"], ["AM001"]) and "AM009" in codes(["AM"], ["AM001"])
    assert codes(["AM001"], ["AM"]) == {"AM001"}


@pytest.mark.parametrize("ignored", ["AM001", "AM", "A", "am", "portinfo-extspeed-bit"])
def test_what_is_ignored_alone_leaves_all_others(ignored: str) -> None:
    gone = {rule.code for rule in RULES if rule.code.startswith(ignored.upper()) or rule.name == ignored}
    assert gone and codes([], [ignored]) == {rule.code for rule in RULES} - gone
    assert codes(["PKY"], [ignored]) == {rule.code for rule in RULES if rule.code.startswith("PKY")}
    assert codes([ignored], [ignored]) == set(), "equally long: what is ignored wins"


def test_no_crc_leaves_the_crc_rules_out() -> None:
    assert not any(rule.needs_crc for rule in select(RULES, crc=False))
    assert any(rule.needs_crc for rule in select(RULES))
    for chosen, ignored in ((["ROC"], []), (["ROC", "LNK"], ["LNK003"]), ([], ["AM"])):
        with_crc, without = (select(RULES, chosen, ignored, crc=crc) for crc in (True, False))
        assert without == [rule for rule in with_crc if not rule.needs_crc] and 0 < len(without) < len(with_crc)


def test_unknown_code_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean portinfo-extspeed-bit"):
        select(RULES, ["portinfo-extspead-bit"])


def test_codes_that_are_named_again_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A configuration can name one as often as it likes."""
    asked: list[str] = []

    def counted(rule: type[Rule], code: str) -> bool:
        asked.append(code)
        return matches(rule, code)

    monkeypatch.setattr(rule_selection, "matches", counted)
    assert codes(["AM001"] * 1000, ["AM002"] * 1000) == {"AM001"}
    assert len(asked) <= 4 * len(RULES)


def test_split() -> None:
    assert split_codes(["PKY, AM", "", "MKY001"]) == ["PKY", "AM", "MKY001"]


def test_what_explains_the_chosen_rules() -> None:
    """Directly, as a family, over others, and not where the checksums are not checked."""

    def causes(*chosen: str, ignored: tuple[str, ...] = (), crc: bool = True) -> set[str]:
        return {rule.code for rule in causes_of(select(RULES, chosen, crc=crc), RULES, ignored, crc=crc)}

    direct = {rule.code for rule in RULES if "TXN006" in rule.explains or "TXN" in rule.explains}
    assert "PM009" in direct and direct <= causes("TXN006")
    assert causes("TXN006", ignored=("PM009",)) == causes("TXN006") - {"PM009"}
    assert not causes("TXN006", "PM009") & {"TXN006", "PM009"} and not causes_of(RULES, RULES)
    assert {"MAD005", "MAD011"} <= causes("AM001"), "it explains its family"
    assert causes("BTH014") >= {rule.code for rule in RULES if "BTH014" in rule.explains}
    with_crc = {rule.code for rule in RULES if rule.needs_crc and "TXN001" in rule.explains}
    assert with_crc and with_crc <= causes("TXN001") and not with_crc & causes("TXN001", crc=False)


@pytest.mark.parametrize(
    ("chosen", "ignored", "left"),
    [
        (["AM00"], ["A", "AM001"], False), (["AM00"], ["AM001", "A"], False), (["AM00"], ["A", "AM"], True), (["A", "AM00"], ["AM"], True),
        (["AM00", "A"], ["AM"], True), (["A"], ["A"], False), ([], ["A", "AM00"], False),
    ],
)  # fmt: skip
def test_of_several_that_match_the_longest_counts(chosen: list[str], ignored: list[str], left: bool) -> None:
    assert ("AM001" in codes(chosen, ignored)) is left

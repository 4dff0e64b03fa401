"""Selection of rules by codes, prefixes and names."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

import ibdissect
from ibdissect.errors import ConfigError
from ibdissect.lint.rule_selection import select
from ibdissect.rules import load
from tests.cases import every
from tests.commands import run
from tests.craft import erf_pcap, flipped, gmp, sealed
from tests.subnet.made import answer, ask

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


@every("ignored", ["AM001", "AM", "A", "am", "portinfo-extspeed-bit"])
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


@pytest.mark.slow
def test_unknown_code_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean portinfo-extspeed-bit"):
        select(RULES, ["portinfo-extspead-bit"])


def test_codes_that_are_named_again_cost_nothing() -> None:
    """A configuration can name one as often as it likes."""
    asked = []

    class Counting(type):
        @property
        def code(cls) -> str:
            asked.append(cls)
            return "AM001"

    class Only(metaclass=Counting):
        name, needs_crc = "only", False

    rules: Any = [Only]
    for times in (1, 1000):
        assert select(rules, ["AM001"] * times, ["AM"] * times) == [Only]
    assert len(asked) > 0 and asked == asked[: len(asked) // 2] * 2 and len(asked) < 40


def found(frames: list[bytes], **chosen: Any) -> list[str]:
    with ibdissect.open(io.BytesIO(erf_pcap(frames))) as capture:
        return sorted({one.code for one in capture.lint(**chosen)})


UNKNOWN_METHOD = [gmp(4, 0x15, 0x12, slid=1, dlid=2), gmp(4, 0x81, 0x12, slid=2, dlid=1)]
"""PM009, and as its consequence TXN006."""


@pytest.mark.slow
def test_codes_may_stand_in_one_text() -> None:
    for chosen in ("PM009, TXN006", ["PM, TXN006"], ["", "TXN006", "pm009"]):
        assert found(UNKNOWN_METHOD, select=chosen) == ["PM009"]
    assert found(UNKNOWN_METHOD) == ["PM009"] and found(UNKNOWN_METHOD, ignore="PM009, TXN006") == []


@pytest.mark.slow
def test_what_explains_the_chosen_rules_runs_too() -> None:
    """And reports nothing: what it explains is not told either, unless that rule is ignored."""
    assert found(UNKNOWN_METHOD, select="TXN006") == []
    assert found(UNKNOWN_METHOD, select="TXN006", ignore="PM009") == ["TXN006"]
    assert found(UNKNOWN_METHOD, select="TXN006,PM009") == ["PM009"]


@pytest.mark.slow
def test_what_explains_a_family_or_what_explains_runs_too() -> None:
    """An answer of another attribute is no NodeInfo (MAD005), which explains all that is wrong in it."""
    header = {"transaction_id": 9}
    frames = [ask(2, 0x15, modifier=1, header=header), answer(2, 0x11, bytes(64), modifier=1, header=header)]
    assert found(frames, select="AM002") == found(frames, select="SEM032") == []
    assert found(frames, select="AM002,SEM032", ignore="MAD005") == ["AM002", "SEM032"]


def test_what_explains_runs_only_where_checksums_are_checked(tmp_path: Path) -> None:
    asked = [gmp(4, method, 0x12, slid=lid, dlid=3 - lid, header={"transaction_id": tid}) for method, lid, tid in (
        (1, 1, 1), (0x81, 2, 1), (1, 1, 2), (1, 1, 3), (0x81, 2, 3)
    )]  # fmt: skip
    asked[2] = sealed(flipped(asked[2], -22))
    (tmp_path / "x.pcap").write_bytes(erf_pcap(asked, step_ns=2_000_000_000))
    words = ("lint", str(tmp_path / "x.pcap"), "--select", "TXN001", "--format", "jsonl", "--infos")
    assert [run(*words, *more, text=True).stdout.count("TXN001") > 0 for more in ((), ("--no-crc",))] == [False, True]


@every(
    ("chosen", "ignored", "left"),
    [
        (["AM00"], ["A", "AM001"], False), (["AM00"], ["AM001", "A"], False), (["AM00"], ["A", "AM"], True), (["A", "AM00"], ["AM"], True),
        (["AM00", "A"], ["AM"], True), (["A"], ["A"], False), ([], ["A", "AM00"], False),
    ],
)  # fmt: skip
def test_of_several_that_match_the_longest_counts(chosen: list[str], ignored: list[str], left: bool) -> None:
    assert ("AM001" in codes(chosen, ignored)) is left

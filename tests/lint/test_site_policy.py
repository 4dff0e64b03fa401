"""A site policy is parsed correctly, rejected with a helpful reason, and never shown with its keys."""

from __future__ import annotations

import io
import pickle
from typing import Any

import pytest

from ibdissect.errors import ConfigError
from ibdissect.lint.finding import Finding
from ibdissect.lint.site_policy import SitePolicy, subnets_of
from ibdissect.pipeline.check import CheckOptions, check
from ibdissect.rules import load
from tests import craft
from tests.cases import every
from tests.subnet.made import SET, ask, port_info

LID, PREFIX = "LID", "GID prefix"

KEY = 0x1122334455667788


def test_all_of_it() -> None:
    policy = SitePolicy.of(
        {"partitions": [0x8001, "0x0002"], "no-partitions": 0xFFFF, "managers": [1, "0x0002c90300000001", "00:02:c9:03:00:00:00:02"],
         "m-keys": ["0x1122334455667788"], "lids": ["16-127", 3]}, "a.toml")  # fmt: skip
    assert policy.partitions == frozenset({1, 2}) and policy.no_partitions == frozenset({0x7FFF})
    assert policy.manager_lids == {1} and policy.manager_guids == {0x0002C90300000001, 0x0002C90300000002}
    assert policy.m_keys == {KEY}
    assert [policy.lid_allowed(lid) for lid in (3, 4, 16, 127, 128, 0, 0xC001, 0xFFFF)] == [
        True,
        False,
        True,
        True,
        False,
        True,
        True,
        True,
    ]
    assert [policy.partition_allowed(key) for key in (0x8001, 0x0001, 0x7FFF, 0x8003, 0x8000)] == [True, True, False, False, True]


def test_an_empty_policy_forbids_nothing() -> None:
    policy = SitePolicy.of({}, "a.toml")
    assert not policy and not policy.manages
    assert policy.partition_allowed(0xFFFF) and policy.lid_allowed(0xBFFF)


@every(
    ("table", "key", "words"),
    [
        ({"partition": [1]}, "site.partition", "did you mean partitions"),
        ({"zebra": 1}, "site.zebra", "known are"),
        ({"partitions": 0x10000}, "site.partitions", "outside"),
        ({"managers": ["host1"]}, "site.managers", "not a number"),
        ({"managers": [True]}, "site.managers", "not a number"),
        ({"lids": ["9-3"]}, "site.lids", "ends before"),
        ({"lids": [0xC000]}, "site.lids", "outside"),
        ({"lids": {"a": 1}}, "site.lids", "list"),
    ],
)
def test_refused(table: dict[str, Any], key: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        SitePolicy.of(table, "a.toml")
    assert caught.value.source == "a.toml" and caught.value.key == key
    assert words in str(caught.value)


@every(("key", "low", "high"), [
    ("partitions", 0, 0xFFFF), ("no-partitions", 0, 0xFFFF), ("managers", 1, (1 << 64) - 1), ("m-keys", 0, (1 << 64) - 1),
    ("lids", 1, 0xBFFF),
])  # fmt: skip
def test_the_first_and_last_number_of_each_key(key: str, low: int, high: int) -> None:
    """And those beside them, which are refused."""
    for number in (low, high):
        SitePolicy.of({key: number}, "a.toml")
    for number in (low - 1, high + 1):
        with pytest.raises(ConfigError, match="outside"):
            SitePolicy.of({key: number}, "a.toml")


def test_the_bounds_of_ranges_and_of_lids() -> None:
    found = SitePolicy.of({"lids": ["16-127", 200]}, "a.toml")
    assert [lid for lid in range(1, 300) if found.lid_allowed(lid)] == [*range(16, 128), 200]
    assert not found.lid_allowed(0xBFFF) and all(map(found.lid_allowed, (0, 0xC000, 0xFFFF)))
    assert SitePolicy.of({"lids": ["5-5"]}, "a.toml").lids == ((5, 5),)
    for bad in ("0-5", "5-0xc000"):
        with pytest.raises(ConfigError, match="outside"):
            SitePolicy.of({"lids": [bad]}, "a.toml")


def test_a_manager_is_a_lid_or_a_guid() -> None:
    found = SitePolicy.of({"managers": [1, 0xBFFF, 0xC000]}, "a.toml")
    assert (found.manager_lids, found.manager_guids) == ({1, 0xBFFF}, {0xC000}) and found.manages


def test_partitions_are_compared_without_their_membership() -> None:
    only, without = SitePolicy.of({"partitions": [0x8001]}, "a.toml"), SitePolicy.of({"no-partitions": [0x8001]}, "a.toml")
    for p_key, is_one in ((0x0001, True), (0x8001, True), (0x0002, False), (0x7FFF, False), (0x4001, False)):
        assert only.partition_allowed(p_key) is is_one and without.partition_allowed(p_key) is not is_one
    assert only.partition_allowed(0x8000) and only.partition_allowed(0)


@every(("key", "value", "good"), [
    ("interfaces", 0, True), ("interfaces", 0xFFFF, True), ("interfaces", 0x10000, False), ("interfaces", -1, False),
    ("prefixes", (1 << 64) - 1, True), ("prefixes", 1 << 64, False), ("lids", "1-0xbfff", True), ("lids", "1-0xc000", False),
])  # fmt: skip
def test_the_bounds_of_subnets(key: str, value: Any, good: bool) -> None:
    table = {"subnets": [{key: value}]}
    if good:
        assert subnets_of(table, "a.toml").expected
        return
    with pytest.raises(ConfigError, match="outside"):
        subnets_of(table, "a.toml")


def test_without_subnets_none_is_expected() -> None:
    assert not subnets_of({}, "a.toml").expected


def test_keys_are_never_shown() -> None:
    secret = "0x1122334455667788zz"
    with pytest.raises(ConfigError) as caught:
        SitePolicy.of({"m-keys": [secret]}, "a.toml")
    assert "1122" not in str(caught.value)
    assert str(KEY) not in repr(SitePolicy(m_keys=frozenset({KEY})))


def linted(policy: SitePolicy | None, show_keys: bool = False) -> list[Finding]:
    capture = craft.erf_pcap([ask(5, 0x15, method=SET, body=port_info(5, m_key=0x4142434445464748), m_key=0x4142434445464748)])
    options = CheckOptions(rules=[rule for rule in load() if rule.code.startswith("MKY0")], policy=policy, show_keys=show_keys)
    return check(io.BytesIO(capture), pickle.loads(pickle.dumps(options))).findings


@pytest.mark.slow
def test_findings_mask_keys_and_need_a_policy() -> None:
    with_policy = linted(SitePolicy(m_keys=frozenset({KEY})))
    assert {finding.code for finding in with_policy} == {"MKY002", "MKY005", "MKY013"}
    assert {finding.code for finding in linted(None)} == {"MKY005"}
    for finding in with_policy:
        assert "4142" not in finding.message and finding.value is None
    assert any("M_Key#1" in finding.message for finding in with_policy)
    assert any("0x4142434445464748" in finding.message for finding in linted(SitePolicy(m_keys=frozenset({KEY})), show_keys=True))


@every(
    ("subnets", "said"),
    [
        ({"lids": 1}, "site.subnets: must be tables"),
        ([{"lid": 1}], "site.subnets.lid: there is no such key"),
        ([{}], "site.subnets: a table names no addresses; known are interfaces"),
        ([{"lids": ["9-1"]}], "site.subnets.lids: the range '9-1' ends before it starts"),
        ([{"lids": "1-9"}, {"lids": 9}], "9 is in two subnets"),
        ([{"prefixes": "fe80::x"}], "'fe80::x' is not a GID prefix"),
        ([{"interfaces": 70000}], "a number outside of 0 to 0xffff"),
    ],
)
def test_impossible_subnets(subnets: Any, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        subnets_of({"subnets": subnets}, "a.toml")
    assert said in str(caught.value)


@every(
    ("prefix", "number"),
    [("fe80::", 0xFE80 << 48), ("fec0:0:0:1::", 0xFEC0 << 48 | 1), ("fec0:0:0:1::/64", 0xFEC0 << 48 | 1), ("::1", 0), (7, 7)],
)
def test_prefixes_are_the_upper_half_of_addresses(prefix: str | int, number: int) -> None:
    division = subnets_of({"subnets": [{"lids": "5-6"}, {"prefixes": [prefix]}]}, "a.toml")
    assert division.numbers == {(LID, 5): 1, (LID, 6): 1, (PREFIX, number): 2}


@every(
    ("value", "ranges"), [("16-127", ((16, 127),)), ("1-1", ((1, 1),)), ([5, "0x10"], ((5, 5), (16, 16))), ([9, "2-4"], ((2, 4), (9, 9)))]
)
def test_ranges(value: Any, ranges: tuple[tuple[int, int], ...]) -> None:
    assert SitePolicy.of({"lids": value}, "a.toml").lids == ranges
    for wrong in ("1-2-3", "-5", "5-0", "0-5"):
        with pytest.raises(ConfigError):
            SitePolicy.of({"lids": wrong}, "a.toml")


def test_who_may_write() -> None:
    assert [SitePolicy.of({"managers": managers}, "a").manages for managers in ([], [1], [1 << 40], [1, 1 << 40])] == [
        False,
        True,
        True,
        True,
    ]
    for wrong in (7, [7], "x"):
        with pytest.raises(ConfigError, match=r"site.subnets: must be tables"):
            subnets_of({"subnets": wrong}, "a.toml")
    with pytest.raises(ConfigError, match="site: must be a table"):
        SitePolicy.of([], "a.toml")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="did you mean prefixes"):
        subnets_of({"subnets": [{"prefix": 7}]}, "a.toml")

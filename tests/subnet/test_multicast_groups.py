"""Groups, their members and the multicast LIDs in use are counted exactly, up to the bounds and when a group goes."""

from __future__ import annotations

import pytest

from ibdissect.subnet import multicast_groups
from ibdissect.subnet.multicast_groups import GroupFacts, Groups, MulticastGroup
from tests.cases import every


def facts(mlid: int, q_key: int = 0) -> GroupFacts:
    return GroupFacts(mlid, 0xFFFF, q_key, 4, 3, 0)


def learnt(*mlids: int) -> Groups:
    """Groups 0, 1, .. with these LIDs, from frame 10 on."""
    made = Groups()
    for number, mlid in enumerate(mlids):
        made.learn(bytes([number]) * 16, facts(mlid), 10 + number)
    return made


@every(
    ("mlids", "counts"),
    [((0xC000,), {0xC000: 1}), ((0xBFFF, 0), {}), ((0xC001, 0xC001, 0xC002), {0xC001: 2, 0xC002: 1}), ((0xFFFE,), {0xFFFE: 1}), ((), {})],
)
def test_multicast_lids_in_use(mlids: tuple[int, ...], counts: dict[int, int]) -> None:
    found = learnt(*mlids)
    assert found.mlids == counts and (found.in_use.now or 0) == len(counts)
    for number in range(len(mlids)):
        found.forget(bytes([number]) * 16, 50)
    assert not found.mlids and not found.by_mgid and (found.in_use.now or 0) == 0
    found.forget(bytes(16), 60)
    assert found.in_use.since == (50 if counts else 0)


def test_a_group_that_gets_another_lid() -> None:
    found = learnt(0xC001, 0xC001)
    for frame, mlid, counts in ((20, 0xC002, {0xC001: 1, 0xC002: 1}), (21, 0xC002, {0xC001: 1, 0xC002: 1}), (30, 0, {0xC001: 1})):
        found.learn(bytes(16), facts(mlid), frame)
        assert found.mlids == counts and found.in_use.now == len(counts)
    assert [found.in_use.at(frame)[0] for frame in (9, 10, 19, 20, 29, 30)] == [None, 1, 1, 2, 2, 1]


def test_a_q_key_that_was_hidden_does_not_replace_a_known_one() -> None:
    found = Groups()
    for frame, q_key, known in ((1, 0, 0), (2, 7, 7), (3, 0, 7), (4, 9, 9)):
        now = found.learn(bytes(16), facts(0xC001, q_key), frame).facts.now
        assert now is not None and now.q_key == known
    assert found.mlids == {0xC001: 1}


def test_the_oldest_group_goes_with_its_members(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multicast_groups, "MAX_GROUPS", 2)
    found = learnt(0xC001, 0xC002)
    for number, ports in ((0, 3), (1, 2)):
        for port in range(ports):
            found.join(found.by_mgid[bytes([number]) * 16], bytes([port]), 1, 20)
    assert (found.members, found.dropped, found.used_since(9), found.used_since(10), found.used_since(99)) == (5, 0, 9, 10, 10)
    found.learn(b"\x09" * 16, facts(0xC003), 30)
    assert (found.members, found.dropped, found.mlids, found.used_since(99)) == (2, 1, {0xC002: 1, 0xC003: 1}, 10)


@pytest.mark.parametrize(("most", "everywhere", "kept"), [(2, 9, [2, 2]), (9, 3, [3, 0]), (9, 9, [3, 3]), (3, 6, [3, 3]), (3, 5, [3, 2])])
def test_the_bounds_of_members(monkeypatch: pytest.MonkeyPatch, most: int, everywhere: int, kept: list[int]) -> None:
    """Of a group, and of all groups; who is a member already may change how."""
    monkeypatch.setattr(multicast_groups, "MAX_MEMBERS", most)
    monkeypatch.setattr(multicast_groups, "MAX_ALL_MEMBERS", everywhere)
    found = learnt(0xC001, 0xC002)
    both: list[MulticastGroup] = list(found.by_mgid.values())
    for group in both:
        for port in range(3):
            found.join(group, bytes([port]), 1, 20)
    assert [len(group.members) for group in both] == kept and found.members == sum(kept) and found.dropped == 6 - sum(kept)
    found.join(both[0], bytes(1), 4, 30)
    found.join(both[0], bytes([1]), 1, 31)
    assert both[0].members[bytes(1)] == (4, 30) and both[0].members[bytes([1])] == (1, 20) and found.dropped == 6 - sum(kept)
    found.join(both[0], bytes(1), 0, 40)
    found.join(both[0], b"stranger", 0, 41)
    assert found.members == sum(kept) - 1 and bytes(1) not in both[0].members

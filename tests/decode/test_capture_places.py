"""Frames of two interfaces are told apart, and those of one subnet put together."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ibdissect.decode.capture_places import Scopes
from tests.bounds import bound
from tests.craft import ethernet_pcap, interfaces_pcapng, roce2
from tests.decode.made import tables_of
from tests.made_interfaces import START_NS, pcapng_of
from tests.rules.test_rules import lint
from tests.subnet.made import answer, node
from tests.subnet.made import ask as get

MAX_SCOPES, SECOND_NS = 255, 1_000_000_000
"""Places that are told apart."""
SHOWN = answer(5, 0x11, node(5))
OTHER = answer(5, 0x11, node(6))
ASKED = get(5, 0x11)


def scopes(frames: Sequence[tuple[int, bytes]], window: int = 1 << 20) -> Scopes:
    found = Scopes()
    for table in tables_of(pcapng_of(frames), window):
        table.once(found.take)
    return found


@pytest.mark.parametrize("window", [1, 1 << 20])
def test_two_interfaces(window: int) -> None:
    found = scopes([(0, ASKED), (0, SHOWN), (1, ASKED), (1, OTHER)], window)
    assert found.together((1, 2)) and found.together((3, 4)) and not found.together((2, 3)) and not found.together((1, 2, 4))
    assert not found.together((4, 5)), "a frame that was not seen"


@pytest.mark.parametrize("window", [1, 1 << 20])
def test_a_port_that_answers_in_both_joins_them(window: int) -> None:
    assert scopes([(0, SHOWN), (1, ASKED), (1, SHOWN), (2, OTHER)], window).together((1, 2))
    assert not scopes([(0, SHOWN), (1, ASKED), (1, SHOWN), (2, OTHER)], window).together((1, 4))


def test_one_interface_needs_no_memory() -> None:
    found = scopes([(0, ASKED)] * 5)
    assert found.together((1, 5, 99)) and not found._places


def test_more_places_than_are_kept_are_nobodys() -> None:
    found = scopes([(i, ASKED) for i in range(MAX_SCOPES + 2)])
    assert found.dropped.count == 2 and not found.together((MAX_SCOPES + 1, MAX_SCOPES + 2)) and found.together((3, 3))


def test_a_vlan_has_twelve_bits() -> None:
    """What stands above them in the tag is a priority, which makes no place of its own."""
    ids = [0, *(1 << bit for bit in range(12)), 0x7FF, 0xFFE, 0xFFF]
    tags = [vlan | priority << 12 for vlan in ids for priority in (0, 1, 8, 15)]
    found = Scopes()
    for table in tables_of(ethernet_pcap([roce2(vlan=tag) for tag in tags])):
        table.once(found.take)
    assert sorted(scope.vlan for scope in found.known) == sorted(ids)
    assert all(found.together((4 * i + 1, 4 * i + 4)) for i in range(len(ids))) and not found.together((4, 5))


@pytest.mark.parametrize("window", [1, 1 << 20])
def test_each_interface_ends_with_its_own_last_packet(window: int) -> None:
    found = scopes([(0, ASKED), (1, ASKED), (1, ASKED), (0, SHOWN), (0, SHOWN)], window)
    start, step = START_NS, 1_000_000
    first, second = (found.goes_on(1, start), found.goes_on(2, start))
    assert first == second + 2 * step and found.goes_on(3, start) == second, "frames 5 and 3"
    assert found.has_run(5, start + 9 * step) - found.has_run(3, start + 9 * step) == step, "frames 1 and 2"


@pytest.mark.parametrize("window", [1, 1 << 20])
def test_what_was_before_a_pause_of_a_minute_says_nothing(window: int) -> None:
    times = [START_NS + second * SECOND_NS for second in (0, 59, 119, 120)]
    found = Scopes()
    for table in tables_of(interfaces_pcapng([(0, ASKED)] * 4, times=times), window):
        table.once(found.take)
    assert [found.has_run(i + 1, time) // SECOND_NS for i, time in enumerate(times)] == [0, 59, 0, 1]


def test_after_more_pauses_than_are_kept_nothing_is_certain(monkeypatch: pytest.MonkeyPatch) -> None:
    bound(monkeypatch, 2, "decode")
    times = [START_NS + second * SECOND_NS for second in (0, 60, 120, 180, 190)]
    found = Scopes()
    for table in tables_of(interfaces_pcapng([(0, ASKED)] * 5, times=times)):
        table.once(found.take)
    assert [found.has_run(frame, times[-1]) // SECOND_NS for frame in (1, 2, 5)] == [190, 130, 0]


@pytest.mark.slow
def test_of_frames_in_no_known_place_the_shortest_interface_counts() -> None:
    found = scopes([(i, ASKED) for i in range(MAX_SCOPES + 2)], window=1)
    start = START_NS
    assert found.goes_on(MAX_SCOPES + 2, start) == found.goes_on(1, start) and found.goes_on(2, start) > found.goes_on(1, start)


@pytest.mark.slow
def test_a_request_on_an_interface_that_ends_is_not_found_unanswered() -> None:
    pages = [(0, ASKED), (0, SHOWN), (0, get(5, 0x10)), (0, get(5, 0x10))]
    alone, beside = ([one.code for one in lint(pcapng_of(frames, step_ns=700_000_000)) if one.severity != "info"] for frames in (
        [*pages, *[(0, ASKED), (0, SHOWN)] * 2], [*pages, *[(1, ASKED), (1, SHOWN)] * 2]))  # fmt: skip
    assert alone == ["TXN001"] and beside == []

"""Management datagrams are told apart by their common headers, from the shortest one on, and directed routes are as long as they say."""

from __future__ import annotations

import io
from itertools import product
from typing import Any

import pytest

import ibdissect
from ibdissect.wire.headers import BTH, DETH, LRH
from ibdissect.wire.mad import MAD, RMPP
from ibdissect.wire.sm import SMPDirected
from tests.craft import LINK_INFINIBAND, gmp, native, smp, ud
from tests.fuzz.container import pcapng

HEAD = MAD.size + RMPP.size


def answered(*frames: bytes, kept: dict[int, int] | None = None) -> dict[int, int]:
    """The answers among some frames, each with its request; `kept`: of some frames, how many bytes were captured."""
    rows = [(LINK_INFINIBAND, frame[: (kept or {}).get(i)], len(frame)) for i, frame in enumerate(frames)]
    with ibdissect.open(io.BytesIO(pcapng(rows))) as opened:
        column = opened.table()["ibdissect.request_frame"]
    return dict(zip((column.frame - 1).tolist(), (column.value - 1).tolist(), strict=True))


@pytest.mark.slow
def test_an_answer_has_the_numbers_of_its_request() -> None:
    """Class, transaction, attribute and modifier; the status is the answer's own. A packet of another kind lies between."""

    def asked(method: int, number: int, **other: Any) -> bytes:
        usual = {"transaction_id": 0x0102030405060708, "attribute_modifier": 0xFF000001}
        mgmt_class, attribute = other.pop("mgmt_class", 0x04), other.pop("attribute", 0x12)
        ends = {"slid": 1, "dlid": 2} if method == 1 else {"slid": 2, "dlid": 1}
        return gmp(mgmt_class, method, attribute, header={**usual, "status": number if method == 0x81 else 0, **other}, **ends)

    others: list[dict[str, Any]] = [
        {}, {"mgmt_class": 0x06}, {"transaction_id": 0x0102030405060709}, {"transaction_id": 0x1102030405060708}, {"attribute": 0x1D},
        {"attribute_modifier": 0xFF000002}, {"attribute_modifier": 1},
    ]  # fmt: skip
    requests = [asked(1, 0, **other) for other in others]
    for order in (range(len(others)), reversed(range(len(others)))):
        wanted = {len(requests) + 1 + place: i for place, i in enumerate(order)}
        assert answered(*requests, native(), *(asked(0x81, 2, **others[i]) for i in wanted.values())) == wanted
    assert answered(requests[0], *(asked(0x81, 0, **other) for other in others[1:4])) == {}


def test_which_datagrams_are_long_enough() -> None:
    """For both headers, of the version of InfiniBand; others beside them are as they were."""
    frames, wanted = list[bytes](), dict[int, int]()
    for number, (size, version) in enumerate(product((HEAD - 4, HEAD, HEAD + 4, 256), (1, 0x80, 2)), 1):
        at, (mine, other) = len(frames), (2 * number, 2 * number + 1)
        body = bytes((version, 4, 1, 1)) + bytes(4) + mine.to_bytes(8, "big") + b"\0\x12" + bytes(size - 18)
        frames += [ud(body), gmp(4, 1, 0x1D, header={"transaction_id": other})]
        frames += [gmp(4, 0x81, a, header={"transaction_id": tid}, slid=2, dlid=1) for a, tid in ((0x12, mine), (0x1D, other))]
        wanted |= {at + 2: at, at + 3: at + 1} if size >= HEAD and version == 1 else {at + 3: at + 1}
    assert answered(*frames) == wanted


def route(method: int, hops: list[int], behind: int, number: int = 7, **other: int) -> bytes:
    """An SMP with a directed route, and bytes behind its hops."""
    place = {"initial_path": bytes([0, *hops]).ljust(64, bytes([behind])), **other}
    return smp(method, 0x11, path=hops, dr=place, header={"transaction_id": number})


def test_routes_of_any_length() -> None:
    """What stands behind the hops does not count, but each hop does."""
    frames, wanted = list[bytes](), dict[int, int]()
    for hops in (0, 1, 6, 7, 8, 15, 16, 62, 63):
        path, number = [n * 7 % 250 + 1 for n in range(hops)], 4 * hops + 1
        wanted[len(frames) + 1] = len(frames)
        frames += [route(1, path, 0xEE, number), route(0x81, path, 0xDD, number)]
        for other in ([*path[:-1], 251] if path else [1], path[:-1] if path else [2]):
            frames += [route(1, path, 0, number + 1 + len(other) % 2), route(0x81, other, 0, number + 1 + len(other) % 2)]
    assert answered(*frames) == wanted


@pytest.mark.parametrize(("one", "other", "same"), [(63, 64, True), (63, 255, True), (62, 64, False)])
def test_a_route_has_at_most_63_hops(one: int, other: int, same: bool) -> None:
    path = list(range(1, 64))
    assert (answered(route(1, path, 0, hop_count=one), route(0x81, path, 0, hop_count=other)) == {1: 0}) is same


@pytest.mark.parametrize(("cut", "known"), [(0, True), (-1, False), (1, True)])
def test_a_route_that_is_cut_off_has_none(cut: int, known: bool) -> None:
    """All of the path must have been captured, however short the route is."""
    end = LRH.size + BTH.size + DETH.size + SMPDirected.initial_path.span[1] + cut
    assert (answered(route(1, [3], 0), route(0x81, [3], 0), kept={0: end}) == {1: 0}) is known

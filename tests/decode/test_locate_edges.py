"""Headers are found at the very edges of a window's memory, where nothing lies in front and nothing behind."""

from __future__ import annotations

from ibdissect.decode.locate import locate
from tests.cases import every
from tests.craft import LINK_ERF, LINK_ETHERNET, LINK_INFINIBAND, native, roce2
from tests.decode.made import Row, chunk_of
from tests.decode.test_locate_cuts import GLOBAL, KINDS, V2, Kind, changed, cuts


def headers(rows: list[Row], around: bytes) -> list[dict[str, int]]:
    """Where the headers of each frame start, from the frame's start on."""
    chunk = chunk_of(rows, around)
    loc = locate(chunk)
    return [{name: int(at[i]) - base for name, at in loc.start.items() if at[i] >= 0} for i, base in enumerate(chunk.offset.tolist())]


@every("kind", KINDS)
def test_frames_that_are_all_the_memory(kind: Kind) -> None:
    rows, wanted = cuts(kind, False)
    for row, one in zip(rows, wanted, strict=True):
        assert headers([row], b"") == [one[0]]
    assert headers(rows, b"") == [one[0] for one in wanted]


@every(
    ("frame", "link", "without"),
    [
        (native(lrh={"lnh": 0}), LINK_INFINIBAND, False), (native(), LINK_INFINIBAND, False),
        (roce2(), LINK_ETHERNET, False), (bytes(60), LINK_ETHERNET, True), (b"", LINK_INFINIBAND, True), (b"", LINK_ETHERNET, True),
    ],
)  # fmt: skip
@every("around", [b"", b"\xff" * 8])
def test_what_has_no_infiniband(frame: bytes, link: int, without: bool, around: bytes) -> None:
    assert locate(chunk_of([Row(frame, link)], around)).without_infiniband.tolist() == [without]


def test_an_erf_record_at_the_start() -> None:
    kind = next(kind for kind in KINDS if kind.link == LINK_INFINIBAND)
    (whole,) = headers([Row(kind.frame, LINK_INFINIBAND)], b"")
    rows = [Row(kind.frame, LINK_ERF, erf=21), Row(kind.frame, LINK_ERF, erf=21)]
    assert headers(rows[:1], b"") == [{"erf": -16, **whole}]
    assert headers(rows, b"") == [{"erf": -16, **whole}] * 2
    assert headers([rows[0], Row(b"", LINK_ERF)], b"") == [{"erf": -16, **whole}, {}]


@every("size", range(11, 18))
def test_too_short_for_bth_and_icrc(size: int) -> None:
    """What cannot hold both holds no ICRC: its last bytes are payload; behind an ICRC, PadCnt takes them away."""
    found = headers([Row(changed(V2, 38, 0, 8 + size), LINK_ETHERNET)], b"")[0]
    assert ("bth" in found, "icrc" in found, "payload" in found) == (size >= 12, size >= 16, 12 < size < 16)


def test_global_headers_before_different_things() -> None:
    rows = [Row(frame, LINK_INFINIBAND) for frame in (GLOBAL, changed(GLOBAL, 14, 0x1C), GLOBAL, changed(GLOBAL, 14, 0x1D))]
    assert headers(rows, b"") == [headers([row], b"")[0] for row in rows]
    assert [("bth" in one, one["payload"]) for one in headers(rows, b"")] == [(True, 60), (False, 48)] * 2

"""Memory of a window serves again only when nobody looks at it any more."""

from __future__ import annotations

import io

from ibdissect.capture.windows import Windows

SIZE = 64
DATA = bytes(range(256)) * 4


def windows() -> Windows:
    return Windows(io.BytesIO(DATA), "x", SIZE)  # type: ignore[arg-type]


def test_views_that_are_kept_do_not_change() -> None:
    source, held, used = windows(), [], 0
    while not source.final:
        source.advance(used)
        used = source.filled
        held.append((source.base, source.raw[: source.filled]))
    assert len(held) > 10
    for base, view in held:
        assert view.tobytes() == DATA[base : base + len(view)]


def test_memory_without_views_is_used_again() -> None:
    source, places, seen, used = windows(), set(), b"", 0
    while not source.final:
        source.advance(used)
        used = source.filled
        seen += source.raw[: source.filled].tobytes()
        places.add(source.raw.ctypes.data)
    assert seen == DATA
    assert len(places) <= 3

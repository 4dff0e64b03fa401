"""The next frame with a text, with bytes or with a match is found in both directions."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibdissect.dfilter.compile import compile_filter
from ibdissect.screen_model.search import FindKind, Query, find, place
from tests.cases import every
from tests.craft import rc
from tests.screen_model import made
from tests.screen_model.made import opened


@pytest.mark.parametrize(
    ("kind", "text", "start", "forward", "found"),
    [
        (FindKind.TEXT, "needle", 0, True, (6, False)),
        (FindKind.TEXT, "NAK", 25, True, (20, True)),
        (FindKind.TEXT, "subngetresp", 3, False, (1, False)),
        (FindKind.HEX, "6e65 65:64", 10, False, (6, False)),
        (FindKind.HEX, "ffffffffffffffffffffffff01", 0, True, None),
        (FindKind.FILTER, "frame.number == 12", 2, True, (11, False)),
        (FindKind.FILTER, "bth.psn == 110", 29, False, (20, False)),
    ],
)
def test_find(tmp_path: Path, kind: FindKind, text: str, start: int, forward: bool, found: tuple[int, bool] | None) -> None:
    model = opened(made.capture(tmp_path))
    matcher = compile_filter(text) if kind is FindKind.FILTER else None
    assert find(model, model.rows, Query(kind, text, matcher), start, forward=forward, wanted=lambda: True) == found
    model.close()


@pytest.mark.parametrize("show_keys", [False, True])
@pytest.mark.parametrize(("kind", "text"), [(FindKind.HEX, "5345 4352"), (FindKind.TEXT, "secr")])
def test_hidden_keys_are_not_found(kind: FindKind, text: str, show_keys: bool, tmp_path: Path) -> None:
    """Else a search would tell a key byte by byte; also where it is, in a frame that is found for another reason."""
    ext = {"RETH": {"va": 0x1234, "r_key": int.from_bytes(b"SECR", "big"), "dmalen": 16}}
    model = opened(made.written(tmp_path, rc(0x0A, bytes(16)), rc(0x0A, bytes(16), ext=ext)), show_keys=show_keys)
    query = Query(kind, text)
    assert find(model, model.rows, query, 0, forward=True, wanted=lambda: True) == ((1, False) if show_keys else None)
    where = place(query, model.tree(2))
    assert (where.node.name if where is not None and where.node is not None else None) == ("infiniband.reth.r_key" if show_keys else None)
    zeros = Query(FindKind.HEX, "1234 0000 0000")
    assert find(model, model.rows, zeros, 0, forward=True, wanted=lambda: True) == (None if show_keys else (1, False))
    model.close()


@every("text", ["", "0", "xy", "0x"])
def test_invalid_hex(text: str) -> None:
    with pytest.raises(ValueError):
        Query.hexadecimal(text)

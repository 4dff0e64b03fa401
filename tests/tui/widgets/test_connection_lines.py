"""A connection is drawn with all that is known of it, in the width there is."""

from __future__ import annotations

from typing import Any  # a line of what is told

import msgspec
import pytest
from rich.style import Style

from ibdissect.diagnosis.connection import Connection, ConnectionTimes
from ibdissect.tui.screens.connections import ConnectionsView
from ibdissect.tui.widgets.connection_lines import told
from tests.diagnosis.lab import SEC, START, TIMEOUT, Lab


def lost() -> Connection:
    lab = Lab()
    lab.good(lab.up(), 100, 5)
    for n in range(8):
        lab.ask(SEC + n * TIMEOUT, 105)
    lab.cnp(4 * SEC)
    return lab.only()


def text(line: Any) -> str:
    return "".join(part for part, _ in line.parts)


@pytest.mark.parametrize("width", [60, 78, 190])
def test_lines(width: int) -> None:
    one = lost()
    lines = told(one, width, START, lambda address: {"10.0.0.2": "node2"}.get(address, address))
    drawn = [text(line) for line in lines]
    titles = drawn[: {60: 3, 78: 2, 190: 1}[width]]
    assert all(len(line) <= width - 2 for line in titles), "none of them is cut"
    assert "  ".join(titles) == "✖ retries-exhausted  RC 10.0.0.1 QP 0x000111 → node2 QP 0x000222  frames 1 to 22"
    assert one.why in " ".join(drawn) and f"To do: {one.advice}" in " ".join(drawn)
    assert [line.frame for line in lines if line.frame] == [one.evidence[0], one.evidence[1]]
    assert any("1.00 s after the start" in line for line in drawn)
    assert [line.part for line in lines if line.part] == ["idle_by_application", "timeout", "transferring"]
    assert "7 episodes" in next(line for line in drawn if "time-outs" in line)
    assert "6 messages" in drawn[-1] or "6 messages" in " ".join(drawn[-3:])


def drawn(times: ConnectionTimes | None, room: int) -> list[str]:
    """The bar of a connection, in pieces."""
    one = msgspec.structs.replace(lost(), times=times)
    table = ConnectionsView([one], START)
    table.ink = lambda name: Style()  # type: ignore[method-assign]
    return [part.text for part in table.rest_parts(one, room)]


def test_a_bar_tells_parts_apart_without_colours() -> None:
    assert drawn(ConnectionTimes(1000, 250, 0, 250, 0, 500, 0), 8) == ["██", "RR", "TTTT"] and drawn(None, 8) == []
    signs = drawn(ConnectionTimes(600, *[100] * 6), 12)
    assert len({sign[0] for sign in signs}) == len(signs) == 6


@pytest.mark.parametrize(("trouble", "wanted"), [(199, ("✔", "healthy", "good")), (200, ("ℹ", "lost time", "info"))])
def test_a_healthy_connection_that_lost_a_fifth_of_its_time_has_no_tick(trouble: int, wanted: tuple[str, str, str]) -> None:
    times = ConnectionTimes(1000, 1000 - trouble, 0, 0, trouble, 0, 0)
    one = msgspec.structs.replace(lost(), verdict="healthy", cause="healthy", severity="none", directions="both", times=times)
    title = told(one, 120, START)[0]
    assert text(title).startswith(" ".join(wanted[:2])) and title.parts[0][1] == wanted[2]

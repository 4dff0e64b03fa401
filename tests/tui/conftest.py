"""How are screens drawn in tests? Whenever a test waits, not sixty times a second: nobody sees what is drawn in between."""

from __future__ import annotations

from typing import Any  # of Textual, whose types of these are its own

import pytest
from textual._compositor import Compositor
from textual.pilot import Pilot

RENDER, PAUSE = Compositor.render_update, Pilot.pause


def _later(compositor: Compositor, full: bool = False, screen_stack: Any = None, simplify: bool = False) -> Any:
    return RENDER(compositor, full, screen_stack, simplify) if full else None


async def _pause(pilot: Pilot[Any], delay: float | None = None) -> None:
    await PAUSE(pilot, delay)
    RENDER(pilot.app.screen._compositor, screen_stack=pilot.app._background_screens)


@pytest.fixture(autouse=True)
def _seldom_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Compositor, "render_update", _later)
    monkeypatch.setattr(Pilot, "pause", _pause)

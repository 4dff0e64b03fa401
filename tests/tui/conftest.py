"""Drawing of screens in tests: when they open, or when a test asks (`drawn`). Style sheets are parsed once for all tests."""

from __future__ import annotations

from typing import Any  # of Textual, whose types of these are its own

import pytest
from textual._compositor import Compositor
from textual.css.stylesheet import Stylesheet

RENDER, PARSE = Compositor.render_update, Stylesheet._parse_rules
PARSED: dict[Any, Any] = {}
"""Rules by their text and colours."""


def _later(compositor: Compositor, full: bool = False, screen_stack: Any = None, simplify: bool = False) -> Any:
    return RENDER(compositor, full, screen_stack, simplify) if full else None


def _parsed(sheet: Stylesheet, *words: Any, **more: Any) -> Any:
    key = words, *more.items(), *sheet._variables.items()
    if key not in PARSED:
        PARSED[key] = PARSE(sheet, *words, **more)
    return PARSED[key]


@pytest.fixture(autouse=True)
def seldom_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Compositor, "render_update", _later)
    monkeypatch.setattr(Stylesheet, "_parse_rules", _parsed)

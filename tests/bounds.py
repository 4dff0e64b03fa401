"""Bounds of state, set to small values, so that few packets reach them."""

from __future__ import annotations

import sys

import pytest

NO_BOUNDS = ("MAX_LMC", "MAX_WORDS", "MAX_RETRIES", "MAX_STEPS", "MAX_HOPS")
"""Constants of the standard, and sizes of single stored entries."""


def bound(monkeypatch: pytest.MonkeyPatch, value: int, *rooms: str) -> None:
    """Set every limit in some packages to `value`."""
    for name, module in list(sys.modules.items()):
        if name.startswith(tuple(f"ibdissect.{room}" for room in rooms)):
            for constant, old in list(vars(module).items()):
                if constant.startswith(("MAX_", "KEPT_")) and type(old) is int and constant not in NO_BOUNDS:
                    monkeypatch.setattr(module, constant, value)

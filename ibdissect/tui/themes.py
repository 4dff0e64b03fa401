"""What colours has the screen? A dark, a light and a high-contrast theme; others of Textual work too."""

from __future__ import annotations

from textual.theme import Theme

TINTS = ("tint-smp", "tint-sa", "tint-cm", "tint-gs", "tint-nak", "tint-again", "tint-other", "tint-dim", "tint-cursor", "tint-quiet",
         "tint-span", "tint-bits", "tint-bits-text", "tint-rule", "tint-info", "tint-code")  # fmt: skip

_DARK = dict(zip(TINTS, (
    "#8fb8de", "#8ecfb1", "#c3a6e0", "#c9c28a", "#ff8f80", "#f0b070", "#8a93a0", "#7d8794", "#2a4a72", "#26313f",
    "#2f4f4f", "#e0a030", "#101418", "#343c48", "#6cb6ff", "#9fb6c9"), strict=True))  # fmt: skip
_LIGHT = dict(zip(TINTS, (
    "#1f5f9c", "#1c7048", "#6a3d9a", "#6d6200", "#b3261e", "#a04e00", "#5e6670", "#666f7a", "#bcd7f5", "#e3e8ee",
    "#cfe8dc", "#f2b134", "#101418", "#c3cad3", "#0a5fb4", "#30485c"), strict=True))  # fmt: skip
_CONTRAST = dict(zip(TINTS, (
    "#9fd3ff", "#9fffcf", "#e8b8ff", "#fff59f", "#ff7060", "#ffc060", "#e0e0e0", "#d0d0d0", "#ffff00", "#5a5a5a",
    "#005f5f", "#ff9f00", "#000000", "#ffffff", "#7fc8ff", "#ffffff"), strict=True))  # fmt: skip

DEFAULTS = _DARK
"""For themes that know nothing of these names."""

THEMES = (
    Theme(
        name="ibdissect-dark", dark=True, primary="#4f9cf0", secondary="#7fb3e6", accent="#5fc3c9", foreground="#d6dbe1",
        background="#14181d", surface="#191e24", panel="#1e242b", success="#7bc88f", warning="#f0a860", error="#ff7466", variables=_DARK,
    ),
    Theme(
        name="ibdissect-light", dark=False, primary="#1f6fc4", secondary="#4a7fb5", accent="#0f7d84", foreground="#1d242c",
        background="#fbfcfd", surface="#f4f6f8", panel="#e9edf1", success="#237a3b", warning="#a95a00", error="#c0271d", variables=_LIGHT,
    ),
    Theme(
        name="ibdissect-contrast", dark=True, primary="#ffff00", secondary="#00ffff", accent="#00ffff", foreground="#ffffff",
        background="#000000", surface="#000000", panel="#000000", success="#00ff5f", warning="#ffb000", error="#ff5f5f",
        variables=_CONTRAST,
    ),
)  # fmt: skip

"""The colours of the screen: a dark, a light and a high-contrast theme; Textual's other themes work too."""

from __future__ import annotations

import colorsys
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial

from rich.color import Color as RichColor
from rich.color import ColorSystem
from rich.style import Style
from rich.text import Text
from textual.app import App
from textual.color import BLACK, WHITE, Color
from textual.driver import Driver
from textual.theme import Theme

TINTS = ("tint-smp", "tint-sa", "tint-cm", "tint-gs", "tint-nak", "tint-again", "tint-other", "tint-dim", "tint-cursor", "tint-quiet",
         "tint-span", "tint-bits", "tint-bits-text", "tint-rule", "tint-info", "tint-code")  # fmt: skip

_DARK = dict(zip(TINTS, (
    "#8fb8de", "#8ecfb1", "#c3a6e0", "#c9c28a", "#ff8f80", "#f0b070", "#8a93a0", "#7d8794", "#2a4a72", "#26313f",
    "#2f4f4f", "#e0a030", "#101418", "#343c48", "#6cb6ff", "#9fb6c9"), strict=True))  # fmt: skip
_LIGHT = dict(zip(TINTS, (
    "#1f5f9c", "#1c7048", "#6a3d9a", "#6d6200", "#b3261e", "#a04e00", "#5e6670", "#666f7a", "#a9c9ef", "#dbe1e9",
    "#cfe8dc", "#f2b134", "#101418", "#c3cad3", "#0a5fb4", "#30485c"), strict=True))  # fmt: skip
_CONTRAST = dict(zip(TINTS, (
    "#9fd3ff", "#9fffcf", "#e8b8ff", "#fff59f", "#ff7060", "#ffc060", "#e0e0e0", "#d0d0d0", "#ffff00", "#5a5a5a",
    "#005f5f", "#ff9f00", "#000000", "#ffffff", "#7fc8ff", "#ffffff"), strict=True))  # fmt: skip

INKS = (*TINTS[:8], "tint-info", "tint-code", "error", "warning", "accent", "success", "foreground")
"""Names of colours that text has."""
LEAST = 4.5
"""Contrast of text and what is behind it (WCAG 2 AA)."""
SYSTEMS = {"256": ColorSystem.EIGHT_BIT, "standard": ColorSystem.STANDARD}
"""Palettes of terminals without true colour, by Rich's names."""
SIXTEEN = (
    "#000000", "#aa0000", "#00aa00", "#aa5500", "#0000aa", "#aa00aa", "#00aaaa", "#aaaaaa",
    "#555555", "#ff5555", "#55ff55", "#ffff55", "#5555ff", "#ff55ff", "#55ffff", "#ffffff",
)  # fmt: skip
"""What Rich takes the 16 colours for; terminals differ."""
BARS: Mapping[tuple[str, bool], dict[str, str]] = {
    ("256", True): {"background": "#121212", "surface": "#1c1c1c", "panel": "#262626", "tint-cursor": "#005f87", "tint-quiet": "#444444",
                    "tint-span": "#005f5f", "tint-rule": "#585858"},
    ("256", False): {"background": "#ffffff", "surface": "#eeeeee", "panel": "#e4e4e4", "tint-cursor": "#87afff", "tint-quiet": "#d0d0d0",
                     "tint-span": "#afd7af", "tint-rule": "#b2b2b2"},
    ("standard", True): {"background": "#000000", "surface": "#000000", "panel": "#000000", "tint-cursor": "#aaaaaa",
                         "tint-quiet": "#0000aa", "tint-span": "#0000aa", "tint-bits": "#ffff55", "tint-bits-text": "#000000"},
    ("standard", False): {"background": "#ffffff", "surface": "#ffffff", "panel": "#ffffff", "tint-cursor": "#0000aa",
                          "tint-quiet": "#aaaaaa", "tint-span": "#aaaaaa", "tint-bits": "#ffff55", "tint-bits-text": "#000000"},
}  # fmt: skip
"""Colours behind text in each palette, of dark and light themes, for themes whose own would become one and the same."""
COLOURED, SAME_HUE, ORANGE = 0.2, 0.12, 0.13
"""Difference of red, green and blue from which on a colour is none of the greys; parts of the circle of hues between colours of one
name; the hue that light yellow has among the 16 colours, where it stands for orange, too."""
APART = 1.25
"""Contrast of the selected row with and without focus, and of other rows."""


@lru_cache(4096)
def in_palette(color: Color, palette: str) -> Color:
    """The colour that a terminal shows instead; the same in true colour."""
    system = SYSTEMS.get(palette)
    if system is None:
        return color
    found = RichColor.from_rgb(*color.rgb).downgrade(system)
    return Color.parse(SIXTEEN[found.number or 0]) if palette == "standard" else Color(*found.get_truecolor())


def contrast(one: Color, other: Color) -> float:
    """How much two colours differ, 1 to 21, as WCAG counts it."""
    low, high = sorted(map(_luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(color: Color) -> float:
    parts = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in color.normalized]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


@lru_cache(4096)
def readable(color: Color, *behind: Color, palette: str = "truecolor") -> Color:
    """The colour, made lighter or darker until text in it is readable on all of these backgrounds, as a terminal shows them."""
    behind = tuple(in_palette(one, palette) for one in behind)
    white = min(contrast(WHITE, one) for one in behind) >= min(contrast(BLACK, one) for one in behind)
    steps = (color.blend(WHITE if white else BLACK, step / 20) for step in range(21))
    found = (one for one in steps if all(contrast(in_palette(one, palette), other) >= LEAST for other in behind))
    return next(found, WHITE if white else BLACK)


def with_contrast(variables: dict[str, str], palette: str = "truecolor", *, dark: bool = True) -> dict[str, str]:
    """The variables of a theme for a terminal's palette, colours of text so that they can be read on its background and its bars.

    `edge` is the border of windows: none, unless they have the colour of what is behind them; `inside` the lines that are empty inside.
    """
    if any(Color.parse(variables[name]).ansi is not None for name in ("background", "surface", "panel")):
        return variables | {"edge": f"round {variables['foreground']}", "inside": "0"}  # the terminal's own colours, which are not known
    if palette in SYSTEMS:
        variables = variables | _bars(variables, palette, dark=dark)
    behind = [Color.parse(variables[name]) for name in ("background", "surface", "panel")]
    inks = {name: Color.parse(variables[name]) for name in INKS}
    if palette == "standard":
        inks = {name: _of_sixteen(ink, behind) for name, ink in inks.items()}
    found = {name: readable(ink, *behind, palette=palette).hex for name, ink in inks.items() if ink.ansi is None and ink.a == 1}
    text = Color.parse(found.get("foreground", variables["foreground"]))
    for name in ("tint-cursor", "tint-quiet"):
        bar = in_palette(Color.parse(variables[name]), palette)
        fits = contrast(in_palette(text, palette), bar) >= LEAST
        found[f"{name}-text"] = (text if fits else max(BLACK, WHITE, key=partial(contrast, bar))).hex
    flat = len({in_palette(one, palette) for one in behind}) == 1
    found["edge"] = f"round {found['tint-rule'] if 'tint-rule' in found else variables['tint-rule']}" if flat else "none"
    found["inside"] = str(int(not flat))
    return variables | found


def _of_sixteen(ink: Color, behind: Sequence[Color]) -> Color:
    """Of the 16 colours, that of the same hue that can be read: the nearest one of a pale colour would be a grey. The colour itself, if
    it is a grey or none has its hue.
    """
    hue, near = colorsys.rgb_to_hsv(*ink.normalized)[0], dict[str, tuple[float, int]]()
    for text in SIXTEEN:
        other, full, _ = colorsys.rgb_to_hsv(*Color.parse(text).normalized)
        other = ORANGE if text == "#ffff55" else other
        apart = min(abs(hue - other), 1 - abs(hue - other))
        if full and apart <= SAME_HUE and all(contrast(Color.parse(text), one) >= LEAST for one in behind):
            near[text] = round(apart, 2), sum((a - b) ** 2 for a, b in zip(ink.rgb, Color.parse(text).rgb, strict=True))
    grey = max(ink.normalized) - min(ink.normalized) < COLOURED
    return Color.parse(min(near, key=near.__getitem__)) if near and not grey and ink.ansi is None else ink


def _bars(variables: dict[str, str], palette: str, *, dark: bool) -> dict[str, str]:
    """Colours behind text to be used instead of a theme's, if a terminal's selected rows could not be told from others."""
    rows = [in_palette(Color.parse(variables[name]), palette) for name in ("background", "tint-cursor", "tint-quiet")]
    apart = all(contrast(one, other) >= APART for i, one in enumerate(rows) for other in rows[:i])
    return {} if apart else BARS[palette, dark]


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


def painted(app: App[object], text: Text) -> Text:
    """A text whose styles name colours of the theme: `bold $accent`."""
    colours, found = app.get_css_variables(), text.copy()

    def style(named: str | Style) -> str | Style:
        return re.sub(r"\$([\w-]+)", lambda name: colours[name[1]], named) if isinstance(named, str) else named

    found.spans = [span._replace(style=style(span.style)) for span in found.spans]
    return found


class ThemedApp(App[None]):
    """An application that looks like all others of this package."""

    CSS_PATH = "ibdissect.tcss"
    palette = "truecolor"
    """The colours that the terminal has: `truecolor`, `256` or `standard`."""

    def __init__(self, driver: type[Driver] | None = None) -> None:
        super().__init__(driver_class=driver)
        self.scroll_sensitivity_y = 3.0
        for theme in THEMES:
            self.register_theme(theme)

    def take_palette(self) -> None:
        """Use the colours that the terminal has; pictures and tests, which are drawn without one, have all."""
        if not self.is_headless and (self.console.color_system or self.palette) != self.palette:
            self.palette = self.console.color_system or self.palette
            self.refresh_css(animate=False)

    def get_css_variables(self) -> dict[str, str]:
        """Colours of the theme; those of text can be read."""
        return with_contrast(super().get_css_variables(), self.palette, dark=self.current_theme.dark)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Names that the style sheet uses, for themes that lack them."""
        found = _DARK if self.current_theme.dark else _LIGHT
        text = "#ffffff" if self.current_theme.dark else "#000000"
        return found | {"tint-cursor-text": text, "tint-quiet-text": text, "edge": "none", "inside": "1"}

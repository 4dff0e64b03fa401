"""Text can be read in every theme that is offered."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.color import Color

from ibdissect.tui import themes
from ibdissect.tui.diff_screen import ChangesApp
from ibdissect.tui.start import StartApp
from ibdissect.tui.themes import readable
from tests.tui import made
from tests.tui.made import running, until

LEAST = 4.5
WHITE = Color(255, 255, 255)
BLACK = Color(0, 0, 0)


def contrast(one: Color, other: Color) -> float:
    """How much two colours differ, 1 to 21, counted from the text of WCAG 2."""
    light = [
        sum(share * (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4)
            for share, part in zip((0.2126, 0.7152, 0.0722), color.normalized, strict=True))
        for color in (one, other)
    ]  # fmt: skip
    return (max(light) + 0.05) / (min(light) + 0.05)


def test_contrast() -> None:
    assert contrast(BLACK, WHITE) == pytest.approx(21) and contrast(WHITE, WHITE) == 1
    assert contrast(Color.parse("#767676"), WHITE) == pytest.approx(4.54, abs=0.01)
    dim, panel = Color.parse("#7d8794"), Color.parse("#1e242b")
    assert contrast(dim, panel) < LEAST <= contrast(readable(dim, panel), panel) and readable(WHITE, panel) == WHITE


@pytest.mark.parametrize("palette", ["truecolor", "256", "standard"])
def test_focus_and_text_in_every_palette_and_theme(palette: str) -> None:
    """In what the terminal shows: the selected row with and without focus and the others differ; text can be read on each.

    Colours do not depend on the size of the screen; what is drawn at each size is looked at below.
    """
    for theme in themes.THEMES:
        plain = {**theme.to_color_system().generate(), **theme.variables}
        found = themes.with_contrast(plain, palette, dark=theme.dark)
        there = {name: Color.parse(text) for name, text in found.items() if name in themes.INKS or name.startswith("tint-")}
        there |= {name: Color.parse(found[name]) for name in ("background", "surface", "panel")}
        rows = [themes.in_palette(there[name], palette) for name in ("background", "tint-cursor", "tint-quiet")]
        assert all(contrast(one, other) >= themes.APART for i, one in enumerate(rows) for other in rows[:i]), theme.name
        for ink in themes.INKS:
            for row, behind in zip(("", "-cursor", "-quiet"), rows, strict=True):
                text = there[ink] if not row else readable(there[ink], behind, palette=palette)
                assert contrast(themes.in_palette(text, palette), behind) >= LEAST, (theme.name, ink, row)
        for name in ("cursor", "quiet"):
            text, bar = (themes.in_palette(there[f"tint-{name}{part}"], palette) for part in ("-text", ""))
            assert contrast(text, bar) >= LEAST, (theme.name, name)


def test_sixteen_colours_are_those_of_the_library() -> None:
    """Each of the colours stays what it is."""
    assert [themes.in_palette(Color.parse(text), "standard").hex.lower() for text in themes.SIXTEEN] == [*themes.SIXTEEN]


def test_sixteen_colours_keep_hues() -> None:
    """A pale colour is not the grey that is nearest: errors, warnings and what is well differ, and grey stays grey."""
    dark = themes.THEMES[0]
    found = themes.with_contrast({**dark.to_color_system().generate(), **dark.variables}, "standard")
    shown = {name: themes.in_palette(Color.parse(found[name]), "standard").hex.lower() for name in themes.INKS}
    assert (shown["error"], shown["warning"], shown["success"], shown["tint-cm"]) == ("#ff5555", "#ffff55", "#55ff55", "#ff55ff")
    assert shown["tint-smp"] == "#55ffff" and shown["tint-dim"] == "#aaaaaa" and shown["foreground"] == "#ffffff"
    assert (found["edge"][:5], found["inside"]) == ("round", "0"), "a border instead of an empty line: the last line keeps its place"


@pytest.mark.slow
async def test_text_in_every_theme(tmp_path: Path) -> None:
    """The selected row, focused or not, the rows beside it, and the names of all inks on background and bars."""
    async with running(made.capture(tmp_path)) as (app, pilot):
        await until(pilot, lambda: app.study.finished)
        packets = app.main.packets
        packets.select(2)
        for name, theme in app.available_themes.items():
            if "ansi" in name:
                continue  # colours of the terminal
            app.theme = name
            await pilot.pause()
            for focused in (packets, app.main.tree_pane) if "ibdissect" in name else (packets,):
                if not focused.has_focus:
                    focused.focus()
                    await pilot.pause()
                parts = [part for row in range(6) for part in packets.render_line(row) if part.text.strip()]
                low = [(name, part.text, _contrast(part)) for part in parts if _contrast(part) < LEAST]
                assert len(parts) > 30 and not low
            found = app.theme_variables
            for ink in themes.INKS:
                for behind in ("background", "panel"):
                    assert contrast(Color.parse(app.get_css_variables()[ink]), Color.parse(found[behind])) >= LEAST, (theme.name, ink)


def _contrast(part: object) -> float:
    style = part.style  # type: ignore[attr-defined]
    return contrast(Color(*style.color.get_truecolor()), Color(*style.bgcolor.get_truecolor()))


SCREENS = ((), ("slash", *"bth.o"), ("f", "e"), ("space",), ("v",), ("question_mark",), ("g",), ("C",), ("F",))
"""Keys that lead to screens."""
GRAPHICS = frozenset("▁▂▃▄▅▆▇█─│╭╮╰╯┊▊▔▎▏▕· ")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("theme", "palette", "size"),
    [
        pytest.param(theme.name, palette, size, marks=() if place == other == which else pytest.mark.thorough)
        for place, theme in enumerate(themes.THEMES)
        for other, palette in enumerate(("256", "truecolor", "standard"))
        for which, size in enumerate(((80, 24), (120, 40), (200, 50)))
    ],
)
async def test_what_is_drawn_can_be_read(theme: str, palette: str, size: tuple[int, int], tmp_path: Path) -> None:
    """Each pair of colours of the screens, as the terminal shows them; what lies behind a window is dark on purpose."""
    app = made.app_on(made.capture(tmp_path))
    app.palette, app.theme = palette, theme
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: app.study.finished and app.main.tree_pane.lines)
        for keys in SCREENS:
            await pilot.press(*keys)
            await pilot.pause(0.1)
            window = next(iter(app.screen.query(".dialog, .page")), app.screen)
            seen = {
                (part.style.color, part.style.bgcolor): part.text
                for line in app.screen._compositor.render_strips()[window.region.y : window.region.bottom]
                for part in line.crop(window.region.x, window.region.right)
                if part.style and part.style.color and part.style.bgcolor and not GRAPHICS.issuperset(part.text)
            }
            assert len(seen) > 1
            for (text, behind), what in seen.items():
                found = contrast(*(themes.in_palette(Color(*one.get_truecolor()), palette) for one in (text, behind)))
                assert found >= LEAST, (keys, what, text, behind)
            while app.screen is not app.main or app.focused is app.main.filter_bar.input:
                await pilot.press("escape")
                await pilot.pause()


def test_every_application_has_the_colours_of_the_terminal(tmp_path: Path) -> None:
    """Also the start screen and `diff --tui`: the cursor is not the colour of its line without the focus."""
    bars = set()
    for app in (made.app_on(made.capture(tmp_path)), StartApp(), ChangesApp("", [])):
        full, app.palette, app.theme = app.get_css_variables(), "256", "ibdissect-dark"
        variables = app.get_css_variables()
        assert variables["tint-cursor"] != variables["tint-quiet"] and variables["tint-cursor"] != full["tint-cursor"]
        bars.add((variables["tint-cursor"], variables["tint-quiet"]))
    assert len(bars) == 1

"""The screens look as they did when somebody last looked at them.

Pictures are compared byte for byte where they are drawn by the versions of Rich and Textual that drew them last, else by
their text: what libraries draw around it is not ours. `pytest -m written --update-golden` draws them anew; look at them then.
"""

from __future__ import annotations

import html
import re
import runpy
import shutil
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest
from textual.widgets import Input

from ibdissect.lint.rule import REGISTRY
from ibdissect.pipeline.check import CheckOptions
from ibdissect.rules import load
from ibdissect.screen_model.capture_model import CaptureModel
from ibdissect.screen_model.saved_state import FilterHistory, Profile
from ibdissect.tui.app import TuiApp
from tests import craft
from tests.screen_model.test_fabric_view import FRAMES, edit, manager, routed
from tests.subnet.made import p_keys, port_info
from tests.tui import drawn, made
from tests.tui.made import shows, until

GOLDEN = Path(__file__).with_name("golden")
VERSIONS = f"rich {version('rich')}, textual {version('textual')}\n"
RULES = ("PKY003", "CAP001")
"""Few rules, so that a new one changes no picture."""
SHOTS: dict[str, tuple[tuple[int, int], str, tuple[str, ...]]] = {
    "main": ((120, 36), "ibdissect-dark", ("f", "tab", *["down"] * 9)),
    "small": ((80, 24), "ibdissect-dark", ("f",)),
    "explained": ((80, 24), "ibdissect-dark", ("f", "e")),
    "light": ((100, 30), "ibdissect-light", ("down", "m", "down", "m", "F")),
    "contrast": ((100, 24), "ibdissect-contrast", ("end",)),
    "completion": ((100, 24), "ibdissect-dark", ("slash", *"bth.o")),
    "wrong-filter": ((100, 24), "ibdissect-dark", ("slash", *"bth.p_key", "space", "equals_sign", *"x", "escape")),
    "help": ((100, 40), "ibdissect-dark", ("question_mark",)),
    "conversations": ((120, 24), "ibdissect-dark", ("C",)),
    "fabric": ((120, 24), "ibdissect-dark", ("b", "down", "down", "right", "down")),
    "statistics": ((120, 60), "ibdissect-dark", ("s",)),
}

SIZES, THEMES = ((80, 24), (120, 40), (200, 50)), ("dark", "light")
WALKS: dict[str, dict[str, tuple[str, ...]]] = {
    "fabric": {
        "route": ("b", *["down"] * 3, "r", *["down"] * 2), "history": ("b", "t"), "menu": ("space",), "columns": ("v", "right"),
        "profiles": ("P",),
    },
    "ping": {"messages": ("C",), "payload": ("R",), "ladder": ("L",), "time": ("T",)},
    "sweep": {"sweeps": ("E",)},
    "slow": {"connections": ("W", "down", "down"), "stalls": ("W", "down", "down", "L")},
    "points": {"delays": ("T", "b", "b"), "journey": ("f",)},
}  # fmt: skip
"""Screens of each capture, and the keys that lead there; the first one opens a screen. They are drawn at all sizes in both themes."""

SAMPLES = {"ping": "rxe-rping.pcap", "sweep": "opensm-first-sweep.pcap", "slow": "slow-lab.pcap"}


def app_on(path: Path) -> TuiApp:
    def options() -> CheckOptions:
        load()
        return CheckOptions(rules=[REGISTRY[code] for code in RULES])

    memory = Profile(path.parent / "screen.json")
    return TuiApp([CaptureModel(str(path))], options, history=FilterHistory(path.parent / "history"), memory=memory)


def text_of(svg: str) -> list[str]:
    """The lines of a picture: its texts by their height."""
    lines: dict[float, list[tuple[float, str]]] = {}
    for x, y, text in re.findall(r'<text class="[^"]*" x="([\d.]+)" y="([\d.]+)"[^>]*>([^<]*)</text>', svg):
        lines.setdefault(float(y), []).append((float(x), html.unescape(text)))
    found = ["".join(text for _, text in sorted(lines[y])).replace("\xa0", " ").split() for y in sorted(lines)]
    return [" ".join(words) for words in found]


@pytest.mark.parametrize("name", SHOTS)
async def test_looks_the_same(tmp_path: Path, name: str, same: Callable[[str, str], None]) -> None:
    size, theme, keys = SHOTS[name]
    app = app_on(made.capture(tmp_path))
    async with app.run_test(size=size) as pilot:
        app.theme = theme
        for input_ in app.query(Input):
            input_.cursor_blink = False
        await until(pilot, lambda: app.study.finished and app.main.tree_pane.lines)
        drawn.segments(app)
        await pilot.pause(0.3)  # columns are as wide as what was drawn first
        for key in keys:
            before = app.screen
            await pilot.press({".": "full_stop", "_": "underscore"}.get(key, key))
            if key in "Cbs" and "slash" not in keys:
                await until(pilot, lambda before=before: app.screen is not before)
        await pilot.pause(0.3)
        same(name, drawn.picture(app, name))


@pytest.fixture
def same(golden: Callable[[str, bytes], None], request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compares a picture with the one of that name."""

    def compare(name: str, svg: str) -> None:
        if request.config.getoption("--update-golden") or (GOLDEN / "versions.txt").read_text() == VERSIONS:
            golden(f"{name}.svg", svg.encode())
            golden("versions.txt", VERSIONS.encode())
        else:
            assert text_of(svg) == text_of((GOLDEN / f"{name}.svg").read_text())

    return compare


def app_for(walk: str, folder: Path, repo: Path) -> TuiApp:
    """The application on the capture of a walk."""
    path = folder / f"{walk}.pcap"
    if walk == "points":
        points = [repo / f"docs/examples/lost/{name}.pcap" for name in ("client", "tap", "server")]
        return made.app_on_points(points, folder / "points.pcapng")
    if walk in SAMPLES:
        shutil.copy(repo / "captures" / SAMPLES[walk], path)
        return app_on(path)
    lid = routed(0x15, port_info(6), 1, 3, modifier=1)
    lft = craft.smp(0x81, 0x19, bytes([255, 1, 255, 255, 255, 255, 3]).ljust(64, b"\xff"), path=[1])
    path.write_bytes(craft.erf_pcap([*FRAMES, manager(2), *edit(p_keys(0xFFFF, 0x4321), 1, 3), lid, manager(3), lft]))
    return app_on(path)


def place(screen: str, size: tuple[int, int], theme: str) -> str:
    return f"{screen}-{size[0]}x{size[1]}-{theme}"


@pytest.mark.parametrize("theme", [THEMES[0], *(pytest.param(theme, marks=pytest.mark.thorough) for theme in THEMES[1:])])
@pytest.mark.parametrize("walk", WALKS)
async def test_screens_at_three_sizes(walk: str, theme: str, tmp_path: Path, repo: Path, same: Callable[[str, str], None]) -> None:
    app = app_for(walk, tmp_path, repo)
    async with app.run_test(size=SIZES[-1]) as pilot:
        app.theme = f"ibdissect-{theme}"
        await until(pilot, lambda: app.study.finished and app.main.tree_pane.lines)
        app.jump(6)
        await shows(pilot, 6)
        for screen, keys in WALKS[walk].items():
            await pilot.resize_terminal(*SIZES[-1])
            for key in keys:
                await pilot.press(key)
                if key == keys[0] and screen != "journey":
                    await until(pilot, lambda: app.screen is not app.main)
                await pilot.pause(0.2)
            for size in SIZES:
                await pilot.resize_terminal(*size)
                await pilot.pause(0.1)
                same(place(screen, size, theme), drawn.picture(app, screen))
            while app.screen is not app.main:
                await pilot.press("escape")


async def test_pictures_of_the_tutorial_show_what_the_screen_shows(tmp_path: Path, repo: Path) -> None:
    """The keys that docs/why-is-it-slow.md names lead to what its pictures show: `python docs/screenshots.py` draws them."""
    module = runpy.run_path(str(repo / "docs/screenshots.py"))
    for name, capture, keys in module["OWN"]:
        await module["shoot"](repo / "captures", name, capture, keys, tmp_path)
        pictures = ((folder / f"tui-{name}.svg").read_text() for folder in (repo / "docs/images", tmp_path))
        shown, now = (text_of(re.sub("[▁▂▃▄▅▆▇]", "", picture)) for picture in pictures)  # ends of scroll bars
        assert shown == now, name
        assert f"images/tui-{name}.svg" in (repo / "docs/why-is-it-slow.md").read_text()


def test_every_picture_is_drawn_and_none_is_left_over() -> None:
    screens = [screen for walk in WALKS.values() for screen in walk]
    names = {*SHOTS, *(place(screen, size, theme) for screen in screens for size in SIZES for theme in THEMES)}
    assert {path.name for path in GOLDEN.iterdir()} == {f"{name}.svg" for name in names} | {"versions.txt"}
    assert all(len(text_of((GOLDEN / f"{name}.svg").read_text())) > 15 for name in names)

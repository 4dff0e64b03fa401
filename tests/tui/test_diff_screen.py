"""The screen of `diff --tui` shows every change, harmless, and ends."""

from __future__ import annotations

from ibdissect.tui.diff_screen import ChangesApp
from tests.tui.made import focused


async def test_every_change_is_a_line() -> None:
    app = ChangesApp("2 changes", ["+ node  n\x1b[31m7", "~ LID  n7 port 1 had 3, has 4"])
    async with app.run_test(size=(80, 10)) as pilot:
        changes = focused(app)
        shown = ["".join(segment.text for segment in changes.render_line(line)) for line in range(2)]
        assert "had 3, has 4" in shown[1]
        assert shown[0].startswith(" + node  n") and "\x1b" not in shown[0]
        await pilot.press("down")
        assert changes.cursor == 1
        await pilot.press("q")
    assert app.return_code == 0


async def test_long_changes_are_wrapped() -> None:
    """Nothing is cut; each line has the sign of its change."""
    words = [f"word{i:02}" for i in range(30)]
    app = ChangesApp("1 change", [f"+ {' '.join(words)}"])
    async with app.run_test(size=(60, 10)) as pilot:
        changes = focused(app)
        await pilot.pause(0.1)
        shown = ["".join(segment.text for segment in changes.render_line(line)) for line in range(len(changes.lines))]
        assert " ".join(shown).replace("+", "").split() == words and all(line.startswith(" +") for line in shown)

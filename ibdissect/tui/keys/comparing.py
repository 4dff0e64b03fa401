"""Compare two captures that are open (=)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ibdissect.errors import IbdissectError
from ibdissect.wire.text import counted

from ..diff_screen import Changes, ChangesScreen
from .command import Command

if TYPE_CHECKING:
    from ..app import TuiApp
    from ..open_capture import OpenCapture


def compare(app: TuiApp) -> None:
    """Show what changed from the capture of another tab to this one; of two, from the left one to the right one."""
    others = [one for one in app.captures if one is not app.capture]
    entries = [(str(i), f"from {one.name}", one.model.path) for i, one in enumerate(others)]
    if len(others) == 1:
        _compare(app, *app.captures)
    else:
        none = "Only one capture is open: Ctrl+O opens the one to compare it with"
        app.choose(f"What changed to {app.capture.name}", entries, lambda key: _compare(app, others[int(key)], app.capture), none)


def _compare(app: TuiApp, before: OpenCapture, after: OpenCapture) -> None:
    sources = [one.model.source for one in (before, after)]
    if any(not isinstance(source, str) or source == "-" or one.model.live for source, one in zip(sources, (before, after), strict=True)):
        app.note("Only files can be compared: a pipe and a capture that grows cannot be read again")
        return
    first, second = map(str, sources)

    def work(wanted: Callable[[], bool]) -> None:
        from ibdissect.screen_model.comparing import compared  # not needed for the first rows

        try:
            lines = compared(first, second, app.load(), wanted)
        except IbdissectError as error:
            app.call_later(done, None, str(error))
        else:
            if lines is not None and wanted():
                app.call_later(done, lines, "")

    def done(lines: list[str] | None, error: str) -> None:
        app.main.key_bar.say("")
        if lines is None:
            app.warn(error)
        else:
            title = f"{counted(len(lines), 'change') if lines else 'No changes'} from {before.name} to {after.name}"
            app.push_screen(ChangesScreen(title, Changes(lines)))

    app.main.key_bar.say(f"comparing {before.name} with {after.name}…", stays=True)
    app.searching.work.run(work, "compare", app.model)


COMMANDS = (Command("equals_sign", "Compare with another open capture", compare, "Keep", "what changed between two open captures"),)

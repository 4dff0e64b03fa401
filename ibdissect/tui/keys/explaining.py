"""The findings pane (F) and the explanation of a finding (e)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ibdissect.errors import CaptureError, ConfigError
from ibdissect.lint.finding import Finding
from ibdissect.screen_model.tree_layers import proof_text

from ..screens.page import finding_page
from .command import Command

if TYPE_CHECKING:
    from ..app import TuiApp


class Configuration(NamedTuple):
    """The file that says which rules run."""

    path: str
    """Where it is, or would be."""
    ignore: Callable[[str], object]
    """Adds a rule, by its code, to those that do not run. Raises ConfigError or CaptureError: the file stays as it was."""


PROOFS = 32
"""Frames of a finding whose values are shown."""


def explain(app: TuiApp, finding: Finding) -> None:
    """Why it matters, what to do, and which frames prove it."""
    there = sorted({one.frame for one in finding.related if 0 < one.frame <= app.model.index.frames})[:PROOFS]
    said = {line.frame: line.info for line in app.model.lines(there)}
    said |= {frame: text for frame, tree in app.model.trees(there).items() if (text := proof_text(tree, finding))}
    page = finding_page(finding, app.study.rules.get(finding.code), app.model.catalog, said, app.study.names)
    page.here = app.main.packets.frame

    def done(frame: int | None) -> None:
        if frame == 0:
            silence(app, finding.code)
        else:
            app.jumping.to_proof(frame, finding)

    app.push_screen(page, done)


def silence(app: TuiApp, code: str) -> None:
    """Ask how the findings of a rule are to be left out: here and now, or in all runs, by a line of the configuration."""
    line, file = f'ignore = ["{code}"]', app.configuration
    entries = [("here", "until the end of this session", ""), ("line", "always: copy the line for ibdissect.toml", line)]
    entries += [("file", "always: write it to the configuration", file.path)] if file is not None else []

    def done(key: str) -> None:
        if key == "file":
            sure = [("", "no", "nothing is written"), ("file", f"add {code} to `ignore`", "all else in it stays as it is")]
            app.choose(f"Change {file.path if file is not None else ''}?", sure, lambda yes: write() if yes else None)
        else:
            if key == "line":
                app.copy_to_clipboard(line)
            silent(f"; copied: {line}" if key == "line" else " in this session")

    def write() -> None:
        try:
            assert file is not None
            file.ignore(code)
        except (CaptureError, ConfigError) as error:
            app.warn(str(error))
        else:
            silent(f", also in later runs: {file.path}")

    def silent(how: str) -> None:
        app.model.findings.silence(code)
        app.main.packets.redraw()
        app.news()
        app.main.key_bar.say(f"{code} is silent{how}")

    app.choose(f"Silence {code}", entries, done)


def explain_frame(app: TuiApp) -> None:
    """Explain the finding of the selected frame; ask which one if there are several."""
    found = app.model.findings.of_frame(app.main.packets.frame)
    if len(found) == 1:
        explain(app, found[0])
    else:
        entries = [(str(i), f"{one.code} {one.name}", one.message) for i, one in enumerate(found)]
        none = f"Frame {app.main.packets.frame} has no finding; f goes to the next one"
        app.choose("Which finding?", entries, lambda key: explain(app, found[int(key)]), none)


COMMANDS = (
    Command("F", "Findings pane", lambda app: app.main.toggle("findings"), "Findings", "findings pane; o groups by rule", "findings", 9),
    Command("e", "Explain the finding", explain_frame, "Findings", "explain: what, why, what to do, what proves it", "explain", 5),
)

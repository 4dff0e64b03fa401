"""`ibdissect tui`: opens a capture in the terminal UI."""

from __future__ import annotations

import os
import sys
from typing import IO, Any

import click

from ibdissect.cli.common import common_options, loaded_catalog, plugin_names, settings
from ibdissect.errors import CaptureError, ConfigError


@click.command(short_help="Open a capture in the terminal UI.")
@click.argument("capture", metavar="CAPTURE")
@click.option("--follow", is_flag=True, help="Go on reading while the file grows.")
@common_options
def command(capture: str, follow: bool, **common: Any) -> None:
    """Open CAPTURE (a file, or `-` for a pipe) and walk it. Press ? for the keys.

    Exit status 2: the capture cannot be opened, or standard output is no terminal (use `ibdissect show` there).
    """
    in_browser = os.environ.get("TEXTUAL_DRIVER", "").startswith("textual.drivers.web_driver:")  # `ibdissect serve` draws it
    if not sys.stdout.isatty() and not in_browser:
        hint = f"print the frames with: ibdissect show {capture}"
        raise CaptureError(capture, "the terminal UI needs a terminal on standard output", hint=hint)
    if common["frames"]:
        raise ConfigError("--frames", common["frames"], "the terminal UI shows all frames", hint="use -Y 'frame.number in {1..10}'")
    from ibdissect.cli.checking import check_options

    catalog, _ = loaded_catalog(common)
    made = check_options(common) if settings(common).judges else None  # what is wrong with it is said before the screen is drawn
    if common["filter"]:
        from ibdissect.dfilter.compile import compile_filter

        compile_filter(common["filter"], catalog)
    from ibdissect.tui.app import TuiApp
    from ibdissect.tui.model import CaptureModel

    source = standard_input() if capture == "-" else capture
    model = CaptureModel(source, catalog=catalog, show_keys=common["show_keys"], follow=follow)
    if not in_browser:
        _terminal_for_output()
    # The thread that draws must not wait long for those that compute.
    sys.setswitchinterval(0.001)
    app = TuiApp(model, lambda: made or check_options(common), display_filter=common["filter"] or "")
    if names := plugin_names(common):
        from ibdissect.plugins import load as load_plugins
        from ibdissect.tui.columns import with_fields

        app.packets.columns = with_fields(app.packets.columns, load_plugins(names).columns)
    try:
        app.run()
    finally:
        model.close()


def standard_input() -> IO[bytes]:
    """The pipe on standard input, moved aside so that the keyboard can be read from the terminal."""
    if sys.stdin is None or sys.stdin.isatty():
        raise CaptureError("-", "standard input is a terminal", hint="pipe a capture into it: ibdump -w - | ibdissect tui -")
    pipe = os.fdopen(os.dup(0), "rb", buffering=0)
    try:
        terminal = os.open("/dev/tty", os.O_RDWR)
    except OSError as error:
        raise CaptureError("-", f"there is no terminal for the keyboard: {error.strerror}") from error
    os.dup2(terminal, 0)
    os.close(terminal)
    return pipe


def _terminal_for_output() -> None:
    """The screen is drawn through standard error: where that is redirected, it goes to the terminal of standard output."""
    if not sys.stderr.isatty():
        sys.stderr.flush()
        os.dup2(1, 2)

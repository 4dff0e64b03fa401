"""`ibdissect tui`: opens a capture in the terminal UI."""

from __future__ import annotations

import os
import select
import shlex
import signal
import subprocess
import sys
import threading
from functools import partial
from typing import IO, TYPE_CHECKING, Any

import click

from ibdissect.capture.remote import is_url
from ibdissect.cli.common_options import CommonOptions, common_options, refuse, without
from ibdissect.cli.output import early_options, set_option, source_of
from ibdissect.cli.sandbox import confine, sandbox_option
from ibdissect.errors import CaptureError
from ibdissect.shown_urls import public_name

if TYPE_CHECKING:
    from ibdissect.pipeline.check import CheckOptions
    from ibdissect.screen_model.capture_model import CaptureModel


@click.command()
@click.argument("captures", nargs=-1, metavar="CAPTURE...")
@click.option("--live", metavar="COMMAND", help="Show what this command captures: tcpdump -U -i eth0 -w - udp port 4791.")
@set_option
@click.option("--points", is_flag=True, help="Match several captures of the same traffic, and show them as one: see `ibdissect points`.")
@click.option("--follow", is_flag=True, help="Go on reading while the file grows; with --set also the files after it.")
@sandbox_option
@without("frames", reason="the terminal UI shows all frames", hint="use -Y 'frame.number in {1..10}'")
@common_options
def command(
    captures: tuple[str, ...], live: str | None, as_set: bool, points: bool, follow: bool, sandbox: bool, common: CommonOptions
) -> None:
    """Browse CAPTURE (a file, or `-` for a pipe), or what the command of --live writes to its standard output. Press ? for the keys.
    Several captures are opened as tabs.

    The command of --live is started without a shell, and ends with the screen. With --points several captures of the same traffic are
    shown in one order of time, with the point as a column, each packet's way as a comment, and delays in the time chart.

    Exit status 2: the capture cannot be opened, or standard output is not a terminal (use `ibdissect show` instead).
    """
    if bool(captures) == (live is not None):
        raise click.UsageError("name a capture, or a command with --live")
    if points:
        refuse("as_set", "follow", "live", reason="does nothing with --points, which takes the captures of several points")
    if "-" in captures and len(captures) > 1:
        raise click.UsageError("standard input is opened alone")
    capture = source_of(captures, as_set, quiet=common.quiet) if as_set or len(captures) == 1 else captures[0] if captures else "-"
    in_browser = os.environ.get("TEXTUAL_DRIVER", "").startswith("textual.drivers.web_driver:")  # started by `ibdissect serve`
    if not sys.stdout.isatty() and not in_browser:
        instead = "compare them with: ibdissect points" if points else f"print the frames with: ibdissect show{' --set' * as_set}"
        hint = f"{instead} {' '.join(map(public_name, captures)) or '-'}"
        raise CaptureError(public_name(str(capture)), "the terminal UI needs a terminal on standard output", hint=hint)
    made = early_options(common, points=points)
    process = started(live) if live is not None else None
    source: Any = process.stdout if process is not None else standard_input() if capture == "-" else capture
    hang_up_with_terminal()  # before Textual is loaded, which takes seconds on a busy machine
    from ibdissect.screen_model.capture_model import CaptureModel

    if sandbox:
        _confine(common, network=any(map(is_url, captures)))
    several = None
    if points:
        from ibdissect.cli.points import MergedCapture

        several = MergedCapture(captures, common)
    try:
        every = (several.file.name,) if several is not None else (source, *(() if as_set else captures[1:]))
        models = [CaptureModel(one, catalog=common.loaded()[0], show_keys=common.show_keys, follow=follow) for one in every]
    except CaptureError as error:
        raise (error if process is None else CaptureError(public_name(live or ""), f"it wrote no capture{ended(process)}")) from error
    if live is not None:
        models[0].path = public_name(live)
    if several is not None and made is not None:
        several.tell(models[0])
        made.policy = several.known
    try:
        _show(models, made, common, in_browser)
    finally:
        for model in models:
            model.close()
        if process is not None:
            ended(process)


def _confine(common: CommonOptions, *, network: bool) -> None:
    """Start the sandbox; the files in which the screen remembers its state stay writable."""
    from ibdissect.screen_model.saved_state import state_folder

    folder = state_folder()
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    confine(common, [str(folder)] if folder is not None else [], network=network)


def _show(models: list[CaptureModel], options: CheckOptions | None, common: CommonOptions, in_browser: bool) -> None:
    """Run the screen until it is left."""
    from ibdissect.cli import config_edit
    from ibdissect.cli.effective_options import check_options
    from ibdissect.tui.app import TuiApp
    from ibdissect.tui.drivers import BrowserDriver, TerminalDriver
    from ibdissect.tui.keys.explaining import Configuration

    if not in_browser and not sys.stderr.isatty():  # Textual draws on it: point it to the terminal of standard output
        sys.stderr.flush()
        os.dup2(1, 2)
    sys.setswitchinterval(0.001)  # computing threads must not delay the one that draws
    fields: tuple[str, ...] = ()
    if names := common.plugin_names:
        from ibdissect.plugins import load

        fields = load(names).columns
    driver: Any = BrowserDriver if in_browser else TerminalDriver
    file = config_edit.written(common.settings)
    TuiApp(
        models, lambda: options or check_options(common), display_filter=common.filter or "", driver=driver, fields=fields,
        configuration=None if in_browser else Configuration(file, partial(config_edit.ignore, file)),
    ).run()


def started(command: str) -> subprocess.Popen[bytes]:
    """The user's own command, without a shell; its messages, which would be written over the screen, are dropped.

    Raises CaptureError when it cannot be started.
    """
    try:
        words = shlex.split(command)
        return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0)
    except (OSError, ValueError, IndexError) as error:
        raise CaptureError(public_name(command), f"it cannot be started: {error}") from error


def ended(process: subprocess.Popen[bytes]) -> str:
    """End the command; returns how it ended if it did so by itself."""
    status = process.poll()
    process.terminate()
    try:
        process.wait(2)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    return f" (exit status {status})" if status else ""


def standard_input() -> IO[bytes]:
    """The pipe on standard input, moved to another descriptor so that the keyboard can be read from the terminal.

    Raises CaptureError if there is no pipe or no terminal.
    """
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


def hang_up_with_terminal() -> None:
    """From now on SIGHUP comes when the terminal, or the server at the other end of the pipes, is gone; a kernel sends it only to some.

    It ends the process also under `nohup`, which ignores it: a screen without a terminal is of no use. Called from the main thread.
    """
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    threading.Thread(target=_watch, daemon=True, name="hangup").start()


def _watch() -> None:
    """Wait, without waking up, until standard input or output hangs up."""
    poll = select.poll()
    for descriptor in (0, 1):
        poll.register(descriptor, 0)
    if any(event & (select.POLLHUP | select.POLLERR) for _, event in poll.poll()):
        os.kill(os.getpid(), signal.SIGHUP)

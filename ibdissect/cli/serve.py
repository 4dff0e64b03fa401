"""`ibdissect serve`: the terminal UI in a browser, for this machine alone."""

from __future__ import annotations

import os
import shlex
import socket
import sys

import click

from ibdissect.capture.remote import is_url
from ibdissect.cli.common_options import CommonOptions, common_options, say, without
from ibdissect.cli.output import early_options
from ibdissect.cli.sandbox import sandbox_option
from ibdissect.errors import CaptureError, ConfigError, missing_extra
from ibdissect.shown_urls import public_name
from ibdissect.wire.text import printable

HOST = "127.0.0.1"


@click.command()
@click.argument("capture", metavar="CAPTURE")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port on 127.0.0.1.  [any free one]")
@click.option("--follow", is_flag=True, help="Go on reading while the file grows.")
@sandbox_option
@without("frames", reason="the terminal UI shows all frames", hint="use -Y 'frame.number in {1..10}'")
@common_options
def command(capture: str, port: int, follow: bool, sandbox: bool, common: CommonOptions) -> None:
    """Show the terminal UI for CAPTURE in a browser on this machine, until Ctrl+C.

    It prints the address to open: http://127.0.0.1:PORT/ with a secret word. Every browser window opens the capture again.
    Only this machine can connect; its other users and pages of other sites are refused.
    """
    if capture == "-":
        raise CaptureError("-", "a pipe can be read only once, a browser opens the capture for every window", hint="give a file")
    from ibdissect.python_interface import Capture

    Capture(capture, plugins=common.plugin_names).close()  # report errors here, not in the browser
    early_options(common)
    try:
        from ibdissect.cli.browser import LocalServer
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("textual_serve", "aiohttp", "aiohttp_jinja2", "jinja2"):
            raise
        raise missing_extra("serve", "textual-serve") from error
    chosen = free_port(port)
    given = capture if is_url(capture) else os.path.abspath(capture)
    words = ["tui", given, *["--follow"] * follow, *["--sandbox"] * sandbox, *passed_on(common)]
    server = LocalServer(command_line(words), HOST, chosen, printable(f"ibdissect {os.path.basename(public_name(capture))}"))
    say(server.address if common.quiet else f"{printable(public_name(capture))} is at {server.address}  (Ctrl+C ends it)")
    server.serve()


def command_line(words: list[str]) -> str:
    """The shell command for one browser window, with every word quoted. The shell becomes the screen, so signals reach it."""
    return "exec " + shlex.join([sys.executable, "-P", "-m", "ibdissect", *words])


def passed_on(common: CommonOptions) -> list[str]:
    """The common options as command-line words for the terminal UI."""
    words = [*(f"--plugin={name}" for name in common.plugins), *(f"--subnet={name}" for name in common.subnet)]
    words += [f"--roce-port={port}" for port in common.roce_ports]
    for name in ("config", "filter", "color", "subnet_time", "max_unpacked"):
        if value := getattr(common, name):
            words.append(f"--{name.replace('_', '-')}={value}")
    return [
        *words,
        *(["--names"] if common.name_ports else ["--no-names"] if common.name_ports is False else []),
        *(["--show-keys"] if common.show_keys else []),
    ]


def free_port(wanted: int) -> int:
    """The port, or any free one for 0. Raises ConfigError if it is in use."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, wanted))
        except OSError as error:
            raise ConfigError("--port", str(wanted), f"cannot be used: {error.strerror}") from error
        number: int = probe.getsockname()[1]
        return number

"""What do the options of all commands mean: filter, frames, colour, plugins, masking?"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any, TypeVar

import click

from ibdissect.errors import ConfigError
from ibdissect.wire.text import printable

from .config import Config, read_config

F = TypeVar("F", bound=Callable[..., Any])
Paint = Callable[[str, str], str]

STYLES = {
    "error": "bold red", "warning": "yellow", "info": "blue", "path": "bold", "faint": "dim", "layer": "bold cyan", "label": "",
    "malformed": "bold red", "number": "dim", "protocol": "cyan",
}  # fmt: skip


def common_options(function: F) -> F:
    """Add the common options; the command receives them as keywords (see `loaded_catalog`, `limits`)."""
    for option in reversed(
        (
            click.option("-Y", "--filter", "filter", metavar="FILTER", help="Only frames that match this display filter."),
            click.option("--frames", "frames", metavar="LIST", help="Only these frames: 1-10,17,100-."),
            click.option("-q", "--quiet", is_flag=True, help="Say less."),
            click.option("--color", type=click.Choice(("auto", "always", "never")), help="Colour on a terminal, always, or never.  [auto]"),
            click.option("--config", "config", metavar="FILE", help="Configuration file (default: ibdissect.toml, pyproject.toml)."),
            click.option("--plugin", "plugins", multiple=True, metavar="FILE|MODULE", help="Load structures and rules; may be repeated."),
            click.option(
                "--subnet",
                "subnet",
                multiple=True,
                metavar="[KIND:]FILE",
                help="What is known of the subnet: files, directories, globs (docs/know-your-subnet.md); may be repeated.",
            ),
            click.option("--subnet-time", metavar="TIME", help="When these files were true (2026-11-30T12:00), not their own times."),
            click.option("--names", "name_ports", is_flag=True, help="With --subnet: names of nodes in messages and columns."),
            click.option("--show-keys", is_flag=True, help="Show M_Keys, SM_Keys, B_Keys, CC_Keys, Q_Keys and R_Keys unmasked."),
        )
    ):
        function = option(function)
    return function


def settings(common: dict[str, Any]) -> Config:
    """The configuration: the given file, or the nearest one above the working directory."""
    found = common.get("settings")
    if not isinstance(found, Config):
        found = common["settings"] = read_config(common.get("config"))
        if found.refused:
            say(f"warning: {found.refused}")
    return found


def plugin_names(common: dict[str, Any]) -> tuple[str, ...]:
    """Plugins from the configuration, then those from the command line."""
    return (*settings(common).plugins, *common.get("plugins", ()))


def loaded_catalog(common: dict[str, Any]) -> tuple[Any, tuple[Any, ...]]:
    """Catalog (None: the built-in one), and the rules of the plugins and of the configuration file.

    PluginError when a plugin cannot be loaded, ConfigError when a rule of the file is wrong.
    """
    names, config = plugin_names(common), settings(common)
    catalog: Any = None
    rules: tuple[Any, ...] = ()
    if names:
        from ibdissect.plugins import load

        loaded = load(names)
        catalog, rules = loaded.catalog, loaded.rules
    if config.rule:
        from ibdissect.lint.declared import rules_of
        from ibdissect.rules import load as load_rules

        load_rules()  # load built-in rules first, so that a duplicate code is blamed on the file
        rules = (*rules, *rules_of(config.rule, config.source, catalog))
    return catalog, rules


def subnet_files(common: dict[str, Any]) -> Any:
    """What the files of --subnet say, or else those of the configuration; None without any. SubnetFileError, ConfigError."""
    arguments = tuple(common.get("subnet") or settings(common).subnet)
    if not arguments:
        return None
    if "subnet_files" not in common:
        from ibdissect.subnet import read_files

        common["subnet_files"] = read_files(arguments, _seconds(common.get("subnet_time")))
        for note in () if common.get("quiet") else common["subnet_files"].notes:
            say(f"note: {note}")
    return common["subnet_files"]


def port_names(common: dict[str, Any], *, asked: bool = True) -> Any:
    """Names of ports from the files of --subnet; None without --names (`asked`: whether it must be given). ConfigError without files."""
    if asked and not common.get("name_ports"):
        return None
    files = subnet_files(common)
    if files is None:
        if asked:
            raise ConfigError("--names", "--subnet", "is missing, as names come from its files")
        return None
    if "port_names" not in common:
        from ibdissect.subnet.names import names_of

        common["port_names"] = names_of(files)
    return common["port_names"]


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    from datetime import datetime

    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError) as error:
        raise ConfigError("--subnet-time", text, "is no time", hint="write 2026-11-30 or 2026-11-30T12:00") from error


def limits(common: dict[str, Any], catalog: Any = None) -> Any:
    """The limits on frames (`limits.Limits`), None without any. Raises FilterError or ConfigError if they are not valid."""
    text, frames = common.get("filter"), common.get("frames")
    if text is None and frames is None:
        return None
    from .limits import Limits

    names = port_names(common, asked=False) if text is not None and ".node" in text else None
    return Limits.parse(text, frames, catalog, show_keys=bool(common.get("show_keys")), hosts=names.hosts if names is not None else None)


def coloured(choice: str | None, stream: IO[str]) -> bool:
    """Whether to colour: on a terminal, unless NO_COLOR is set (no-color.org)."""
    if choice in ("always", "never"):
        return choice == "always"
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def painter(choice: str | None, stream: IO[str]) -> Paint:
    """A function (text, style) -> text; without colour it returns the text."""
    if not coloured(choice, stream):
        return lambda text, style: text
    from rich.color import ColorSystem
    from rich.style import Style

    known = {name: Style.parse(definition) for name, definition in STYLES.items()}
    return lambda text, style: known[style].render(text, color_system=ColorSystem.STANDARD) if style in known else text


def paint_for(common: dict[str, Any], stream: IO[str]) -> Paint:
    """The painter chosen by command line or configuration."""
    return painter(common["color"] or settings(common).color, stream)


def say(text: str) -> None:
    """Print one line on standard error; escapes line breaks and all else that a terminal or CI system could interpret."""
    click.echo(printable(text), err=True)


def damage_text(path: str, damage: Any) -> str:
    """Damage in a capture file, as one line."""
    went_on = f", reading went on at byte {damage.resumed}" if damage.resumed is not None else ""
    return f"warning: {path}: {damage.kind} at byte {damage.offset}, after frame {damage.frame}: {damage.reason}{went_on}"


@contextmanager
def progress_bar(files: list[str], *, quiet: bool = False) -> Iterator[Callable[[int, int], None] | None]:
    """A callback (frames, bytes so far in the current file) that moves a bar; None if standard error is not a terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    total = sum(os.path.getsize(file) for file in files if os.path.isfile(file)) or None
    columns = (BarColumn(), TextColumn("{task.percentage:>3.0f} %  {task.fields[frames]} frames"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=total, frames=0)
        before = last = 0

        def moved(frames: int, position: int) -> None:
            nonlocal before, last
            if position < last:
                before += last
            last = position
            progress.update(task, completed=before + position, frames=f"{frames:,}")

        yield moved

"""The options of all commands: filter, frames, colour, plugins, masking."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from functools import cached_property, wraps
from typing import IO, TYPE_CHECKING, Any, TypeVar, cast

import click
from click.core import ParameterSource
from msgspec import Struct as Record

from ibdissect.errors import ConfigError
from ibdissect.shown_urls import public_name, without_secrets
from ibdissect.wire.text import Paint, counted, plain, printable, visible_json

from .config import Config, configured_by
from .console import echo

if TYPE_CHECKING:
    from ibdissect.capture.chunk import Damage
    from ibdissect.capture.named_files import NamedFiles
    from ibdissect.lint.rule import Rule
    from ibdissect.subnet.files import SubnetFiles
    from ibdissect.subnet.node_names import NodeNames
    from ibdissect.wire.catalog import Catalog

    from .frame_selection import FrameSelection

F = TypeVar("F", bound=Callable[..., Any])

OF_CAPTURES = ("filter", "frames", "subnet", "subnet_time", "name_ports", "show_keys", "max_unpacked", "roce_ports")
"""Options that make sense only for commands on captures."""
STYLES = {
    "error": "bold red", "warning": "yellow", "info": "blue", "path": "bold", "faint": "dim", "layer": "bold cyan", "label": "",
    "malformed": "bold red", "number": "dim", "protocol": "cyan",
}  # fmt: skip


def grouped(kind: type[Any], name: str, *options: Callable[[F], F]) -> Callable[[F], F]:
    """Options whose values a command receives as one value of `kind`, in its parameter `name`."""

    def add(function: F) -> F:
        @wraps(function)
        def called(**given: Any) -> Any:
            group = kind(**{field: given.pop(field) for field in kind.__struct_fields__})
            return function(**given, **{name: group})

        for option in reversed(options):
            called = option(called)
        return cast("F", called)

    return add


def refuse(*names: str, reason: str, hint: str = "") -> None:
    """Raise ConfigError for the first of some parameters that was given although the command cannot use it."""
    context = click.get_current_context(silent=True)
    for option in context.command.params if context is not None else ():
        assert context is not None
        if option.name in names and context.get_parameter_source(option.name) is ParameterSource.COMMANDLINE:
            value, name = context.params[option.name], option.opts[0]
            if value is True:
                raise ConfigError(str(context.info_name), name, reason, hint=hint)
            raise ConfigError(name, " ".join(map(str, value)) if isinstance(value, tuple) else str(value), reason, hint=hint)


def without(*names: str, reason: str, hint: str = "") -> Callable[[F], F]:
    """Options of all commands that a command cannot use: leave them out of its help, and refuse them."""

    def add(function: F) -> F:
        for option in function.__click_params__:  # type: ignore[attr-defined]
            option.hidden = option.hidden or option.name in names

        @wraps(function)
        def called(**given: Any) -> Any:
            refuse(*names, reason=reason, hint=hint)
            return function(**given)

        return cast("F", called)

    return add


class CommonOptions(Record, dict=True):
    """The options of all commands, and what follows from them: files are read on first use."""

    filter: str | None = None
    frames: str | None = None
    quiet: bool = False
    color: str | None = None
    config: str | tuple[str, ...] | None = None
    """A configuration file, and values (KEY=VALUE) that override those of the file."""
    plugins: tuple[str, ...] = ()
    subnet: tuple[str, ...] = ()
    subnet_time: str | None = None
    name_ports: bool | None = None
    """Whether to name nodes; None: where nothing else is said, findings do, columns do not."""
    show_keys: bool = False
    max_unpacked: int | None = None
    roce_ports: tuple[int, ...] = ()

    @cached_property
    def settings(self) -> Config:
        """The configuration: the given file, or the nearest one above the working directory."""
        found = configured_by((self.config,) if isinstance(self.config, str) else self.config or ())
        if found.refused:
            say(f"warning: {found.refused}")
        return found

    @property
    def plugin_names(self) -> tuple[str, ...]:
        """Plugins from the configuration, then those from the command line."""
        return (*self.settings.plugins, *self.plugins)

    def loaded(self) -> tuple[Catalog | None, tuple[type[Rule], ...]]:
        """Catalog (None: the built-in one), and the rules of the plugins and of the configuration file.

        PluginError when a plugin cannot be loaded, ConfigError when a rule of the file is wrong.
        """
        catalog: Catalog | None = None
        rules: tuple[type[Rule], ...] = ()
        if self.plugin_names:
            from ibdissect.plugins import load

            loaded = load(self.plugin_names)
            catalog, rules = loaded.catalog, loaded.rules
        if self.roce_ports:
            from ibdissect.wire.catalog import builtin

            catalog = (catalog or builtin()).with_roce(self.roce_ports)
        if self.settings.rule:
            from ibdissect.lint.toml_rules import rules_of
            from ibdissect.rules import load as load_rules

            load_rules()  # load built-in rules first, so that a duplicate code is blamed on the file
            rules = (*rules, *rules_of(self.settings.rule, self.settings.source, catalog))
        return catalog, rules

    def named_files(self, key: str, *, by_user: bool) -> NamedFiles:
        """How files are opened that the user, or else a key of the configuration, has named."""
        from ibdissect.capture.named_files import Confined, NamedFiles

        if self.settings.found and not by_user:
            return Confined(self.settings.source, key)
        return NamedFiles(self.tell, "" if by_user else f"{self.settings.source}: {key}")

    @cached_property
    def subnet_files(self) -> SubnetFiles | None:
        """What the files of --subnet say, or else those of the configuration; None without any. SubnetFileError, ConfigError."""
        arguments = self.subnet or self.settings.subnet
        if not arguments:
            refuse("subnet_time", reason="does nothing without files about the subnet", hint="name them with --subnet")
            return None
        from ibdissect.subnet.files import read_files

        files = read_files(arguments, _seconds(self.subnet_time), self.named_files("site.subnet", by_user=bool(self.subnet)))
        for note in files.notes:
            self.tell(f"note: {note}")
        return files

    @cached_property
    def known_names(self) -> NodeNames | None:
        """Names of ports from the files of --subnet; None without files."""
        if self.subnet_files is None:
            return None
        from ibdissect.subnet.files.given_names import names_of

        return names_of(self.subnet_files)

    @property
    def port_names(self) -> NodeNames | None:
        """The names to show: None without --names. ConfigError without files."""
        if self.name_ports and self.subnet_files is None:
            raise ConfigError("--names", "--subnet", "is missing, as names come from its files")
        return self.known_names if self.name_ports else None

    def selection(self, catalog: Catalog | None = None) -> FrameSelection | None:
        """The frames that -Y and --frames select; None without both. Raises FilterError or ConfigError if they are not valid."""
        if self.filter is None and self.frames is None:
            return None
        from .frame_selection import FrameSelection

        selection = FrameSelection.parse(self.filter, self.frames, catalog, show_keys=self.show_keys)
        if (context := click.get_current_context(silent=True)) is not None:
            context.call_on_close(lambda: self.tell_hidden(selection.hidden_checksums))
        return selection

    def tell_hidden(self, count: int) -> None:
        """Say how many checksums a filter did not compare, because they would reveal a hidden key."""
        if count:
            self.tell(f"note: {counted(count, 'checksum')} of frames with keys were not compared; --show-keys compares them")

    def paint(self, stream: IO[str]) -> Paint:
        return painter(self.color or self.settings.color, stream)

    def tell(self, text: str) -> None:
        """`say`, unless quiet."""
        if not self.quiet:
            say(text)

    def tell_damage(self, path: str, found: Iterable[Damage]) -> None:
        """Say where a capture is damaged. If part of it could have been read but was not, the command's status is 2."""
        for damage in found:
            if damage.unread:
                incomplete(damage_text(path, damage))
            else:
                self.tell(f"warning: {damage_text(path, damage)}")


def _limited(_context: click.Context, _option: click.Parameter, text: str | None) -> int | None:
    """Parse a size, and make it the limit of this command."""
    from ibdissect.capture.compressed import Unpacking

    if text is None:
        Unpacking.most = Unpacking.usual
        return None
    size = re.fullmatch(r"(\d{1,18})([KMGT]?)", text.upper())
    if size is None or not int(size[1]):
        raise ConfigError("--max-unpacked", text, "is not a size", hint="write 500M, 20G or 2T")
    Unpacking.most = int(size[1]) << 10 * ("KMGT".index(size[2]) + 1 if size[2] else 0)
    return Unpacking.most


common_options = grouped(
    CommonOptions, "common",
    click.option("-Y", "--filter", "filter", metavar="FILTER", help="Only frames that match this display filter."),
    click.option("--frames", "frames", metavar="LIST", help="Only these frames: 1-10,17,100-."),
    click.option("-q", "--quiet", is_flag=True, help="Say less: no summary, notes or progress."),
    click.option("--color", type=click.Choice(("auto", "always", "never")), help="Colour on a terminal, always, or never.  [auto]"),
    click.option(
        "--config", "config", multiple=True, metavar="FILE|KEY=VALUE",
        help="Configuration file (default: ibdissect.toml, pyproject.toml), or a value that overrides it: fail-on=warning.",
    ),
    click.option("--plugin", "plugins", multiple=True, metavar="FILE|MODULE", help="Load structures and rules; may be repeated."),
    click.option(
        "--subnet", "subnet", multiple=True, metavar="[KIND:]FILE",
        help="Files, directories or globs that describe the subnet (docs/know-your-subnet.md); may be repeated.",
    ),
    click.option("--subnet-time", metavar="TIME", help="Time of what --subnet files say (2026-11-30T12:00).  [when they were written]"),
    click.option(
        "--names/--no-names", "name_ports", default=None,
        help="Show names of nodes in columns, too (needs --subnet), or not even in findings.  [in findings]",
    ),
    click.option(
        "--max-unpacked", metavar="SIZE", callback=_limited,
        help="Most bytes that a compressed capture may unpack to: 500M, 20G.  [1T]",
    ),
    click.option(
        "--roce-port", "roce_ports", type=click.IntRange(1, 65535), multiple=True, metavar="PORT",
        help="Read this UDP port as RoCE v2, in addition to 4791; may be repeated.",
    ),
    click.option("--show-keys", is_flag=True, help="Show M_Keys, SM_Keys, B_Keys, CC_Keys, Q_Keys and R_Keys unmasked."),
)  # fmt: skip


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    from datetime import datetime

    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError) as error:
        raise ConfigError("--subnet-time", text, "is not a time", hint="write 2026-11-30 or 2026-11-30T12:00") from error


def coloured(choice: str | None, stream: IO[str]) -> bool:
    """Whether to colour: on a terminal or with FORCE_COLOR, unless NO_COLOR is set (no-color.org, force-color.org)."""
    if choice in ("always", "never"):
        return choice == "always"
    if os.environ.get("NO_COLOR") or os.environ.get("FORCE_COLOR"):
        return not os.environ.get("NO_COLOR")
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def painter(choice: str | None, stream: IO[str]) -> Paint:
    """A function (text, style) -> text; without colour it returns the text."""
    if not coloured(choice, stream):
        return plain
    from rich.color import ColorSystem
    from rich.style import Style

    known = {name: Style.parse(definition) for name, definition in STYLES.items()}
    return lambda text, style: known[style].render(text, color_system=ColorSystem.STANDARD) if style in known else text


def columns(stream: IO[str]) -> int | None:
    """The columns of the terminal that a stream goes to; None for a pipe or a file, where lines are not wrapped."""
    if not stream.isatty():
        return None
    import shutil  # and what it imports for archives

    return shutil.get_terminal_size().columns


def say(text: str) -> None:
    """Print one line on standard error, without secrets of URLs; what a terminal or CI system could interpret is escaped."""
    echo(printable(without_secrets(text)), err=True)


WORDS = "ibdissect.words"
"""Where a context has the words of the command line."""


def command_line() -> str:
    """The command line, as a shell would take it, without secrets of URLs, values of the site's keys, and the file that is written."""
    import shlex

    context = click.get_current_context(silent=True)
    words: list[str] = context.meta.get(WORDS, []) if context is not None else []
    hidden = [re.sub(r"^((?:--config=)?site[^=]*)=.*", r"\1=...", public_name(word), flags=re.S) for word in words]
    targets = {i for i, word in enumerate(hidden) if word in ("-o", "--output")}
    shown = [word for i, word in enumerate(hidden) if not ({i, i - 1} & targets or word.startswith("--output="))]
    return shlex.join(["ibdissect", *shown])


def incomplete(reason: str) -> None:
    """Report what is missing; the command continues and exits with status 2."""
    say(f"error: {reason}")
    click.get_current_context().find_root().obj = 2


def damage_text(path: str, damage: Damage) -> str:
    """Damage in a capture file, as one line."""
    if damage.kind in ("missing", "unreadable"):
        return f"{(damage.file if damage.kind == 'unreadable' else '') or path}: {damage.reason}"
    went_on = f", reading went on at byte {damage.resumed}" if damage.resumed is not None else ""
    return f"{damage.file or path}: {damage.kind} at byte {damage.offset}, after frame {damage.frame}: {damage.reason}{went_on}"


def write_json(value: Any) -> None:
    """Print a value as indented JSON in which no character is invisible."""
    import json  # most commands print none

    echo(visible_json(json.dumps(value, indent=2, ensure_ascii=False)))

"""`ibdissect diff`: what changed in a subnet."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from ibdissect.cli.common_options import CommonOptions, common_options, incomplete, refuse, without, write_json
from ibdissect.cli.console import echo
from ibdissect.errors import ConfigError, SubnetFileError
from ibdissect.wire.text import counted, printable

if TYPE_CHECKING:
    from ibdissect.subnet import Subnet

STYLES = {"+": "info", "-": "error", "~": "warning"}


@click.command()
@click.argument("before", metavar="BEFORE")
@click.argument("after", metavar="AFTER")
@click.option("--format", "format_", type=click.Choice(("text", "json")), default="text", show_default=True)
@click.option(
    "--fail-on", default="any", show_default=True, metavar="any|never|KINDS", help="Exit 1 if any, or one of these kinds, changed."
)
@click.option("--tui", "on_screen", is_flag=True, help="Show the changes on the screen.")
@without("frames", reason="would name other frames of each side", hint="-Y selects by what frames hold")
@without("subnet", "subnet_time", reason="cannot be used here: BEFORE and AFTER say all that is compared")
@without("name_ports", reason="cannot be used here: ports have the names that each side gives them")
@common_options
def command(before: str, after: str, format_: str, fail_on: str, on_screen: bool, common: CommonOptions) -> int:
    """Compare two descriptions of a subnet: captures, subnet files, or folders of them, in any combination.

    For two captures, traffic and findings are compared (with -Y, of the frames that match), and the subnet if both contain subnet
    management.

    Exit status 0: nothing changed; 1: something changed; 2: a side cannot be read. docs/numbers.md defines each number.
    """
    from ibdissect.pipeline import compare_captures as contents
    from ibdissect.subnet.compare import KINDS, texts

    kinds = (*KINDS, *contents.KINDS)
    chosen = {"any": kinds, "never": ()}
    failing = chosen[fail_on] if fail_on in chosen else tuple(filter(None, fail_on.split(",")))
    unknown = [kind for kind in failing if kind not in kinds]
    if unknown:
        raise ConfigError("--fail-on", unknown[0], "is not a kind of change", hint=f"any, never, or some of {', '.join(kinds)}")
    if not sys.stdout.isatty():
        refuse("on_screen", reason="standard output is not a terminal", hint="leave it out to print the changes")
    found = _changes(before, after, common)
    lines = [*texts(found), *contents.texts(found, None if on_screen else contents.SHOWN)]
    total = sum(map(len, found.values()))
    title = f"{counted(total, 'change') if total else 'No changes'} from {printable(before)} to {printable(after)}"
    if on_screen:
        from ibdissect.tui.diff_screen import ChangesApp

        ChangesApp(title, lines).run()
    elif format_ == "json":
        result = {"schema": 1, "before": before, "after": after, "counts": {kind: len(list_) for kind, list_ in found.items()}, **found}
        write_json(result)
    elif not common.quiet:
        paint = common.paint(sys.stdout)
        for line in lines:
            echo(paint(printable(line), STYLES[line[0]]))
        echo(title)
    return int(any(found.get(kind) for kind in failing))


def _changes(before: str, after: str, common: CommonOptions) -> dict[str, list[dict[str, Any]]]:
    """The changes by kind. SubnetFileError if a side cannot be read, or says nothing that can be compared."""
    from ibdissect.pipeline import compare_captures as contents
    from ibdissect.subnet.compare import changes

    sides = [_side(argument, common) for argument in (before, after)]
    nameless = [argument for argument, (subnet, _) in zip((before, after), sides, strict=True) if not any(True for _ in subnet.ports())]
    captures = all(capture for _, capture in sides)
    if nameless and not captures:
        hint = "partitions.conf alone has no LIDs: put guid2lid beside it; a capture needs subnet management"
        raise SubnetFileError(nameless[0], 0, "names no port of a subnet", hint=hint)
    for argument in nameless:
        common.tell(f"note: {argument}: without subnet management, so the subnets are not compared")
    if common.filter is not None and not captures:
        raise ConfigError("-Y", common.filter, "selects frames, and not both sides are captures")
    found = {} if nameless else changes(sides[0][0], sides[1][0])
    if captures:
        from ibdissect.cli.effective_options import check_options, checked_selection, say_whose_rules

        options = check_options(common, max_findings=None)
        both = []
        for subnet, capture in sides:
            options.selection = checked_selection(common, options)
            both.append(contents.contents_of(capture, options, subnet, checked_selection(common, options)))
        found |= contents.changes(*both)
        say_whose_rules(common)
        for side in both:
            if side.error is not None:
                incomplete(side.error)
    return found


def _side(argument: str, common: CommonOptions) -> tuple[Subnet, str]:
    """What is known of the subnet, and the path if it is a single capture. SubnetFileError for files that cannot be read."""
    from ibdissect.capture.named_files import NamedFiles
    from ibdissect.subnet import Subnet
    from ibdissect.subnet.files import learn, read_files

    files = read_files([argument], named=NamedFiles(common.tell))
    capture = files.files[0].known.path if [file.kind for file in files.files] == ["capture"] else ""
    for note in () if capture else files.notes:
        common.tell(f"note: {argument}: {note}")
    subnet = Subnet()
    learn(subnet, files.files)
    return subnet, capture

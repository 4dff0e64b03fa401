"""`ibdissect diff`: what changed in a subnet."""

from __future__ import annotations

import sys

import click

from ibdissect.cli.common import Common, common_options, write_json
from ibdissect.errors import ConfigError, SubnetFileError
from ibdissect.wire.text import printable

STYLES = {"+": "info", "-": "error", "~": "warning"}


@click.command(short_help="What changed in a subnet between two captures or sets of files.")
@click.argument("before", metavar="BEFORE")
@click.argument("after", metavar="AFTER")
@click.option("--format", "format_", type=click.Choice(("text", "json")), default="text", show_default=True)
@click.option(
    "--fail-on", default="any", show_default=True, metavar="any|never|KINDS", help="Exit 1 if any, or one of these kinds, changed."
)
@common_options
def command(before: str, after: str, format_: str, fail_on: str, common: Common) -> int:
    """Compare two descriptions of a subnet: captures with subnet management, subnet files, or folders of them, in any combination.

    Exit status 0: nothing changed; 1: something did; 2: a side cannot be read.
    """
    from ibdissect.fabric.model import Subnet
    from ibdissect.subnet import learn, read_files
    from ibdissect.subnet.compare import KINDS, changes, texts

    common.refuse("filter", "frames", "subnet", reason="is of no use here: BEFORE and AFTER say all that is compared")
    chosen = {"any": KINDS, "never": ()}
    counted = chosen[fail_on] if fail_on in chosen else tuple(filter(None, fail_on.split(",")))
    unknown = [kind for kind in counted if kind not in KINDS]
    if unknown:
        raise ConfigError("--fail-on", unknown[0], "is no kind of change", hint=f"any, never, or some of {', '.join(KINDS)}")
    sides = []
    for argument in (before, after):
        files = read_files([argument])
        for note in files.notes:
            common.tell(f"note: {note}")
        subnet = Subnet()
        learn(subnet, files.files)
        if not any(True for _ in subnet.ports()):
            raise SubnetFileError(
                argument,
                0,
                "names no port of a subnet",
                hint="partitions.conf alone has no LIDs: put guid2lid beside it; a capture needs subnet management",
            )
        sides.append(subnet)
    found = changes(*sides)
    if format_ == "json":
        result = {"schema": 1, "before": before, "after": after, "counts": {kind: len(list_) for kind, list_ in found.items()}, **found}
        write_json(result)
    elif not common.quiet:
        paint = common.paint(sys.stdout)
        for line in texts(found):
            click.echo(paint(printable(line), STYLES[line[0]]))
        total = sum(map(len, found.values()))
        click.echo(f"{total or 'No'} change{'s' * (total != 1)} from {printable(before)} to {printable(after)}")
    return int(any(found.get(kind) for kind in counted))

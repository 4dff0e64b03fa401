"""`ibdissect points`: where did a packet go between several captures of the same traffic?"""

from __future__ import annotations

import json
from typing import Any

import click

from ibdissect.cli.common import common_options


@click.command(short_help="Match several captures of the same traffic: loss, delay, reordering, change.")
@click.argument("captures", nargs=-1, required=True, metavar="CAPTURE...")
@click.option("--format", "format_", type=click.Choice(("text", "json")), default="text", show_default=True)
@click.option("--packets", is_flag=True, help="In JSON, also list every packet with its frames.")
@common_options
def command(captures: tuple[str, ...], format_: str, packets: bool, **common: Any) -> int:
    """Match."""
    from ibdissect.points.comparison import Comparison

    comparison = Comparison(captures)
    result = comparison.result()
    if packets:
        result["packets"] = list(comparison.packets())
    click.echo(json.dumps(result))
    return int(bool(result["lost"]))

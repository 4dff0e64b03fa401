"""`ibdissect trust`: the folders that may load plugins from the configuration found there."""

from __future__ import annotations

import os

import click

from ibdissect.cli.common_options import say
from ibdissect.cli.config import NAME, configured
from ibdissect.cli.console import echo
from ibdissect.cli.trusted_folders import entry, place_of, remember, trusted_folders
from ibdissect.errors import ConfigError
from ibdissect.wire.text import printable


@click.command()
@click.argument("folders", nargs=-1, metavar="[DIR...]")
@click.option("--forget", is_flag=True, help="Take the trust back.")
def command(folders: tuple[str, ...], forget: bool) -> int:
    """Remember that the configuration in DIR may load its plugins, which are code. Without DIR, list the trusted folders.

    The list is kept in your own configuration folder. In CI it is not used: name the configuration there with --config.
    """
    known = trusted_folders()
    for folder in folders:
        place = os.path.realpath(folder)
        if forget:
            known = {one for one in known if place_of(one) != place}
            continue
        config = configured(folder)
        if config is None:
            raise ConfigError("trust", folder, "holds no configuration", hint=f"{NAME}, or [tool.ibdissect] in pyproject.toml")
        known.add(entry(folder))
        say(f"{config.source} may load {', '.join(config.plugins) or 'plugins; it names none yet'}")
    if folders:
        remember(known)
    else:
        for place in sorted(map(place_of, known)):
            echo(printable(place))
    return 0

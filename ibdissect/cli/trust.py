"""`ibdissect trust`: which folders may load plugins from the configuration found there?"""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from ibdissect.cli.common import say
from ibdissect.cli.config import NAME, configured
from ibdissect.errors import ConfigError
from ibdissect.wire.text import printable

MOST_TEXT = 1 << 20
"""Most characters read from the list of folders."""


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
            known.discard(place)
            continue
        config = configured(folder)
        if config is None:
            raise ConfigError("trust", folder, "holds no configuration", hint=f"{NAME}, or [tool.ibdissect] in pyproject.toml")
        known.add(place)
        say(f"{config.source} may load {', '.join(config.plugins) or 'plugins; it names none yet'}")
    if folders:
        remember(known)
    else:
        for place in sorted(known):
            click.echo(printable(place))
    return 0


def is_trusted(folder: str) -> bool:
    """Whether the user trusts a folder, by its real path."""
    return os.path.realpath(folder) in trusted_folders()


def trusted_folders() -> set[str]:
    """The folders that the user trusts; none if the list is missing. Raises ConfigError if it is damaged."""
    path = _list()
    try:
        with path.open(encoding="utf-8") as file:
            found = json.loads(file.read(MOST_TEXT))
    except FileNotFoundError:
        return set()
    except OSError as error:
        raise ConfigError("trust", str(path), f"cannot be read: {error.strerror}") from error
    except ValueError:
        found = None
    if not isinstance(found, list) or not all(isinstance(folder, str) for folder in found):
        raise ConfigError("trust", str(path), "is damaged", hint="remove it and trust your folders again")
    return set(found)


def remember(folders: set[str]) -> None:
    """Write the list. Raises ConfigError or CaptureError if it cannot be written."""
    from ibdissect.export.files import replacing

    path = _list()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError("trust", str(path), f"cannot be written: {error.strerror}") from error
    with replacing(str(path)) as file:
        file.write(json.dumps(sorted(folders), indent=1).encode())


def _list() -> Path:
    import platformdirs

    path = Path(platformdirs.user_config_dir("ibdissect", appauthor=False)) / "trusted.json"
    if not path.is_absolute():  # a relative path would depend on the working directory
        raise ConfigError("trust", str(path), "your configuration folder is no absolute path")
    return path

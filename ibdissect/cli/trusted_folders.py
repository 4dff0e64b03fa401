"""The list that `ibdissect trust` keeps: folders that may load plugins from the configuration found there."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from ibdissect.errors import ConfigError

ROOT = 0
"""The user who may write everything anyway."""
MOST_TEXT = 1 << 20
"""Most characters read from the list of folders."""


def is_trusted(folder: str) -> bool:
    """Whether the user trusts a folder, by its real path, of its owner. Raises OSError."""
    return entry(folder) in trusted_folders()


def distrust(folder: str, files: Iterable[str]) -> str:
    """Why code of a folder may not be loaded: the user does not trust it, or somebody else could have written it, or one of these files,
    since; empty if it may. Raises OSError.
    """
    if not is_trusted(folder):
        return f"its folder is not trusted (ibdissect trust {folder})"
    owners = {os.stat(folder).st_uid, os.geteuid(), ROOT}
    for path in (folder, *filter(os.path.exists, files)):
        found = os.stat(path)
        if found.st_uid not in owners:
            return f"{path} belongs to another user"
        if found.st_mode & stat.S_IWOTH:
            return f"everybody can write {path}"
    return ""


def entry(folder: str) -> str:
    """A folder in the list: its real path, behind the number of its owner where that is neither this user nor root. In a folder for
    everybody, such as /tmp, a folder that was removed may be somebody else's tomorrow. Raises OSError.
    """
    place = os.path.realpath(folder)
    owner = os.stat(place).st_uid
    return place if owner in (os.geteuid(), ROOT) else f"{owner}:{place}"


def place_of(entry: str) -> str:
    """The path in an entry of the list."""
    return entry[entry.index(os.sep) :] if os.sep in entry else entry


def trusted_folders() -> set[str]:
    """The folders that the user trusts, each as its `entry`; none if the list is missing. Raises ConfigError if it is damaged."""
    path = _list()
    try:
        with path.open(encoding="utf-8") as file:
            found = json.loads(file.read(MOST_TEXT))
    except FileNotFoundError:
        return set()
    except OSError as error:
        raise ConfigError("trust", str(path), f"cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or not all(isinstance(folder, str) for folder in found):
        raise ConfigError("trust", str(path), "is damaged", hint="remove it and trust your folders again")
    return set(found)


def remember(folders: set[str]) -> None:
    """Write the list. Raises ConfigError or CaptureError if it cannot be written."""
    from ibdissect.export.whole_files import replacing

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
        raise ConfigError("trust", str(path), "your configuration folder is not an absolute path")
    return path

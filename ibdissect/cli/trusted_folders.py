"""Which folders may load plugins from the configuration found there? The list that `ibdissect trust` keeps."""

from __future__ import annotations

import json
import os
from pathlib import Path

from ibdissect.errors import ConfigError

MOST_TEXT = 1 << 20
"""Most characters read from the list of folders."""


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
        raise ConfigError("trust", str(path), "your configuration folder is not an absolute path")
    return path

"""Dissect, analyze and lint InfiniBand and RoCE captures: `with ibdissect.open(path) as capture` (docs/python.md).

Importing this loads nothing; `open` and `__version__` come when asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .session.capture import Capture as Capture
    from .session.capture import Capture as open
    from .version import VERSION as __version__

__all__ = ["Capture", "__version__", "open"]


def __getattr__(name: str) -> Any:  # Any: the names have different types
    if name == "__version__":
        from .version import VERSION

        return VERSION
    if name in ("open", "Capture"):
        from .session.capture import Capture

        return Capture
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__

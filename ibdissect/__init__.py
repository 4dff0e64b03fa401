"""Dissect, analyze and lint InfiniBand and RoCE captures: `with ibdissect.open(path) as capture` (docs/python.md).

Importing this loads nothing; `open` and `__version__` come when asked for.
"""

import sys


def _leave_working_directory() -> None:
    """`python -m ibdissect` has put the working directory first on the module path: whoever made what lies there would be imported.

    Called before any other import. If the package itself lies there, a checkout, it comes last.
    """
    named = any(word.partition(".")[0] == __name__ or word.endswith(f"m{__name__}") for word in sys.orig_argv)
    if sys.argv[:1] != ["-m"] or not named or sys.flags.safe_path:  # Python says `-m` until it has found the module
        return
    folder = sys.path.pop(0)
    if __path__[0].rpartition("/")[0] == folder:
        sys.path.append(folder)


_leave_working_directory()

from typing import TYPE_CHECKING, Any  # noqa: E402

from .moved import follow_moves  # noqa: E402

if TYPE_CHECKING:
    from ibdissect.python_interface import Capture as Capture
    from ibdissect.python_interface import Capture as open
    from ibdissect.version import VERSION as __version__

follow_moves()
__all__ = ["Capture", "__version__", "open"]


def __getattr__(name: str) -> Any:  # Any: the names have different types
    if name == "__version__":
        from ibdissect.version import VERSION

        return VERSION
    if name in ("open", "Capture"):
        from ibdissect.python_interface import Capture

        return Capture
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__

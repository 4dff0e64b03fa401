"""The compiled loops over packets: the state of connections, step by step, one exact path each.

The modules are Python with types of Cython in their annotations ("pure Python mode"): compiled where the package was built with a C
compiler, interpreted, slowly and with the same results, where not. A `.pxd` beside a module says what the compiler takes instead of
Python objects; `tests/engine/test_common.py` holds the two together. docs/decisions/one-engine.md has the rules that these modules follow.
"""

from __future__ import annotations

SLOW_FROM = 20_000_000
"""Bytes of a capture from which an interpreted engine says so."""


def compiled() -> bool:
    """Whether the loops run compiled."""
    from . import common

    return bool(common.COMPILED)

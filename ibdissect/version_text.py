"""The text of `--version`: the version, and the parts that were compiled."""

from __future__ import annotations


def version_line() -> str:
    """What `--version` prints: the version, and what was compiled."""
    from ibdissect import c_code, engine
    from ibdissect.version import VERSION

    slow = "" if c_code.sums else ", CRCs are checked more slowly"
    return f"ibdissect {VERSION} ({'compiled' if engine.compiled() else 'interpreted'} engine{slow})"

"""How is a TOML file read whose author is unknown?"""

from __future__ import annotations

from typing import Any

MOST_TEXT = 16 << 20
"""Most characters of a file; a device file may be endless."""
MOST_PARTS = 32
"""Most parts of a dotted key: `tomllib` takes minutes for a key of 100 KB."""
_PART = r"""(?:(?<![\w-])[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')"""
_LONG_KEY = rf"{_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{MOST_PARTS}}}"


def tables(text: str) -> dict[str, Any]:
    """The tables of a file's text, of which MOST_TEXT + 1 characters suffice. Raises ValueError or RecursionError for what is not valid,
    or takes too long.
    """
    import re
    import tomllib  # often there is no such file

    if len(text) > MOST_TEXT:
        raise ValueError(f"longer than {MOST_TEXT >> 20} million characters")
    if found := re.search(_LONG_KEY, text):
        line = text.count("\n", 0, found.start()) + 1
        raise ValueError(f"A key of more than {MOST_PARTS} parts (at line {line}, column 1)")
    return tomllib.loads(text)

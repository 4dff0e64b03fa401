"""TOML files of unknown authors, read within limits."""

from __future__ import annotations

from typing import Any

MOST_TEXT = 16 << 20
"""Most characters of a file; a device file may be endless."""
MOST_BITS = 128
"""Most bits of a number: those of a GID. Python refuses to print numbers of thousands of digits."""
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
    found_tables = tomllib.loads(text)
    _refuse_large_numbers(found_tables)
    return found_tables


def _refuse_large_numbers(content: dict[str, Any]) -> None:
    """Raise ValueError with the key of a number that is too large."""
    left: list[tuple[str, Any]] = [*content.items()]
    while left:
        key, value = left.pop()
        if isinstance(value, int) and value.bit_length() > MOST_BITS:
            raise ValueError(f"{key} holds a number of more than {MOST_BITS} bits")
        inner = value.items() if isinstance(value, dict) else [("", one) for one in value] if isinstance(value, list) else ()
        left += [(f"{key}.{name}" if name else key, one) for name, one in inner]

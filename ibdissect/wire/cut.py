"""A field's value in bytes that may be cut off before the field."""

from __future__ import annotations

from typing import Any

from .spec import Field


def bytes_of(data: bytes, field: Field[Any], at: int = 0) -> bytes | None:
    """The bytes of a field whose structure begins at `at`; None if they are cut off."""
    start, stop = field.span
    return data[at + start : at + stop] if at + stop <= len(data) else None


def field_of(data: bytes, field: Field[Any], at: int = 0) -> int | None:
    """The number in a field whose structure begins at `at`; None if it is cut off."""
    found = bytes_of(data, field, at)
    if found is None:
        return None
    shift, mask = field.shift_mask
    return int.from_bytes(found, "big") >> shift & mask


def number_of(data: bytes, field: Field[Any], at: int = 0) -> int:
    """The same; 0 if it is cut off."""
    return field_of(data, field, at) or 0

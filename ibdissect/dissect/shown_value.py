"""JSON value and text of a field's value, with keys masked unless `show_keys`."""

from __future__ import annotations

from typing import Any

from ibdissect.decode.hidden.key_numbers import KeyNumbering, is_secret
from ibdissect.wire.convert import decode_text
from ibdissect.wire.spec import Field
from ibdissect.wire.text import plain_value, printable, value_text

from .layout import Item

SHOWN_BYTES = 32
"""Longer raw bytes are shortened in the text, not in the value."""


REVEALS = "hidden: it tells the key"
"""Shown for a checksum that would reveal a masked key, and for a part of a key."""
BESIDE = "not part of the request"
"""Shown for a field that the request does not name, if it is not zero."""


class Presenter:
    """Converts values to (plain value, text). Without a `masker`, masked keys have no number."""

    def __init__(self, masker: KeyNumbering | None = None, *, show_keys: bool = False) -> None:
        self.masker, self.show_keys = masker, show_keys

    def present(self, field: Field[Any], value: Any, *, reveals: bool = False) -> tuple[Any, str]:
        """Plain value and text; None and `M_Key#3` for a masked key. `reveals`: it is a checksum that would reveal a key."""
        if ((reveals and value) or field.tells) and not self.show_keys:
            return None, REVEALS
        if field.secret and not self.show_keys:
            number = int.from_bytes(value, "big") if isinstance(value, bytes) else value
            if is_secret(field.secret, number):
                return None, self.masker.name(field.secret, number) if self.masker is not None else f"{field.secret}#?"
        if field.is_text:
            return decode_text(value), printable(decode_text(value))
        if field.kind in ("raw", "rest") and field.show is not None:
            return value.hex(), printable(field.show(value))
        if field.kind in ("raw", "rest"):
            return value.hex(), bytes_text(value.hex(), len(value))
        return plain_value(field, value), value_text(field, value)

    def present_bytes(self, item: Item, value: bytes, opaque: tuple[tuple[int, int], ...] = ()) -> tuple[str | None, str]:
        """Plain value and text of raw bytes that may contain a key; `opaque`: parts that may do so in this frame."""
        digits, spans = value.hex(), tuple(span for span in (*item.hidden_spans, *opaque) if span[0] < len(value))
        if item.field is not None and item.field.is_text and (self.show_keys or not spans):
            return decode_text(value), printable(decode_text(value))
        if item.field is not None and item.field.show is not None and (self.show_keys or not spans):
            return digits, printable(item.field.show(value))
        if spans and not self.show_keys:
            masked = mask_hex(digits, value, spans)
            if masked != digits:
                return None, bytes_text(masked, len(value))
        return digits, bytes_text(digits, len(value))


def mask_hex(digits: str, value: bytes, spans: tuple[tuple[int, int], ...]) -> str:
    """Hex digits with key bytes replaced by `**`; an all-zero key is not masked."""
    for start, stop in spans:
        stop = min(stop, len(value))
        if start < stop and any(value[start:stop]):
            digits = digits[: 2 * start] + "**" * (stop - start) + digits[2 * stop :]
    return digits


def bytes_text(digits: str, length: int) -> str:
    """Text of raw bytes, shortened if long."""
    if length <= SHOWN_BYTES:
        return digits
    return f"{digits[: 2 * SHOWN_BYTES]}… ({length} bytes)"

"""Search for an identity or a key of the capture that is left in its scrubbed copy, at every bit offset, and as text.

A value with enough bits to rule out chance is searched everywhere in the file; a shorter one (an IP address, an R_Key) only where the copy
has the same bits as the capture, since only those could have stayed, and an IP address only at whole bytes, where all headers have it: a
length before zeros looks like 10.0.0.2 two bits further. LIDs, QPNs and values of a few bits are not searched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import IO

import numpy as np

from ibdissect.capture.gather import Bytes
from ibdissect.errors import CaptureError
from ibdissect.python_interface import Capture
from ibdissect.wire.text import gid_text

from .rewrite import Scrubber

SURE, SOME = 40, 16
"""Bits from the first to the last one set: with SURE a value is searched everywhere, with SOME only where nothing has changed."""
BLOCK = 1 << 20
"""Bytes searched at a time; blocks overlap by the longest form."""
Forms = dict[bytes, str]
"""Byte sequences to search, and the kind of value each stands for."""


def verify(opened: Capture, scrubber: Scrubber, file: IO[bytes], target: str) -> None:
    """Search the finished copy for what `scrubber` replaced. Raises CaptureError if anything is left; it does not repeat the value."""
    anywhere, in_place, texts = _forms(scrubber)
    addresses = {form: in_place.pop(form) for form, kind in [*in_place.items()] if kind == "ip4"}
    file.seek(0)
    for at, block in _blocks(file, max(map(len, (*anywhere, *texts)), default=1)):
        for where, kind in (*_found(block, anywhere, range(8)), *_found(block, texts, range(1))):
            raise CaptureError(target, f"not written: it would still hold a {kind} of the capture, at byte {at + where}")
    file.seek(0)
    with Capture(file) as copy:
        for frame, before, after in _pairs(_frames(opened), _frames(copy)):
            for where, kind in (*_found(after, addresses, range(1), before), *_found(after, in_place, range(8), before)):
                raise CaptureError(target, f"not written: it would still hold a {kind} of the capture, {where} bytes after frame {frame}")


def _forms(scrubber: Scrubber) -> tuple[Forms, Forms, Forms]:
    """The forms to search everywhere at any bit, only where nothing has changed, and as text."""
    anywhere: Forms = {}
    in_place: Forms = {}
    texts: Forms = {}
    for kind, values in scrubber.replaced():
        for value in values:
            number = int.from_bytes(value, "big")
            bits = number.bit_length() - (number & -number).bit_length() + 1 if number else 0
            if bits >= SURE:
                anywhere[value] = kind
            elif bits >= SOME:
                in_place[value] = kind
            if bits >= SURE and kind != "text":
                digits = value.hex()
                forms = [digits, digits.upper(), value.hex(":"), value.hex("-"), str(number)]
                if len(value) == 8:
                    forms.append(gid_text(bytes(8) + value).removeprefix("::"))
                texts.update((form.encode(), kind) for form in forms)
            elif kind == "ip4":
                texts[".".join(map(str, value)).encode()] = kind
    return anywhere, in_place, texts


def _found(data: bytes, forms: Forms, shifts: Iterable[int], before: bytes | None = None) -> Iterator[tuple[int, str]]:
    """Byte and kind of each form in the data, at each shift by bits; with `before`, only where that has the same bits."""
    sizes: dict[int, list[bytes]] = {}
    for form in forms:
        sizes.setdefault(len(form), []).append(form)
    for shift in shifts:
        here = _shifted(data, shift)
        there = None if before is None else _shifted(before, shift)
        words = here[:-1].astype(np.uint16) << 8 | here[1:]
        for size, group in sizes.items():
            if len(here) < size:
                continue
            count = len(here) - size + 1
            first, last = np.zeros(1 << 16, np.bool_), np.zeros(1 << 16, np.bool_)
            first[[int.from_bytes(form[:2], "big") for form in group]] = True
            last[[int.from_bytes(form[-2:], "big") for form in group]] = True
            for at in np.flatnonzero(first[words[:count]] & last[words[size - 2 : size - 2 + count]]).tolist():
                kind = forms.get(here[at : at + size].tobytes())
                if kind is not None and (there is None or (there[at : at + size] == here[at : at + size]).all()):
                    yield at, kind


def _shifted(data: bytes, bits: int) -> Bytes:
    whole = np.frombuffer(data, np.uint8)
    return whole if not bits else (whole[:-1] << bits | whole[1:] >> (8 - bits)).astype(np.uint8, copy=False)


def _blocks(file: IO[bytes], overlap: int) -> Iterator[tuple[int, bytes]]:
    at, kept = 0, b""
    while more := file.read(BLOCK):
        yield at - len(kept), kept + more
        at, kept = at + len(more), (kept + more)[-overlap:]


def _frames(opened: Capture) -> Iterator[bytes]:
    for table, rows in opened.selected():
        yield from (table.chunk.frame_bytes(row) for row in rows.tolist())


def _pairs(before: Iterator[bytes], after: Iterator[bytes]) -> Iterator[tuple[int, bytes, bytes]]:
    """Blocks of frames: number of the frame before, the frames of the capture, and those of its copy, of equal lengths."""
    parts: list[tuple[bytes, bytes]] = []
    size = 0
    for number, (old, new) in enumerate(zip_longest(before, after, fillvalue=b""), 1):
        parts.append((old.ljust(len(new), b"\0")[: len(new)], new))
        size += len(new)
        if size >= BLOCK:
            yield number - len(parts), b"".join(old for old, _ in parts), b"".join(new for _, new in parts)
            parts, size = [], 0
    yield number - len(parts) if parts else 0, b"".join(old for old, _ in parts), b"".join(new for _, new in parts)

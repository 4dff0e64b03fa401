"""Selected frames written to a new file, and the checks of its path."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from ibdissect.errors import CaptureError, ConfigError

from .capture_model import CaptureModel, PacketLine

TABLES = (".csv", ".txt", ".json")
TITLES = ["No.", "Time", "Source", "Destination", "Protocol", "P_Key", "Length", "Info"]
KEYS = ("frame", "seconds", "source", "destination", "protocol", "p_key", "length", "info")
"""The same in JSON."""
TEXTS = [title not in ("No.", "Time", "P_Key", "Length") for title in TITLES]
ENDS = ".pcap, .pcapng, .csv, .json or .txt"
STEP = 4096
"""Frames written between two looks at whether to stop."""


def write(model: CaptureModel, frames: Callable[[int, int], list[int]], total: int, path: str) -> tuple[int, str | None]:
    """Write frames to a new file, through a temporary one. Returns their number, and the error if writing failed."""
    from ibdissect.export.whole_files import replacing  # not needed for the first rows

    pieces = (frames(low, min(low + STEP, total)) for low in range(0, total, STEP) if not model.stopped)
    try:
        with replacing(path) as file:
            return (_table if path.endswith(TABLES) else _capture)(model, pieces, file, path), None
    except (CaptureError, ConfigError) as error:
        return 0, str(error)


def _capture(model: CaptureModel, pieces: Iterator[list[int]], file: IO[bytes], path: str) -> int:
    from ibdissect.capture.writing import CaptureWriter

    with CaptureWriter(file, container="pcapng" if path.endswith(".pcapng") else "pcap") as writer:
        for numbers in pieces:
            chunk = model.index.chunk(numbers)
            for row, number in enumerate(numbers):
                writer.add(chunk, row, model.reader.comments.get(number, ()))
        return writer.frames


def _table(model: CaptureModel, pieces: Iterator[list[int]], file: IO[bytes], path: str) -> int:
    """Write the lines of the list, as CSV with titles, as JSON or as text; keys are masked as on the screen."""
    from ibdissect.export import csv

    blocks = ([list(column) for column in zip(*(_cells(model, one) for one in model.lines(piece)), strict=True)] for piece in pieces)
    if path.endswith(".csv"):
        return csv.write(TITLES, TEXTS, blocks, file)
    written = 0
    if path.endswith(".json"):
        file.write(b"[")
        for block in blocks:
            for row in zip(*block, strict=True):
                values = (int(row[0]), float(row[1]), *row[2:5], row[5] or None, int(row[6]), row[7])
                file.write((",\n" if written else "\n").encode() + json.dumps(dict(zip(KEYS, values, strict=True))).encode())
                written += 1
        file.write(b"\n]\n")
        return written
    for block in blocks:
        lines = ["{:>8} {:>14} {:<24} {:<24} {:<8} {:<6} {:>6} {}\n".format(*row) for row in zip(*block, strict=True)]
        file.write("".join(lines).encode("utf-8", "backslashreplace"))
        written += len(lines)
    return written


def _cells(model: CaptureModel, one: PacketLine) -> tuple[str, ...]:
    seconds, p_key = f"{(one.time_ns - model.first_ns) / 1e9:.6f}", f"0x{one.p_key:04x}" if one.p_key is not None else ""
    return str(one.frame), seconds, one.source, one.destination, one.protocol, p_key, str(one.length), one.info


def unwritable(path: str, source: str, *, frames: bool = True) -> str | None:
    """Why frames (or else bytes) cannot be written there; None when they can."""
    if not path.strip():
        return f"type a file name ending in {ENDS}" if frames else "type a file name"
    if frames and not path.endswith((".pcap", ".pcapng", *TABLES)):
        return f"the name must end in {ENDS}"
    target = Path(os.path.expanduser(path))
    if not target.parent.is_dir():
        return f"there is no folder {target.parent}"
    if source != "-" and target.exists() and Path(source).exists() and target.samefile(source):
        return "that is the capture itself"
    return None


def overwrites(path: str) -> str | None:
    """What to ask before a file is overwritten; None for a new one."""
    return "the file exists: Enter again overwrites it" if Path(os.path.expanduser(path)).exists() else None

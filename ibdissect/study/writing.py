"""How are chosen frames written to a new file, and which names may it have?"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable
from pathlib import Path

from ibdissect.errors import CaptureError

from .capture_model import CaptureModel

TABLES = (".csv", ".txt")
TITLES = ("No.", "Time", "Source", "Destination", "Protocol", "P_Key", "Length", "Info")
STEP = 4096
"""Frames written between two looks at whether to stop."""


def write(model: CaptureModel, frames: Callable[[int, int], list[int]], total: int, path: str) -> tuple[int, str | None]:
    """Write frames to a new file, under another name until it is whole: how many there are, and why it failed if it did."""
    from ibdissect.capture.writing import CaptureWriter  # not needed for the first rows

    part = f"{path}.part"
    written = 0
    try:
        if path.endswith(TABLES):
            written = _table(model, frames, total, part, text=path.endswith(".txt"))
            os.replace(part, path)
            return written, None
        container = "pcapng" if path.endswith(".pcapng") else "pcap"
        with CaptureWriter(part, container=container) as writer:
            for low in range(0, total, STEP):
                if model.stopped:
                    break
                numbers = frames(low, min(low + STEP, total))
                chunk = model.index.chunk(numbers)
                for row, number in enumerate(numbers):
                    writer.add(chunk, row, model.reader.comments.get(number, ()))
                written = writer.frames
        os.replace(part, path)
    except (CaptureError, OSError) as error:
        Path(part).unlink(missing_ok=True)
        return written, str(error)
    return written, None


def _table(model: CaptureModel, frames: Callable[[int, int], list[int]], total: int, path: str, *, text: bool) -> int:
    """Write the lines of the list, as CSV with titles or as text; keys are masked as on the screen."""
    written = 0
    with open(path, "w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        if not text:
            rows.writerow(TITLES)
        for low in range(0, total, STEP):
            if model.stopped:
                break
            for one in model.lines(frames(low, min(low + STEP, total))):
                seconds = f"{(one.time_ns - model.first_ns) / 1e9:.6f}"
                cells = (one.frame, seconds, one.source, one.destination, one.protocol,
                         f"0x{one.p_key:04x}" if one.p_key is not None else "", one.length, one.info)  # fmt: skip
                if text:
                    file.write("{:>8} {:>14} {:<24} {:<24} {:<8} {:<6} {:>6} {}\n".format(*cells))
                else:
                    rows.writerow(f"'{cell}" if str(cell).startswith(("=", "+", "@")) else cell for cell in cells)
                written += 1
    return written


def unwritable(path: str, source: str, *, frames: bool = True) -> str | None:
    """Why frames (or else bytes) cannot be written there; None when they can."""
    if not path.strip():
        return "type a file name ending in .pcap, .pcapng, .csv or .txt" if frames else "type a file name"
    if frames and not path.endswith((".pcap", ".pcapng", *TABLES)):
        return "the name must end in .pcap, .pcapng, .csv or .txt"
    target = Path(path).expanduser()
    if not target.parent.is_dir():
        return f"there is no folder {target.parent}"
    if source != "-" and target.exists() and Path(source).exists() and target.samefile(source):
        return "that is the capture itself"
    return None


def overwrites(path: str) -> str | None:
    """What to ask before a file is overwritten; None for a new one."""
    return "the file exists: Enter again overwrites it" if Path(path).expanduser().exists() else None

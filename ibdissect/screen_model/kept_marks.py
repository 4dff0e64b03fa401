"""Marks and notes of a capture kept from one run to the next, in the user's state folder, never beside the capture."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from pathlib import Path
from typing import Any

from ibdissect.capture.file_names import files_of
from ibdissect.wire.text import runs

from .capture_model import CaptureModel
from .saved_state import read_text, replace_text

MAX_KEPT = 200
"""Captures whose marks are kept, those changed last."""
HEAD = 4096
"""Bytes at the beginning of a capture that tell whether it is still the same."""
LARGEST = 1 << 17
"""Characters of what is kept of one capture; more is not kept."""


class KeptMarks:
    """Marks and notes of a capture. `folder`: of the user's state; None: nothing is kept."""

    def __init__(self, model: CaptureModel, folder: Path | None) -> None:
        self.model, self.paths = model, [os.path.abspath(path) for path in files_of(model.source) if path != "-" and os.path.isfile(path)]
        name = hashlib.sha256("\0".join(self.paths).encode(errors="surrogateescape")).hexdigest()[:32]
        self.path = folder / "marks" / f"{name}.json" if folder is not None and self.paths else None
        """None: they cannot be kept, as of a pipe."""

    def recall(self) -> int:
        """Mark and note what was marked and noted in the last run; the number of frames. Nothing if another capture is in its place."""
        model = self.model
        try:
            found = json.loads(read_text(self.path) or "{}")
            if not found or model.marked or model.notes or found["head"] != self._head(int(found["head_size"])):
                return 0
            marks, notes = _numbers(found["marked"]), {int(frame): list(map(str, texts)) for frame, texts in found["notes"].items()}
        except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
            return 0
        model.marked |= marks
        model.notes.update(notes)
        return len(marks | notes.keys())

    def keep(self) -> bool:
        """Write them down; False if there are some that cannot be kept."""
        model, text = self.model, ""
        if model.marked or model.notes:
            if self.path is None:
                return False
            try:
                size = min(os.path.getsize(self.paths[0]), HEAD)
                kept: dict[str, Any] = {"head_size": size, "head": self._head(size)}
                kept |= {"marked": runs(sorted(model.marked)), "notes": model.notes}
                text = json.dumps(kept)
            except OSError:
                return False
            if len(text) > LARGEST:
                return False
            replace_text(self.path, text)
            self._tidy()
            return self.path.exists()
        if self.path is not None and not model.stopped:
            with contextlib.suppress(OSError):
                self.path.unlink(missing_ok=True)
        return True

    def _head(self, size: int) -> str:
        with open(self.paths[0], "rb") as file:
            return hashlib.sha256(file.read(min(size, HEAD))).hexdigest()

    def _tidy(self) -> None:
        """Forget the captures whose marks were changed longest ago."""
        assert self.path is not None
        with contextlib.suppress(OSError):
            there = sorted(self.path.parent.glob("*.json"), key=lambda path: path.stat().st_mtime, reverse=True)
            for path in there[MAX_KEPT:]:
                path.unlink(missing_ok=True)


def _numbers(ranges: list[list[int]]) -> set[int]:
    """The numbers of ranges. ValueError if they are not as we write them."""
    if sum(last - first + 1 for first, last in ranges) > 1 << 24 or any(not 0 < first <= last for first, last in ranges):
        raise ValueError("it is not what this program writes")
    return {number for first, last in ranges for number in range(first, last + 1)}

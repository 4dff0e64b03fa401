"""Columns are read from the temporary file as they were written."""

from __future__ import annotations

import errno

import numpy as np
import pytest

from ibdissect.errors import CaptureError
from ibdissect.points import spool
from ibdissect.points.spool import Spool
from ibdissect.points.transmissions import Repeats


def block(n: int) -> Repeats:
    fields = np.arange(22 * n, dtype=np.int16).reshape(n, 22)[:, ::2]  # not contiguous
    return Repeats(np.arange(n), np.full(n, 2, np.uint8), np.arange(n, dtype=np.int32), np.arange(n) ** 2, fields)


@pytest.mark.parametrize("limit", [1 << 20, 10])
def test_written_and_read(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    monkeypatch.setattr(spool, "IN_MEMORY", limit)
    kept = Spool(Repeats)
    for n in (5, 0, 300):
        kept.append(block(n))
    assert len(kept) == 3
    for found, n in zip([kept[0], *list(kept)[1:]], (5, 0, 300), strict=True):
        assert found.id.tolist() == list(range(n)) and (found.fields == block(n).fields).all() and found.fields.shape == (n, 11)
        found.time += 1  # blocks may be changed
    assert kept[2].time[-1] == 299**2


def test_a_full_disk_is_an_error_in_words() -> None:
    kept = Spool(Repeats)

    class Full:
        def seek(self, *_: int) -> int:
            return 0

        def write(self, _: bytes) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    kept._file = Full()  # type: ignore[assignment]
    with pytest.raises(CaptureError, match="temporary file: No space left on device; set TMPDIR"):
        kept.append(block(3))

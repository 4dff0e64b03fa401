"""Frames that the packet list shows, and the row of each."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


class AllRows:
    """Every frame of the capture, in order."""

    def __init__(self) -> None:
        self.total = 0

    def __len__(self) -> int:
        return self.total

    def up_to(self, frame: int) -> int:
        """How many rows show frames up to this one."""
        return min(frame, self.total)

    def frame(self, row: int) -> int:
        """Frame number shown in a row."""
        return row + 1

    def frames(self, start: int, stop: int) -> list[int]:
        """Frame numbers of the rows from `start` to before `stop`, fewer at the end."""
        return list(range(max(start, 0) + 1, min(stop, self.total) + 1))

    def nearest(self, frame: int) -> int:
        """The row of a frame, or of the one nearest to it; 0 when nothing is shown."""
        return max(0, min(frame, self.total) - 1)


class FilteredRows:
    """The frames that a filter matches so far: four bytes each; one thread adds, any thread reads."""

    def __init__(self) -> None:
        self._numbers: npt.NDArray[np.uint32] = np.empty(1024, np.uint32)
        self._count = 0
        self.checked = 0
        """Frames the filter has looked at."""

    def __len__(self) -> int:
        return self._count

    def extend(self, numbers: npt.NDArray[np.int64], checked: int) -> None:
        """Further matches, ascending; every frame up to `checked` has been looked at."""
        count = self._count + len(numbers)
        if count > len(self._numbers):
            grown = np.empty(max(count, 2 * len(self._numbers)), np.uint32)
            grown[: self._count] = self._numbers[: self._count]
            self._numbers = grown
        self._numbers[self._count : count] = numbers
        self._count = count
        self.checked = checked

    def become(self, other: FilteredRows) -> None:
        """Take over the rows of another filter."""
        self._numbers, self._count, self.checked = other._numbers, other._count, other.checked

    def numbers(self) -> npt.NDArray[np.uint32]:
        return self._numbers[: self._count]

    def up_to(self, frame: int) -> int:
        return int(np.searchsorted(self._numbers[: self._count], frame, "right"))

    def frame(self, row: int) -> int:
        return int(self._numbers[row])

    def frames(self, start: int, stop: int) -> list[int]:
        found: list[int] = self._numbers[max(start, 0) : min(stop, self._count)].tolist()
        return found

    def nearest(self, frame: int) -> int:
        count = self._count
        if not count:
            return 0
        row = int(np.searchsorted(self._numbers[:count], frame))
        if row == count or (row and frame - int(self._numbers[row - 1]) < int(self._numbers[row]) - frame):
            return row - 1
        return row


class SortedRows:
    """The frames of other rows in the order of a column's values; frames that come later are not in it."""

    def __init__(self, of: AllRows | FilteredRows, numbers: npt.NDArray[np.uint32], key: str, *, down: bool) -> None:
        """`key` of the column; `down`: the highest first."""
        self.of, self.key, self.down, self._numbers = of, key, down, numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def numbers(self) -> npt.NDArray[np.uint32]:
        """Frame numbers, as shown."""
        return self._numbers

    def up_to(self, _: int) -> int:
        return len(self._numbers)

    def frame(self, row: int) -> int:
        return int(self._numbers[row])

    def frames(self, start: int, stop: int) -> list[int]:
        """Frame numbers as shown, not ascending."""
        found: list[int] = self._numbers[max(start, 0) : max(stop, 0)].tolist()
        return found

    def nearest(self, frame: int) -> int:
        """The row of a frame, or else of the one with the nearest number; 0 when nothing is shown."""
        return int(np.abs(self._numbers.astype(np.int64) - frame).argmin()) if len(self._numbers) else 0


def in_order(rows: Rows) -> AllRows | FilteredRows:
    """The same frames in the order of the capture."""
    return rows.of if isinstance(rows, SortedRows) else rows


Rows = AllRows | FilteredRows | SortedRows
"""The displayed frames in order; they grow while the capture is read."""

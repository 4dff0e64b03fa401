"""Wrong ICRCs by host: always the same value, bytes reversed, or the VLAN tag in the sum too."""

from __future__ import annotations

import zlib
from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

from ibdissect.decode import ChunkTable
from ibdissect.decode.addresses import End, ends_of
from ibdissect.decode.crcs import MASKED, ROCE_IP4, ROCE_IP6, ROUTED, PacketCrcs, icrc_sums

CONSTANT, SWAPPED, VLAN, OTHER = "constant", "swapped", "vlan", "other"
SAMPLE = 256
"""Wrong ICRCs of each host that are looked at."""
MAX_HOSTS = 4096
UNCHECKED, RIGHT, WRONG = 0, 1, 2
_TAG = 4


class Checksums:
    """Compares the ICRCs of windows with what they should be, and remembers how they are wrong, by sender."""

    def __init__(self) -> None:
        self.how: dict[End, Counter[str]] = {}
        self.values: dict[End, set[int]] = {}
        """Up to two wrong ICRCs of each host: one alone is a constant."""

    def feed(self, table: ChunkTable) -> npt.NDArray[np.uint8]:
        """For each row UNCHECKED, RIGHT or WRONG. An ICRC of zero was not filled in when the frame was captured: UNCHECKED."""
        found = np.zeros(len(table), np.uint8)
        sums = table.once(icrc_sums)
        found[sums.rows] = RIGHT
        wrong = np.flatnonzero(sums.stored != sums.wanted)
        if len(wrong):
            found[sums.rows[wrong]] = np.where(sums.stored[wrong] == 0, UNCHECKED, WRONG)
            self._look(table, sums, wrong[sums.stored[wrong] != 0])
        return found

    def _look(self, table: ChunkTable, sums: PacketCrcs, wrong: npt.NDArray[np.int64]) -> None:
        for i, (sender, _) in zip(wrong.tolist(), ends_of(table, sums.rows[wrong]), strict=True):
            if sender not in self.how and len(self.how) >= MAX_HOSTS:
                continue
            how = self.how.setdefault(sender, Counter())
            if how.total() >= SAMPLE:
                continue
            stored, wanted = int(sums.stored[i]), int(sums.wanted[i])
            values = self.values.setdefault(sender, set())
            if len(values) < 2:
                values.add(stored)
            if stored == int.from_bytes(wanted.to_bytes(4, "big"), "little"):
                how[SWAPPED] += 1
            elif stored == over_tag(table, int(sums.rows[i]), int(sums.at[i])):
                how[VLAN] += 1
            else:
                how[OTHER] += 1

    def of(self, sender: End) -> str | None:
        """How a host writes it wrongly; None if its ICRCs were right."""
        how = self.how.get(sender)
        if not how:
            return None
        if len(self.values[sender]) == 1 and how.total() > 1:
            return CONSTANT
        return how.most_common(1)[0][0]


def over_tag(table: ChunkTable, row: int, end: int) -> int | None:
    """The ICRC with the VLAN tag in the sum, as if the sender added it before; None without a tag."""
    start: dict[str, Any] = table.located.start
    tags = [int(start[name][row]) for name in ("vlan", "vlan2", "vlan3") if name in start and start[name][row] >= 0]
    if not tags:
        return None
    for kind in (ROCE_IP4, ROCE_IP6, ROUTED):
        name, from_start, from_bth = MASKED[kind]
        at = int(start[name][row]) if name in start else -1
        if at < 0:
            continue
        masked, bth = bytearray(table.chunk.data[at:end].tobytes()), int(start["bth"][row]) - at
        for base, masks in ((0, from_start), (bth, from_bth)):
            for offset, mask in masks.items():
                masked[base + offset] |= mask
        tag = table.chunk.data[tags[-1] - 2 : tags[-1] - 2 + _TAG].tobytes()  # its Ethertype stands before what `vlan` points to
        return zlib.crc32(bytes(8 * b"\xff") + tag + masked)
    return None

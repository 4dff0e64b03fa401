"""Senders of directed routes. Their packets have no address: only the transaction id tells one sender's from another's.

The high word of a transaction id is a counter of each host (Linux core/mad.c): two freshly booted hosts share it. Their low words do
not go on from each other.
"""

from __future__ import annotations

import numpy as np

from ibdissect.bounded import BoundedDict
from ibdissect.decode import Int
from ibdissect.decode.equal_rows import U64

FAR = 65536
"""Low words of one sender go on in steps smaller than that."""
ENOUGH = 16
"""So many packets in sequence, and another sequence is another sender's."""
MAX_WORDS, MAX_SEQUENCES = 1024, 16


class TransactionIds:
    """The low words of one sender."""

    __slots__ = ("count", "highest", "last", "lowest", "number")

    def __init__(self, number: int, low: int) -> None:
        self.number, self.last, self.lowest, self.highest = number, low, low, low
        self.count = 0

    def take(self, low: int, count: int) -> None:
        """Add packets that go on to `low`."""
        self.last, self.count = low, self.count + count
        self.lowest, self.highest = min(self.lowest, low), max(self.highest, low)


class Senders:
    """The senders of directed routes by the numbers of `RouteId`: the high word, or more where several senders share it."""

    def __init__(self) -> None:
        self.sequences = BoundedDict[int, list[TransactionIds]](MAX_WORDS)

    def of(self, transactions: U64) -> Int:
        """The sender of each, in frame order; int64[n]."""
        high = (transactions >> np.uint64(32)).astype(np.int64)
        if not len(high):
            return high
        low = (transactions & np.uint64(0xFFFFFFFF)).astype(np.int64)
        order = np.argsort(high, kind="stable")
        borders = np.flatnonzero(np.diff(high[order])) + 1
        for mine in np.split(order, borders):
            lows = low[mine]
            starts = np.append(0, np.flatnonzero(np.abs(np.diff(lows)) >= FAR) + 1)
            for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(lows)], strict=True):
                number = self._number(int(high[mine[0]]), int(lows[start]), int(lows[stop - 1]), stop - start)
                if number != high[mine[0]]:
                    high[mine[start:stop]] = number
        return high

    def _number(self, word: int, first: int, last: int, count: int) -> int:
        known = self.sequences.get(word)
        if known is None:
            known = [TransactionIds(word, first)]
            self.sequences.put(word, known)
        one = next((one for one in known if abs(first - one.last) < FAR), None)
        if one is None and all(other.count < ENOUGH for other in known):
            one = known[0]  # no sequence yet that it could differ from
        if one is None and len(known) < MAX_SEQUENCES:
            one = TransactionIds(word | len(known) << 32, first)
            known.append(one)
        if one is None:
            return word | MAX_SEQUENCES << 32  # all further ones: nobody's routes are learnt from them twice the same way
        one.take(last, count)
        return one.number

    def of_transaction(self, transaction: int) -> int:
        """The sender of an earlier packet."""
        word, low = transaction >> 32, transaction & 0xFFFFFFFF
        for one in self.sequences.get(word) or ():
            if one.lowest - FAR < low < one.highest + FAR:
                return one.number
        return word

"""Which bytes does a regular expression of `matches` find? An automaton: time grows with the bytes only, whatever the pattern."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .needle import WORTH, holding, literal
from .regex import ALL_BYTES, MAX_NODES, BadPattern, Item, Reader

MAX_PATTERN = 512
"""Longest pattern in bytes."""
MAX_STATES = 600
"""Largest automaton; a pattern that needs more is refused."""

START, END, ACCEPT, SPLIT, SET = range(5)


class Pattern:
    """A compiled regular expression."""

    def __init__(self, pattern: bytes) -> None:
        """Raises BadPattern. `pattern` as bytes: captured bytes have no encoding."""
        if len(pattern) > MAX_PATTERN:
            raise BadPattern(f"the regular expression is longer than {MAX_PATTERN} bytes", MAX_PATTERN)
        reader = Reader(pattern.decode("latin-1"))
        tree = reader.alternatives()
        if reader.peek():
            raise reader.bad("a closing parenthesis has no opening one")
        if tree.size > MAX_NODES:
            raise BadPattern("the regular expression is too large", 0)
        self.literal = literal(tree)
        """Bytes in small letters that whatever is found holds; may be empty."""
        self._kind: list[int] = [ACCEPT]
        self._next: list[tuple[int, ...]] = [()]
        self._set: list[int] = [0]
        first = self._build(tree, 0)
        self._determinise(first)

    def _node(self, kind: int, following: tuple[int, ...], chosen: int = 0) -> int:
        self._kind.append(kind)
        self._next.append(following)
        self._set.append(chosen)
        return len(self._kind) - 1

    def _build(self, item: Item, then: int) -> int:
        """Nodes for `item` with `then` behind it; the entry."""
        if item.what == "set":
            return self._node(SET, (then,), item.chosen)
        if item.what in ("start", "end"):
            return self._node(START if item.what == "start" else END, (then,))
        if item.what == "and":
            for part in reversed(item.parts):
                then = self._build(part, then)
            return then
        if item.what == "or":
            return self._node(SPLIT, tuple(self._build(part, then) for part in item.parts))
        part = item.parts[0]
        if item.high is None:
            loop = self._node(SPLIT, ())
            self._next[loop] = (self._build(part, loop), then)
            then = loop
        else:
            for _ in range(item.high - item.low):
                then = self._node(SPLIT, (self._build(part, then), then))
        for _ in range(item.low):
            then = self._build(part, then)
        return then

    def _closure(self, nodes: set[int], at_start: bool, at_end: bool) -> frozenset[int]:
        """What is reached without a byte; anchors stay in the set, to be looked at again at the end."""
        seen, todo = set(nodes), list(nodes)
        while todo:
            node = todo.pop()
            kind = self._kind[node]
            if kind == SPLIT or (kind == START and at_start) or (kind == END and at_end):
                for following in self._next[node]:
                    if following not in seen:
                        seen.add(following)
                        todo.append(following)
        return frozenset(node for node in seen if self._kind[node] != SPLIT)

    def _determinise(self, first: int) -> None:
        """The table of states by byte class; state 0 has found a match and stays."""
        groups = _byte_groups({chosen for kind, chosen in zip(self._kind, self._set, strict=True) if kind == SET})
        self._classes = np.zeros(256, np.intp)
        for number, group in enumerate(groups):
            for byte in range(256):
                if group >> byte & 1:
                    self._classes[byte] = number
        probes = [group & -group for group in groups]
        begin = self._closure({first}, True, False)
        # The same nodes are another state at the start of the text: `^` behind `$` still holds there.
        found: dict[tuple[frozenset[int], bool], int] = {(frozenset({-1}), False): 0}
        rows: list[list[int]] = [[0] * len(groups)]
        ends = [True]
        todo: list[tuple[frozenset[int], bool]] = []

        def number_of(state: frozenset[int], at_start: bool = False) -> int:
            if 0 in state:
                return 0
            number = found.get((state, at_start))
            if number is None:
                if len(found) >= MAX_STATES:
                    raise BadPattern("the regular expression needs too many states; make it simpler", 0)
                number = found[state, at_start] = len(found)
                rows.append([])
                ends.append(0 in self._closure(set(state), at_start, True))
                todo.append((state, at_start))
            return number

        self._begin = number_of(begin, True)
        while todo:
            state, at_start = todo.pop()
            row = rows[found[state, at_start]]
            for probe in probes:
                moved = {self._next[node][0] for node in state if self._kind[node] == SET and self._set[node] & probe}
                row.append(number_of(self._closure(moved | {first}, False, False)))
        self._table = np.array([row or [0] * len(groups) for row in rows], np.int16)
        self._ends = np.array(ends, np.bool_)

    def search(self, data: npt.NDArray[np.uint8], at: npt.NDArray[np.int64], stop: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Which of the stretches `data[at:stop]` hold a match, bool[k]."""
        if len(self.literal) < WORTH:
            return self._search(data, at, stop)
        result = holding(data, at, stop, self.literal, fold=True)
        if result.any():
            result[result] = self._search(data, at[result], stop[result])
        return result

    def _search(self, data: npt.NDArray[np.uint8], at: npt.NDArray[np.int64], stop: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """As `search`, whatever the bytes: all stretches one byte further at a time."""
        state = np.full(len(at), self._begin, np.int16)
        result = np.zeros(len(at), np.bool_)
        index, place = np.arange(len(at)), at
        while len(index):
            done = (place >= stop) | (state == 0)
            if done.any():
                result[index[done]] = self._ends[state[done]]
                left = ~done
                index, place, stop, state = index[left], place[left], stop[left], state[left]
            state = self._table[state, self._classes[data[place]]]
            place = place + 1
        return result


def _byte_groups(sets: set[int]) -> list[int]:
    """The coarsest partition of the 256 bytes that no set of the pattern cuts."""
    groups = [ALL_BYTES]
    for chosen in sets:
        groups = [part for group in groups for part in (group & chosen, group & ~chosen) if part]
    return groups

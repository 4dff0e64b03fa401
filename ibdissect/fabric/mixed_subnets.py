"""Does the capture mix packets of two subnets? Their facts contradict each other again and again."""

from __future__ import annotations

from ibdissect.bounded import BoundedDict

MAX_CONTRADICTIONS = 1024
ENOUGH = 4
"""This many facts, of at least two kinds, must be contradicted, since one fault in a single subnet contradicts only one."""
ROUTE, LID, SIZE, KIND = "the node at a directed route", "the port with a LID", "the size of a node", "the type of a node"


class Contradictions:
    """Facts that one subnet does not change by itself."""

    def __init__(self) -> None:
        self.before = BoundedDict[tuple[str, object], tuple[object, int]](MAX_CONTRADICTIONS)
        """By kind and key: the value before the latest contradiction, and the frame of that contradiction."""
        self.certain = False
        """No change within one subnet explains a fact: it returned to an earlier value, an adapter answered as a switch, or the route
        without hops, by which a manager asks its own node, led to two nodes.
        """
        self.frame = 0
        """Frame that proved the capture to be mixed; 0: none."""

    def note(self, kind: str, key: object, was: object, now: object, frame: int, *, certain: bool = False) -> None:
        """`key` changed from `was` to `now`; `certain`: no change within one subnet explains that."""
        if self.mixed:
            return
        earlier = self.before.get((kind, key))
        self.certain |= certain or (earlier is not None and earlier[0] == now)
        self.before.put((kind, key), (was, frame))
        if self.certain and len(self.before) >= ENOUGH and len({kind for kind, _ in self.before}) > 1:
            self.frame = frame

    @property
    def mixed(self) -> bool:
        """Whether packets of two subnets are in the capture."""
        return self.frame > 0

    def displaced(self, guid: int) -> bool:
        """Whether a route that led to the node with a GUID now leads elsewhere: the node may be gone."""
        return any(kind == ROUTE and was == guid for (kind, _), (was, _) in self.before.items())

    def examples(self) -> list[tuple[str, int]]:
        """One contradicted fact of each kind, in words, and the frame that contradicted it."""
        first: dict[str, int] = {}
        for (kind, _), (_, frame) in self.before.items():
            first.setdefault(kind, frame)
        return sorted(first.items(), key=lambda one: one[1])

"""Captures that mix packets of two subnets: their facts contradict each other again and again."""

from __future__ import annotations

from collections.abc import Mapping

from ibdissect.bounded import BoundedDict
from ibdissect.capture.chunk import Chunk
from ibdissect.engine.ports import Hop

from .nodes import Node

MAX_CONTRADICTIONS = 1024
ENOUGH = 4
"""This many facts, of at least two kinds, must be contradicted: one fault in a single subnet contradicts only one. Two suffice if nothing
within one subnet explains them."""
PAIR = 2
"""This many LIDs of nodes that different senders of directed routes found, without a node in common, prove two subnets."""
ADVICE = "mixes packets of two subnets, so none of this is certain: export those of each, and read them alone"
ROUTE, LID, SIZE, KIND = "the node at a directed route", "the port with a LID", "the size of a node", "the type of a node"


class Contradictions:
    """Contradictions between facts that do not change within one subnet."""

    def __init__(self) -> None:
        self.before = BoundedDict[tuple[str, object], tuple[object, int]](MAX_CONTRADICTIONS)
        """By kind and key: the value before the latest contradiction, and the frame of that contradiction."""
        self.lids: list[tuple[int, Node, Node, int]] = []
        """LIDs of two nodes, and the frame that showed the second."""
        self.times: dict[int, int] = {}
        """When those frames that may prove it were captured."""
        self.certain = False
        """No change within one subnet explains a fact: it returned to an earlier value (a LID may: managers assign them in turn, and so may
        nodes that change places), an adapter answered as a switch, or the route without hops, by which a manager asks its own node, led to
        two nodes.
        """
        self.unexplained: set[str] = set()
        """Kinds of facts that changed in one of the last two ways."""
        self.homes: tuple[Mapping[bytes, Hop], Node, Node] | None = None
        """The routes of a sender, and two nodes that both were its own node."""
        self.met = False
        """Whether a route from the first of these nodes led to the second."""
        self.proof = 0
        """Frame whose contradiction proved the capture to be mixed; 0: none."""

    def note(self, kind: str, key: object, was: object, now: object, frame: int, *, certain: bool = False) -> None:
        """`key` changed from `was` to `now`; `certain`: no change within one subnet explains that."""
        if self.proof:
            return
        earlier = self.before.get((kind, key))
        returned = kind != LID and earlier is not None and earlier[0] == now
        self.certain |= certain or (returned and not (kind == ROUTE and self._moved(key, was, now)))
        self.unexplained |= {kind} if certain else set()
        self.before.put((kind, key), (was, frame))
        enough = len(self.before) >= ENOUGH and len({kind for kind, _ in self.before}) > 1
        if (self.certain and enough) or len(self.unexplained) > 1:
            self.proof = frame
            self.times[frame] = 0

    def _moved(self, route: object, *guids: object) -> bool:
        """Whether one of these nodes at the end of a route stood at the end of another one before: cables were moved, and moved back."""
        return any(kind == ROUTE and key != route and was in guids for (kind, key), (was, _) in self.before.items())

    def shared_lid(self, lid: int, one: Node, other: Node, frame: int) -> None:
        """Two nodes have the same LID."""
        if len(self.lids) < MAX_CONTRADICTIONS and one.apart(other) and all(lid != known for known, *_ in self.lids):
            self.lids.append((lid, one, other, frame))
            self.times[frame] = 0

    def note_times(self, chunk: Chunk) -> None:
        """Take the times of the contradictions that a chunk showed."""
        for frame in self.times:
            if frame >= chunk.first:
                self.times[frame] = int(chunk.time_ns[frame - chunk.first])

    @property
    def frame(self) -> int:
        """Frame that proved the capture to be mixed; 0: none."""
        frames = [frame for frame in (self.proof, self._paired) if frame]
        return min(frames, default=0)

    @property
    def _paired(self) -> int:
        """Frame that showed the last of PAIR LIDs that nodes of two subnets have; 0: none."""
        apart = [frame for _, one, other, frame in self.lids if one.apart(other)]
        return apart[PAIR - 1] if len(apart) >= PAIR else 0

    @property
    def mixed(self) -> bool:
        """Whether packets of two subnets are in the capture."""
        return self.frame > 0

    @property
    def related(self) -> bool:
        """Whether two senders of one subnet look like one: a route led from the first to the second, or routes led to both. A route that
        returns to its own sender proves nothing.
        """
        if self.homes is None or self._paired:
            return False
        routes, *nodes = self.homes
        return self.met or set(nodes) <= {hop.node for path, hop in routes.items() if path}

    def displaced(self, guid: int) -> bool:
        """Whether a route to the node with this GUID now leads elsewhere: the node may be gone."""
        return any(kind == ROUTE and was == guid for (kind, _), (was, _) in self.before.items())

    def examples(self) -> list[tuple[str, int]]:
        """One contradicted fact of each kind, in words, and the frame that contradicted it."""
        first: dict[str, int] = {}
        for (kind, _), (_, frame) in self.before.items():
            first.setdefault(kind, frame)
        return sorted(first.items(), key=lambda one: one[1])

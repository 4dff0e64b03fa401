"""Compiled and interpreted routes end at the same ports, whatever cables are lost and found."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ibdissect.engine import directed_routes, facts, ports
from tests.engine.plain import plain

PATHS = [b"", b"\1", b"\1\2", b"\1\3", b"\1\2\1", b"\1\2\1\3"]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("learn"), st.sampled_from(PATHS), st.integers(0, 3), st.integers(0, 3)),
        st.tuples(st.just("cable"), st.integers(0, 3), st.integers(1, 3), st.integers(0, 15)),
        st.tuples(st.just("cut"), st.integers(0, 3), st.integers(1, 3), st.just(0)),
        st.tuples(st.just("turn"), st.sampled_from(PATHS), st.just(0), st.just(0)),
        st.tuples(st.just("void"), st.just(0), st.just(0), st.just(0)),
        st.tuples(st.just("drop"), st.integers(0, 3), st.just(0), st.just(0)),
    ),
    max_size=30,
)


class Subnet:
    """Makes the ports that are missing."""

    def __init__(self, of: Any, fact: Any) -> None:
        self.of, self.fact = of, fact

    def port(self, node: Any, number: int, frame: int) -> Any:
        return node.ports.setdefault(number, self.of.PortState(node, number, frame, self.fact(), self.fact(), self.fact()))


def made(of: Any, state: Any, fact: Any) -> Any:
    """Route ends with the steps of `subnet.learnt_routes` that these tests need."""

    class Made(of.RouteEnds):  # type: ignore[misc]
        def learn_home(self, origin: Any, node: Any, entered: int, frame: int) -> None:
            origin.home.learn((node, entered), frame)

        def new_end(self, origin: Any, path: bytes, node: Any, entered: int, frame: int) -> Any:
            origin.hops[path] = state.Hop(node, entered, frame)
            return origin.hops[path]

        def other_end(self, origin: Any, path: bytes, hop: Any, node: Any, entered: int, frame: int) -> None:
            hop.node, hop.entered, hop.frame = node, entered, frame
            origin.turns[path] = frame

    return Made(Subnet(state, fact), {})


def told(of: Any, state: Any, fact: Any, steps: list[Any]) -> list[Any]:
    ends, origin = made(of, state, fact), state.OriginState(1, {}, fact())
    nodes = [state.NodeState(n + 1, n, 1, *(fact() for _ in range(4))) for n in range(4)]
    for node, kind in zip(nodes, (1, 2, 2, 1), strict=True):
        node.kind = kind
    found: list[Any] = []
    for frame, (what, a, b, c) in enumerate(steps, 10):
        if what == "learn":
            ends.learn(origin, a, nodes[b], c, frame)
        elif what == "cable":
            near, far = ends.subnet.port(nodes[a], b, frame), ends.subnet.port(nodes[c % 4], c // 4 or 1, frame)
            for one, other in ((near, far), (far, near)):
                one.facing.learn(other, frame)
                one.peer_frame = frame
        elif what == "cut":
            ends.subnet.port(nodes[a], b, frame).cut = ends.last_cut = frame
        elif what == "turn":
            origin.turns[a] = frame
        elif what == "void":
            origin.valid_since = frame
        else:
            nodes[a].alive = False
        for path in PATHS:
            hop, near = ends.directed(origin, path), ends.before(origin, path, frame)
            found.append(hop and (hop.node.slot, hop.entered, hop.frame))
            found.append(near and (near.node.slot, near.number))
            if path in origin.hops:
                found.append(ends.void(origin, path, origin.hops[path]))
        walked = ends.walk(nodes[1], 1, b"\2\1", frame)
        found.append(walked and (walked.node.slot, walked.entered, walked.frame))
    return found


@given(STEPS)
def test_compiled_and_interpreted_routes_end_at_the_same_ports(steps: list[Any]) -> None:
    assert told(directed_routes, ports, facts.Fact, steps) == told(plain("directed_routes"), plain("ports"), plain("facts").Fact, steps)

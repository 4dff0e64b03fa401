"""Methods of rules are found by what they handle, with the followers that they need; and rules that draw conclusions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ibdissect.decode.chunk_table import ChunkTable
from ibdissect.decode.cm_connections import Connections
from ibdissect.decode.connection_packets import LaneFollower
from ibdissect.lint.handlers import Handlers, in_order
from ibdissect.lint.linter import Linter
from ibdissect.lint.rule import REGISTRY
from ibdissect.rules import load
from ibdissect.subnet import FabricFollower
from ibdissect.subnet.events import NodeFound, StateEvicted
from ibdissect.traffic.capture_loss import CaptureLoss
from ibdissect.transport.psn_streams import Streams
from ibdissect.wire.headers import BTH
from ibdissect.wire.sm import NodeInfo
from ibdissect.wire.sm_port import PortInfo
from ibdissect.words import Hit, Rule, on_chunk, on_end, on_event, on_struct, previous, unless

RULES = load()


class Agents:
    """A follower."""

    def feed(self, _table: Any) -> list[Any]:
        return []


class Quiet(Rule):
    """Base without handlers, which asks a follower at the end."""

    code, name, needs = "ZZH001", "quiet", (Agents,)


class Busy(Quiet):
    """It handles everything, and one event only as a fact."""

    code, name = "ZZH002", "busy"

    @on_end
    def end(self, _context: Any) -> Iterator[Hit]: ...

    @on_chunk
    def chunk(self, _table: Any, _context: Any) -> Iterator[Hit]: ...

    @on_event(NodeFound, StateEvicted)
    def event(self, _event: Any, _context: Any) -> Iterator[Hit]: ...

    @on_struct(NodeInfo, PortInfo)
    def struct(self, _view: Any, _seen: Any) -> Iterator[Hit]: ...

    def helper(self) -> None: ...


class Derived(Busy):
    """It inherits its handlers, but for one that it replaces by something else."""

    code, name = "ZZH003", "derived"
    event = None  # type: ignore[assignment]


class Concludes(Rule):
    """It handles an event that is a conclusion."""

    code, name = "ZZH004", "concludes"

    @on_event(NodeFound)
    def event(self, _event: Any, _context: Any) -> Iterator[Hit]: ...


class Counts(Rule):
    """It handles an event that is none."""

    code, name = "ZZH005", "counts"

    @on_event(StateEvicted)
    def event(self, _event: Any, _context: Any) -> Iterator[Hit]: ...


class Plain(Rule):
    """It judges a component that all ports have."""

    code, name, when = "ZZH006", "plain", PortInfo.lmc > 6


class Elsewhere(Rule):
    """It names a component that some ports lack, but judges another structure."""

    code, name, on, when = "ZZH007", "elsewhere", NodeInfo, (NodeInfo.num_ports == 1) & (PortInfo.neighbor_mtu == 9)


for rule in (Quiet, Busy, Derived, Concludes, Counts, Plain, Elsewhere):
    REGISTRY.pop(rule.code)


def test_handlers_are_found_by_what_they_handle() -> None:
    found = Handlers((Quiet, Busy, Derived))
    assert found.of_structs == [((place, Busy.struct), (NodeInfo, PortInfo)) for place in (1, 2)]
    assert found.of_event == {NodeFound: [(1, Busy.event)], StateEvicted: [(1, Busy.event)]}
    assert found.of_chunk == [(1, Busy.chunk), (2, Busy.chunk)] and found.at_end == [(1, Busy.end), (2, Busy.end)]
    assert found.followers == [Agents, FabricFollower]
    assert found.conclusions == {FabricFollower: {"ZZH002"}}, "StateEvicted is no conclusion"
    assert Handlers((Quiet, Derived)).conclusions == {}
    assert Handlers((Counts, Concludes)).conclusions == {FabricFollower: {"ZZH004"}} and Handlers((Counts,)).conclusions == {}


def test_conditions_about_components_that_some_ports_lack_need_the_subnet() -> None:
    elsewhere, *about = (next(rule for rule in RULES if rule.code == code) for code in ("AM009", "SEM003", "SEM004", "SEM062"))
    found = Handlers((elsewhere, *about))
    assert found.about_ports >= {"SEM003", "SEM004", "SEM062"} and FabricFollower in found.followers
    assert not Handlers((Plain, Elsewhere)).about_ports and not Handlers((Plain, Elsewhere)).followers


def test_what_a_follower_reads_is_made_and_fed_first() -> None:
    class Aardvark:
        after: Sequence[type[Any]] = (Streams,)

    assert in_order([Aardvark, Streams]) == [LaneFollower, Connections, Streams, Aardvark]
    context = Linter([]).context
    assert context.get(Streams).connections is context.get(Connections)


class Nodes:
    """What is learnt of nodes."""

    learns_from = NodeFound


class Tables:
    """It reads what is learnt of nodes, and what connections say."""

    after, learns_from = (Nodes, Connections), ChunkTable


class Sharing(Rule):
    """Base with what all its rules read."""

    needs = (Tables,)


class Own(Sharing):
    """It handles what another state learns from, too."""

    code, name, needs = "ZZH004", "own", (Agents,)

    @on_event(NodeFound)
    def note(self, *_: Any) -> None: ...


REGISTRY.pop(Own.code)


def test_what_bases_need_comes_with_them() -> None:
    found = Handlers((Own, Own))
    assert found.learning == {NodeFound: [Nodes], ChunkTable: [Tables]}
    assert {Connections, FabricFollower, Agents} <= {*found.followers} and not {Nodes, Tables} & {*found.followers}
    assert found.of_event == {NodeFound: [(0, Own.note), (1, Own.note)]}


def test_what_waits_in_vain_is_judged_in_each_window_and_at_the_end() -> None:
    class Vain(Rule):
        """Nothing followed."""

        code, name = "ZZH001", "vain"
        on, when = BTH, (BTH.opcode == 4) & unless(BTH.opcode == 17, within=1.0)

    class Again(Rule):
        """The same again."""

        code, name = "ZZH002", "again"
        on, when = BTH, BTH.psn == previous(BTH.psn)

    for code in ("ZZH001", "ZZH002"):
        REGISTRY.pop(code)
    found = Handlers((Again, Vain))
    assert [place for place, _ in found.of_chunk] == [place for place, _ in found.at_end] == [0, 1] and CaptureLoss in found.followers
    assert CaptureLoss not in Handlers((Again,)).followers and not found.conditions

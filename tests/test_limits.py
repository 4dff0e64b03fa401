"""All state is bounded for any capture, and the report says what was evicted."""

from __future__ import annotations

import gc
import io
import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from weakref import ref

import numpy as np
import pytest
from msgspec import structs

from ibdissect import Capture
from ibdissect.bounded import dropped_of
from ibdissect.capture.chunk import Chunk
from ibdissect.capture.opening import open_capture
from ibdissect.cli.show_formats import PRINTERS
from ibdissect.decode.chunk_table import ChunkTable
from ibdissect.decode.hidden.key_numbers import KeyNumbering
from ibdissect.decode.services import Services
from ibdissect.dfilter.compile import compile_filter
from ibdissect.lint.finding import Finding
from ibdissect.lint.linter import Linter
from ibdissect.rules import load
from ibdissect.scrub.rewrite import Scrubber
from ibdissect.subnet import FabricFollower
from ibdissect.subnet.attribute_smps import AttributeSmps
from ibdissect.subnet.events import ChunkFollowed
from ibdissect.subnet.model import Subnet
from ibdissect.subnet.multicast_groups import GroupFacts
from ibdissect.subnet.switch_tables import Forwarding
from ibdissect.tables.default_fields import DEFAULT
from ibdissect.tables.values_in_frames import Rows, named_columns
from ibdissect.traffic.statistics import Statistics
from ibdissect.wire.text import plain
from tests.bounds import bound
from tests.craft import erf_pcap, rc
from tests.crowds import PERIOD_NS, crowd
from tests.decode.made import tables_of
from tests.rules.CAP.cases import asking
from tests.rules.made.connections import PASSIVE, data, reply, request

pytestmark = pytest.mark.slow

RULES = load()
BY_LID = ("FabricFollower.subnet.lids", "SA024", "FabricFollower.learner.heard{}[][].standby")
"""State by LID: at most 65,535 entries."""

OF_CHUNK: tuple[str, ...] = ("flows{}.arguments", "Transactions.matched.", "Networks._alone")
OF_CHUNK += ("FabricFollower.subnet.clock.", "FabricFollower.subnet.recent.")
OF_FACTS = re.compile(r"\._answers\.|\.done$|\.subnet\.gone\b|\.past$|\.linear\.ports$")
"""Columns of the last chunk or of the frames before it, pairs of addresses (tests/decode/test_networks.py), earlier values of its frames
(tests/decode/test_history.py bounds them), a block of a forwarding table."""


def sizes(root: Any, path: str, out: Counter[str], seen: dict[int, object], depth: int = 0) -> None:  # Any: it walks objects of all types
    """Sizes of all collections reachable from an object, by path."""
    if id(root) in seen or depth > 8 or isinstance(root, (type, str, bytes, int, float)):
        return
    seen[id(root)] = root  # kept, so that no other object gets its id
    if isinstance(root, (np.ndarray, bytearray)):
        out[path] += len(root) if np.ndim(root) else 0
    elif isinstance(root, dict):
        out[path] += len(root)
        for value in list(root.values()):
            sizes(value, path + "{}", out, seen, depth + 1)
    elif isinstance(root, (list, set, tuple, frozenset, deque)):
        out[path] += 0 if isinstance(root, tuple) else len(root)
        for value in list(root):
            sizes(value, path + "[]", out, seen, depth + 1)
    elif type(root).__module__.startswith("ibdissect.") and not isinstance(root, (ChunkTable, ChunkFollowed, Chunk)):
        slots = [name for kind in type(root).__mro__ for name in getattr(kind, "__slots__", ())]
        for name in dict.fromkeys([*slots, *getattr(root, "__dict__", {})]):  # in order: what several share is counted under the first
            sizes(getattr(root, name, None), f"{path}.{name}", out, seen, depth + 1)


def fed(linter: Linter, chunks: Iterable[Chunk]) -> Iterator[Linter]:
    """The linter after each chunk."""
    services, masker = linter.context.get(Services), linter.context.get(KeyNumbering)
    for chunk in chunks:
        table = ChunkTable(chunk, None, services)
        services.feed(table)
        masker.feed(table)
        linter.feed(table)
        yield linter


def state_sizes(linter: Linter) -> Counter[str]:
    """Sizes of the state of the linter and of all its sources."""
    out, seen = Counter[str](), dict[int, object]()
    for state in linter.context.sources.values():
        sizes(state, type(state).__name__, out, seen)
    for rule in linter.rules:
        sizes(vars(rule), rule.code, out, seen)
    sizes(linter.findings.flows, "flows", out, seen)
    return out


@pytest.mark.parametrize(("what", "period_ns"), [
    ("lid guid qpn number key text address", 0), ("lid guid qpn number key text address", PERIOD_NS), ("number", PERIOD_NS),
    ("other", 0), *(pytest.param(*rest, marks=pytest.mark.thorough) for rest in (("number", 0), ("other", PERIOD_NS))),
])  # fmt: skip
def test_nothing_grows_with_the_capture(what: str, period_ns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With small limits, twice as many packets of other hosts, queue pairs, transactions and groups leave no more state."""
    bound(monkeypatch, 2, "rules", "mad", "transport", "traffic", "subnet", "decode", "lint", "diagnosis", "engine.ports", "engine.lanes")
    linter = Linter(RULES)
    after = [state_sizes(one) for i, one in enumerate(fed(linter, crowd(6, at_once=1, what=what, period_ns=period_ns))) if i in (2, 5)]
    assert sum(after[0].values()) > 3000
    # Columns of the last chunk are no state; arguments of findings are a few words.
    grown = {path: (after[0][path], more) for path, more in after[1].items() if more > after[0][path] + 8}
    grown = {path: n for path, n in grown.items() if not path.startswith((*BY_LID, *OF_CHUNK)) and not OF_FACTS.search(path)}
    assert not grown


def requests(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """The chunks without answers."""
    for chunk in chunks:
        mad = ChunkTable(chunk).located.at("mad")
        left = (mad < 0) | (chunk.data[np.maximum(mad, 0) + 3] < 0x80)
        names = ("offset", "caplen", "length", "time_ns", "link", "interface", "pseudo")
        yield structs.replace(chunk, **{name: getattr(chunk, name)[left] for name in names})


UNSAID = {"gaps of one stream", "GIDs with another port's LID", "paths with another port's LID", "addresses that are answered"}
UNSAID |= {"frames with a finding that explains another", "switches with too many groups", "agents that answer slowly"}
UNSAID |= {"agents that speak for others", "connections in other partitions", "pairs of addresses"}
UNSAID |= {"times of answers that subnet files are compared with", "congestion control nodes", "queue pairs of connections"}
UNSAID |= {"ports to which a manager came back", "ports whose manager another one succeeded"}
UNSAID |= {"interfaces with a frame that is shorter than its packet"}  # the crowd has one interface
UNSAID |= {"transfers that lack more than their beginning"}  # those of the crowd lack no more
UNSAID |= {"pauses of the recording"}  # the crowd has none; tests/traffic/test_capture_loss.py
UNSAID |= {"ports whose lease expired"}  # no more than "ports that refused a request", of which one is kept
"""Limits that the proofs cannot reach, or that are reached only after CAP016 has reported."""


def test_every_bound_that_is_reached_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """With limits of one, every kind of state reports evictions, and CAP016 reports all of them."""
    said, names = set[str](), set[str]()
    for rooms, chunks in (
        (("rules", "mad", "transport", "traffic", "subnet", "decode", "lint", "diagnosis", "engine"), crowd(4, at_once=1)),
        (("rules", "mad", "transport", "traffic"), crowd(4, at_once=1)),
        (("rules", "mad", "transport", "traffic"), requests(crowd(4, at_once=1))),
    ):
        with monkeypatch.context() as patched:
            bound(patched, 1, *rooms)
            linter = Linter(RULES, max_findings=None)
            for _ in fed(linter, chunks):
                pass
            found = [finding for finding in linter.finish() if finding.code == "CAP016"]
            assert all(finding.frame > 0 and finding.count > 0 for finding in found)
            told = {finding.arguments["what"] for finding in found}
            assert {one.what for one in linter.context.dropped()} <= told
            said |= told
            for state in (*linter.context.sources.values(), *linter.context.states):
                names |= {one.what for one in dropped_of(state)}
    assert len(names) > 40 and names - said <= UNSAID
    assert said - names >= {"nodes", "requests", "subnet managers", "groups"}


def reported(chunks: Iterable[Chunk]) -> list[Finding]:
    linter = Linter(RULES, max_findings=None)
    for _ in fed(linter, chunks):
        pass
    return [finding for finding in linter.finish() if finding.code == "CAP016"]


@pytest.mark.parametrize(("most", "told"), [(1, ["queue pairs of connections"]), (2, [])])
def test_more_queue_pairs_than_are_remembered_are_reported_once(most: int, told: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ibdissect.decode.last_packets.MAX_QUEUE_PAIRS", most)
    back = [rc(0x04, b"data", bth={"destqp": number, "psn": 500}, **PASSIVE) for number in (0x100, 0x101)]
    frames = [request(), reply(), data(900), *back, data(901), data(902), data(903)]
    found = reported(table.chunk for table in tables_of(erf_pcap(frames, step_ns=1_000_000_000), 350))
    assert [finding.arguments["what"] for finding in found] == told


def test_a_usual_capture_forgets_nothing(repo: Path) -> None:
    with open_capture(str(repo / "captures/opensm-first-sweep.pcap")) as reader:
        assert reported(reader.chunks()) == []


def _printing(name: str, opened: Capture) -> Callable[[ChunkTable], object]:
    return partial(_printed, PRINTERS[name](opened, ("frame.number",), plain))


READERS: dict[str, Callable[[Capture], Callable[[ChunkTable], object]]] = {
    "lint": lambda _: Linter(RULES).feed,
    "filter": lambda opened: compile_filter("infiniband.bth.psn > 5 or ibdissect.response_time", opened.catalog).rows,
    "export": lambda opened: partial(_cells, Rows(named_columns(opened.catalog, DEFAULT), opened.state(DEFAULT))),
    **{name: partial(_printing, name) for name in ("summary", "fields", "tree", "jsonl")},
}


def _cells(rows: Rows, table: ChunkTable) -> object:
    return rows.cells(table, np.arange(len(table)))


def _printed(printer: Any, table: ChunkTable) -> object:
    return list(printer.frames(table, np.arange(len(table))))


@pytest.mark.parametrize("reader", READERS)
def test_a_chunk_is_freed_without_the_garbage_collector(reader: str, repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cycle of references would keep the columns of each window until the next collection, 150 MB each."""
    assert open_capture.__kwdefaults__ is not None
    monkeypatch.setitem(open_capture.__kwdefaults__, "window", 4096)
    tables = list[ref[ChunkTable]]()
    with Capture(repo / "captures/opensm-first-sweep.pcap") as opened:
        read = READERS[reader](opened)
        gc.disable()
        try:
            for table in opened.tables():
                read(table)
                tables.append(ref(table))
                assert sum(one() is not None for one in tables) <= 2  # the one at hand, and the one before while it is made
        finally:
            gc.enable()
    assert len(tables) > 3


def test_the_frame_of_an_eviction_does_not_depend_on_windows() -> None:
    """Requests are evicted at the frame that exceeds the limit, whether the capture is read in one chunk or several."""
    one, two = (reported(open_capture(io.BytesIO(asking(6000)), window=window).chunks()) for window in (32 << 20, 1 << 18))
    assert [(f.arguments["what"], f.frame, f.count) for f in one] == [(f.arguments["what"], f.frame, f.count) for f in two]
    assert (one[0].frame, one[0].count) == (4098, 6000 - 4096)  # frame 1 is an answer


def test_statistics_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    bound(monkeypatch, 2, "mad", "transport", "traffic", "subnet", "decode", "engine.lanes")
    statistics, after = Statistics(), []
    for i, chunk in enumerate(crowd(6, at_once=1, what="lid number other")):
        statistics.feed(ChunkTable(chunk))
        if i in (2, 5):
            out = Counter[str]()
            sizes(statistics, "", out, {})
            after.append(out)
    assert not {path for path, more in after[1].items() if more > after[0][path] + 8 and "lids" not in path}
    assert statistics.exchanges.kinds.dropped.count


def test_one_packet_claims_little_of_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last block of a linear table takes 55 kB: with many switches, the oldest are evicted."""
    monkeypatch.setattr("ibdissect.subnet.model.MAX_BLOCKS", 768 * 10)
    subnet = Subnet()
    for guid in range(1, 50):
        node, _ = subnet.node(guid, guid)
        node.forwarding = Forwarding()
        node.forwarding.linear.learn(767, bytes(64), guid)
        subnet.weigh(node)
    assert len(subnet.slots) == 10 and subnet.weight == 768 * 10 and subnet.dropped == {"nodes": 39}
    for node in list(subnet.slots.values()):
        subnet.drop(node)
        assert node.forwarding is None
    assert subnet.weight == 0


def test_members_are_bounded_over_all_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ibdissect.subnet.multicast_groups.MAX_ALL_MEMBERS", 100)
    monkeypatch.setattr("ibdissect.subnet.multicast_groups.MAX_TOLD", 90)
    groups = Subnet().groups
    for i in range(30):
        group = groups.learn(i.to_bytes(16, "big"), GroupFacts(0xC000 + i, 0, 0, 0, 0, 0), 1)
        for k in range(5):
            groups.join(group, k.to_bytes(16, "big"), 1, 1)
    assert groups.members == sum(len(group.members) for group in groups.by_mgid.values()) == 100 and groups.dropped == 50
    assert groups.told == sum(len(told) for group in groups.by_mgid.values() for told in group.told.values()) == 90
    for mgid in list(groups.by_mgid):
        groups.forget(mgid, 1)
    assert groups.members == groups.told == 0


def test_a_column_is_worked_out_once_for_all_findings() -> None:
    """Otherwise a window of such packets would take minutes."""
    table = ChunkTable(next(crowd(1)))
    (event,) = (event for event in FabricFollower().feed(table) if isinstance(event, ChunkFollowed))
    none = np.zeros(0, np.int64)
    told = AttributeSmps(*event.smps.some(none), event=event)
    rule: Any = next(rule for rule in load() if rule.code == "SEM029")()
    assert rule._entries(told) is rule._entries(told)


def test_scrubbing_refuses_more_identities_than_it_can_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """A value must have the same substitute everywhere, so none can be evicted."""
    monkeypatch.setattr("ibdissect.scrub.substitutes.MAX_KNOWN", 50)
    scrubber = Scrubber(ChunkTable(next(crowd(1))).catalog)
    with pytest.raises(Exception, match="too many different") as raised:
        for chunk in crowd(4, at_once=1):
            scrubber.scrub(chunk)
    assert type(raised.value).__name__ == "CaptureError"

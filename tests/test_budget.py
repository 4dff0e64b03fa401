"""The memory of all state of a check, if every bound were reached at once. The shares are measured in a flood, and added up."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ibdissect.bounded import BUDGET, BoundedDict, KeptDict, KeptList
from ibdissect.decode import reassembled, repeated_smps, rmpp_places
from ibdissect.decode.chunk_table import ChunkTable
from ibdissect.diagnosis import frame_times
from ibdissect.diagnosis.diagnosis_for_rules import Stories
from ibdissect.engine import connection_setups, episodes, flow_counts, lanes, pairing, psn_gaps, psn_order, smps, waiting_packets
from ibdissect.lint.linter import Linter
from ibdissect.mad import rmpp_reassembly
from ibdissect.rules import load
from ibdissect.subnet import early_packets, model, multicast_groups, nodes
from ibdissect.transport import rpc_rdma_chunks
from ibdissect.words import Rule
from tests.crowds import crowd
from tests.test_limits import fed

pytestmark = pytest.mark.slow

Bounded = BoundedDict | KeptDict | KeptList  # type: ignore[type-arg]
EMPTY = 300
"""Bytes of an entry of which the flood shows too few to measure them."""
OTHERS = {
    "ports": model.MAX_PORTS * 1400,
    "blocks of forwarding tables": model.MAX_BLOCKS * 72,
    "routes": nodes.MAX_HOPS * 350,
    "members of groups": multicast_groups.MAX_ALL_MEMBERS * 200 + multicast_groups.MAX_TOLD * 300,
    "streams": psn_order.MAX_ORDERS * 1400,
    "gaps": psn_gaps.MAX_ALL_GAPS * 220,
    "segments": rmpp_reassembly.MAX_BYTES,
    "records that straddle segments": reassembled.MAX_BYTES,
    "messages of several packets": reassembled.MAX_MESSAGE_BYTES,
    "parts and chunks of such messages": rpc_rdma_chunks.MAX_HELD,
    "exchanges about P_Keys": smps.MAX_EXCHANGED * 400,
    "lanes": lanes.MAX_LANES * 510,
    "directions": lanes.MAX_LANES * 5600,
    "hosts": lanes.MAX_HOSTS * 400,
    "packets under way": waiting_packets.MAX_ALL_WAITING * 64,
    "ranges, READs and classes of waits": episodes.MAX_ENTRIES * 220,
    "episodes": episodes.MAX_ALL * 250,
    "packets that wait for their pair": lanes.MAX_HELD * 350,
    "PSNs for pairing": (2 * pairing.MAX_PSNS + pairing.MAX_PSNS // 2) * 200,
    "tries": connection_setups.MAX_ALL_TRIES * 160,
    "set-ups": connection_setups.MAX_SETUPS * (2600 + 2 * 300),
    "times of frames": frame_times.MAX_TIMES * 8,
    "early flows": early_packets.MAX_FLOWS * (8 * flow_counts.VALUES + 64),
    "places of segments": rmpp_places.MAX_FRAMES * 10,
    "contents of SMPs that rules of three kinds judged": repeated_smps.MAX_JUDGED * 16 * 3,
    "repetitions of segments": rmpp_places.MAX_TRANSFERS * rmpp_places.MAX_AGAIN * 44,
}
"""State that is no container of `bounded`: its bound, and what an entry takes."""
OF_OTHERS = (Stories, nodes.Node, nodes.Port, nodes.Origin, model.Subnet)


def weight(root: Any, counted: set[int]) -> int:  # Any: it walks objects of all types
    """Bytes of an object and of all that only it refers to; what was counted before, and what is among OTHERS, counts nothing."""
    if id(root) in counted or isinstance(root, (type, ChunkTable, Rule, *OF_OTHERS)) or callable(root):
        return 0
    counted.add(id(root))
    parts = list(vars(root).values()) if hasattr(root, "__dict__") else []
    if isinstance(root, dict):
        parts += [part for pair in root.items() for part in pair]
    elif isinstance(root, (list, tuple, set, frozenset, deque)):
        parts += root
    elif type(root).__module__.startswith("ibdissect."):
        parts += [getattr(root, name, None) for kind in type(root).__mro__ for name in getattr(kind, "__slots__", ())]
    return sys.getsizeof(root) + 16 * gc.is_tracked(root) + sum(weight(part, counted) for part in parts)


def containers(root: Any, path: str, seen: set[int], depth: int = 0) -> Iterator[tuple[str, Bounded]]:
    """The bounded containers of a state, with their path."""
    if id(root) in seen or depth > 6 or isinstance(root, (type, str, bytes, int, float, ChunkTable, nodes.Node, nodes.Origin)):
        return
    seen.add(id(root))
    if isinstance(root, Bounded):
        if root.limit != nodes.MAX_HOPS:  # a sender's routes: all senders' together are bounded
            yield path, root
    elif isinstance(root, (dict, list, tuple)):
        for part in list(root.values() if isinstance(root, dict) else root)[:100]:
            yield from containers(part, path, seen, depth + 1)
    elif type(root).__module__.startswith("ibdissect."):
        slots = [name for kind in type(root).__mro__ for name in getattr(kind, "__slots__", ())]
        for name in dict.fromkeys([*slots, *getattr(root, "__dict__", {})]):
            yield from containers(getattr(root, name, None), f"{path}.{name}", seen, depth + 1)


def shares(linter: Linter) -> dict[str, float]:
    """Bytes that each container would take if it were full."""
    seen, counted, found = set[int](), set[int](), dict[str, float]()
    states = [*((rule.code, vars(rule)) for rule in linter.rules), *((type(one).__name__, one) for one in linter.context.sources.values())]
    for name, state in [*states, ("findings", linter.findings)]:
        for path, one in containers(state, name, seen):
            held = weight(one, counted)
            found[path] = max(found.get(path, 0), one.limit * (held / len(one) if len(one) > 3 else EMPTY))
    return found


def test_the_engine_takes_what_its_shares_say() -> None:
    """A direction, a lane, a host and a set-up, measured by the memory of a process that makes many of them."""
    program = """
import gc
from ibdissect.engine.requester_responder import Half
from ibdissect.engine.hosts import Host, Lane
from ibdissect.engine.packet_fields import Packet
from ibdissect.engine.connection_setups import AGREED, SetUp
from ibdissect.engine.waiting_packets import Path, Room
path, host, kept = Path(Room()), Host(1, 2, 0, 3), []
def half(i):
    one, p = Half(path), Packet()
    p.op, p.first, p.last, p.size, p.psn, p.time, p.frame = 4, True, True, 64, 5, 10, 1
    one.request(p)
    p.op, p.syndrome = 17, 31
    one.answer(p)
    return one
def setup(i):
    one = SetUp((0, i << 40), (0, i + 1 << 40), 0)
    one.reqs = [(i, i << 40)]
    for name in AGREED:
        one.agreed[name] = 7777 * i
    one.mra, one.rep, one.rtu, one.rej = (i + 10000, i << 40, 3), (i + 20000, i << 40), (i + 30000, i << 40), (i + 40000, i << 40, 3, 1)
    return one
for make in (lambda i: Lane(i << 40, host, host, i, 0, i), half, lambda i: ((i, i + 1 << 40, 0), Host(i, i << 40, 0, i)), setup):
    gc.collect()
    before = int(open('/proc/self/statm').read().split()[1])
    kept.append([make(i) for i in range(5000)])
    print((int(open('/proc/self/statm').read().split()[1]) - before) * 4096 // 5000)
"""
    if not Path("/proc/self/statm").exists():
        pytest.skip("needs /proc")
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    lane, half, host, setup = map(int, told)
    assert 200 < lane <= 510 and half <= 5600 and host <= 400 and setup <= 2600, told


def test_all_bounds_together_stay_within_the_budget() -> None:
    linter = Linter(load(), max_findings=10)
    for _ in fed(linter, crowd(8, at_once=2)):
        pass
    found = shares(linter) | OTHERS
    assert len(found) > 70 and {"Transactions.open", "Connections.setups.by_id"} < set(found)
    assert any(name.endswith(".hits") for name in found), "hits that wait"
    total = sum(found.values())
    largest = sorted(((int(size) >> 20, name) for name, size in found.items()), reverse=True)[:12]
    assert BUDGET / 2 < total < BUDGET, (int(total) >> 20, largest)

"""Tables, LIDs, cables and M_Keys of ports that differ from a subnet file, and files that the traffic refutes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, TypeVar

import numpy as np

from ibdissect.bounded import Dropped
from ibdissect.decode.history import AFTER_ALL, SECOND_NS, History
from ibdissect.decode.identity import Frame, NodeId, PKey
from ibdissect.decode.mads import Mads
from ibdissect.lint.finding import Secret
from ibdissect.lint.rule import INFO, WARNING, Context, Hit, Moment, Rule, fault, on_end, on_event
from ibdissect.mad.transactions import Transactions
from ibdissect.rules.shared.mad_conditions import DOWN
from ibdissect.rules.shared.unanswered_sets import UnansweredSets
from ibdissect.subnet import ChunkFollowed, FabricFollower, Port
from ibdissect.subnet.earlier_answers import AttributeHistory, PKeyTables, PortInfos
from ibdissect.subnet.file_lines import file_and_line, is_doubtful
from ibdissect.subnet.p_keys import BLOCK, MAX_BLOCKS, Membership, PKeys, keys_in
from ibdissect.subnet.refuted_facts import Refuted
from ibdissect.wire.numbers import BASE, P_KEY_TABLE, PORT_INFO, SET, SMP_CLASSES

V = TypeVar("V")
INITIALIZE = 2
"""PortState of a link that the subnet manager has still to configure."""
READS_NS, SWEPT = 10 * SECOND_NS, 3
"""A manager that begins to read all nodes has read so many of them, and writes within this time."""
MAX_TIMES = 262144
"""Answers whose time is remembered."""
Drift = tuple[int, int, dict[str, Any], object]
"""Frame that shows the fact, number of the line that says otherwise, arguments of the message, key of the finding."""


class _DriftRule(Rule):
    """Base of rules that compare files with the state at the capture's end, when a subnet manager at work has finished."""

    evidence = (
        "What the port showed last in the capture. An `info` where the file is the output of a tool, which may just be older than a "
        "change, for a port whose link is not yet up (Initialize), which its manager has still to set up, and where a manager is at work: "
        "a later Set of the port has no answer, or within ten seconds before the capture ends several nodes were read and no Set followed."
    )
    source: ClassVar[type[AttributeHistory]] = PortInfos
    attribute: ClassVar[int] = PORT_INFO
    needs = (FabricFollower, Transactions, UnansweredSets)

    def __init__(self) -> None:
        self.times: dict[Frame, int] = {}
        self.last_ns = 0
        self.last_set = 0
        """The frame of the last Set of subnet management."""
        self.read: dict[NodeId, Frame] = {}
        """The frame of the last answer of each node."""
        self.dropped = Dropped("times of answers that subnet files are compared with")

    @on_event(ChunkFollowed)
    def chunk(self, event: ChunkFollowed, context: Context) -> None:
        if not context.files or not len(event.table):
            return
        self.last_ns = int(event.table.chunk.time_ns[-1])
        mads = event.table.once(Mads)
        sets = mads.frames[(mads.method == SET) & np.isin(mads.mgmt_class, [*SMP_CLASSES])]
        self.last_set = int(sets[-1]) if len(sets) else self.last_set
        smps = context.get(self.source).of(event)
        rows = np.flatnonzero(smps.answers)
        if len(self.times) < MAX_TIMES:
            self.times.update(zip(smps.frames[rows].tolist(), event.table.chunk.time_ns[smps.rows[rows]].tolist(), strict=True))
            self.read.update(zip(smps.slot[rows].tolist(), smps.frames[rows].tolist(), strict=True))
        elif len(rows):
            self.dropped.add(int(smps.frames[rows[0]]), self.last_ns, len(rows))

    @on_end
    def end(self, context: Context) -> Iterator[Hit]:
        ports = context.get(FabricFollower).subnet.ports() if context.files else ()
        found = [(port, *drift) for port in ports for drift in self.drifts(port)]
        late = [one for one in self.read.values() if one > self.last_set and self.last_ns - self.times.get(one, 0) <= READS_NS]
        unanswered = context.get(UnansweredSets)
        for port, frame, line, arguments, key in found:
            at_work = len(late) >= SWEPT or unanswered.between(self.attribute, frame, AFTER_ALL, [port.node])
            lasting = context.files[file_and_line(line)[0]].lasting and not _starts(port)
            yield fault(
                Moment(frame, self.times.get(frame, self.last_ns)), {"port": str(port), **arguments}, proof=[(line, "says otherwise")],
                key=(port.key, key), severity=None if lasting and not at_work else INFO,
            )  # fmt: skip

    def drifts(self, port: Port) -> Iterator[Drift]:
        """Facts of a port that differ from what a file says."""
        raise NotImplementedError


def _starts(port: Port) -> bool:
    """Whether a port showed last that its link was not ready yet: a manager has still to write what it begins with."""
    return port.info is not None and port.info.port_state in (DOWN, INITIALIZE)


def contradicted(track: History[V]) -> tuple[V, int] | None:
    """The value of a fact in a file, if the capture last showed another, and its line number."""
    if track.since <= 0 or track.now is None:
        return None
    listed = [(value, line) for value, line in track.past if line < 0 and value is not None]
    return listed[-1] if listed and listed[-1][0] != track.now else None


class TableDrift(_DriftRule):
    """A port's P_Key table differs from a file.

    If the file is partitions.conf, the subnet manager did not write what the administrator configured: it did not read the file again,
    refused it, or another manager is the master. If it is the output of a tool, somebody changed the table since.

    Look for errors of partitions.conf in opensm.log, send opensm a SIGHUP, and read the table again (smpquery pkeys).

    The latest table in the capture up to its capacity, complete if compared with partitions.conf. An `info` for the output of a tool,
    which may just be older.
    """

    code, name, severity = "DRF001", "pkey-table-drift", WARNING
    reference = "IBA 10.9; opensm osm_prtn_config.c"
    message = "the P_Key table of {port} {differs}"
    example = "partitions.conf that gives a port 0x8010, then GetResp(P_KeyTable) of the port without it"
    source, attribute = PKeyTables, P_KEY_TABLE

    def drifts(self, port: Port) -> Iterator[Drift]:
        table = port.p_keys
        if table is None:
            return
        said = {block.number: found for block in table.blocks if (found := contradicted(block)) is not None}
        size = port.p_key_capacity(AFTER_ALL) or MAX_BLOCKS * BLOCK
        held = set[PKey]().union(*(_keys(one.now, size, one.number) for one in table.blocks))
        before = set[PKey]().union(
            *(_keys(said[one.number][0] if one.number in said else one.now, size, one.number) for one in table.blocks)
        )
        if text := _compared(before, held):
            yield max(block.since for block in table.blocks), min(line for _, line in said.values()), {"differs": text}, "table"
        if table.intended is not None:
            yield from self._intended(port, table, table.intended)

    @staticmethod
    def _intended(port: Port, table: PKeys, intended: Membership) -> Iterator[Drift]:
        size = port.p_key_capacity(AFTER_ALL) or 0
        keys, known, shown = table.keys(AFTER_ALL, size)
        if not size or not shown or max(shown) <= 0 or any(block not in known for block in range(-(-size // BLOCK))):
            return
        held = {key for key in keys if key & BASE}
        sure = {key for key, line in intended.keys.items() if not is_doubtful(line)}
        # Whether a port also holds the other form of a partition depends on allow_both_pkeys, which may be unknown.
        wrong = {key & BASE for key in held - intended.keys.keys()} | ({key & BASE for key in sure} - {key & BASE for key in held})
        text = _compared((held & intended.keys.keys()) | {key for key in sure if key & BASE in wrong}, held)
        if text:
            lines = [line for key, line in intended.keys.items() if key & BASE in wrong and not is_doubtful(line)]
            yield max(shown), min(lines, default=intended.whole), {"differs": text}, "partitions.conf"


def _keys(block: bytes | None, size: int, number: int) -> set[PKey]:
    """The keys of a block of a table with so many entries."""
    return {key for key in keys_in(block)[: max(0, size - number * BLOCK)] if key & BASE}


def _compared(said: set[PKey], held: set[PKey]) -> str:
    """`lacks 0x8010, holds 0x0010, which the file does not give it`; empty if both are the same."""
    parts = [f"lacks {_listed(said - held)}"] if said - held else []
    parts += [f"holds {_listed(held - said)}, which the file does not give it"] if held - said else []
    return " and ".join(parts)


def _listed(keys: set[PKey]) -> str:
    first = ", ".join(f"0x{key:04x}" for key in sorted(keys)[:4])
    return f"{first} and {len(keys) - 4} more" if len(keys) > 4 else first


class LidDrift(_DriftRule):
    """A port's LIDs differ from a file.

    Whatever relies on the file - scripts, static routes, these findings - is about another port.

    Collect the file again. If it is guid2lid, find out why the subnet manager did not honor it (opensm: `honor_guid2lid_file`).
    """

    code, name, severity = "DRF002", "lid-drift", WARNING
    reference = "IBA 14.2.5.6; opensm osm_lid_mgr.c"
    message = "{port} has LID {lid} (LMC {lmc}); the file says LID {said} (LMC {said_lmc})"
    example = "guid2lid that gives a port LID 5, then GetResp(PortInfo) of the port with LID 6"

    def drifts(self, port: Port) -> Iterator[Drift]:
        said, now = contradicted(port.lids), port.lids.now
        if said is not None and now is not None:
            (lid, lmc), line = said
            yield port.lids.since, line, {"lid": now[0], "lmc": now[1], "said": lid, "said_lmc": lmc}, "lid"


class CableDrift(_DriftRule):
    """A port's cable leads to another port than a file says.

    Somebody moved a cable: what is plugged in there now has the rights and routes meant for the previous neighbour.

    Compare with the cabling plan and collect the file again.
    """

    code, name, severity = "DRF003", "cable-drift", WARNING
    reference = "IBA 14.2.2; opensm neighbors file"
    message = "the cable of {port} leads to {peer}; the file says {said}"
    example = "ibnetdiscover with a host at port 1 of a switch, then directed routes that show it at port 2"

    def drifts(self, port: Port) -> Iterator[Drift]:
        said, peer = contradicted(port.facing), port.peer
        if said is not None and peer is not None:
            yield port.facing.since, said[1], {"peer": str(peer), "said": str(said[0])}, "cable"


class KeyDrift(_DriftRule):
    """A port's M_Key differs from a file.

    A subnet manager that starts with the file (guid2mkey) cannot write to the port.

    Find out which subnet manager set the key; let the master write the file again.
    """

    code, name, severity = "DRF004", "m-key-drift", WARNING
    reference = "IBA 14.2.4; opensm guid2mkey"
    message = "{port} has {held}; the file says {said}"
    example = "guid2mkey that gives a port one key, then GetResp(PortInfo) of the port with another"

    def drifts(self, port: Port) -> Iterator[Drift]:
        if port.guard is None or port.guard.held.now is None:
            return
        said, now = contradicted(port.guard.held), port.guard.held.now
        if said is not None and said[0].key != now.key:
            yield port.guard.held.since, said[1], {"held": Secret("M_Key", now.key), "said": Secret("M_Key", said[0].key)}, "m_key"


class Acknowledged(Rule):
    """The traffic contradicts a file: a port acknowledges packets that the file rules out.

    The file describes the subnet at another time, or another subnet. No finding that relies on it, or on a file that is not newer, is more
    than an `info`.

    Collect the files again, or use those from the time of the capture.

    An acknowledgement of an RC responder, which acknowledges only what its port accepted: in a partition that its P_Key table lacks
    according to the file, or from a LID that no port has there.
    """

    code, name, severity = "DRF005", "file-refuted-by-traffic", WARNING
    reference = "IBA 9.6.1, 10.9.3"
    message = "LID {lid} acknowledges{what}"
    example = "guid2lid and a P_Key table without 0x8010 for LID 5, then an ACK of LID 5 with P_Key 0x8010"

    @on_end
    def end(self, context: Context) -> Iterator[Hit]:
        for frame, time_ns, lid, p_key, lines in context.get(Refuted).lines() if context.files else ():
            no_port = ", but according to the files no port has it"
            what = no_port if p_key is None else f" with P_Key 0x{p_key:04x}, which its P_Key table lacks according to the files"
            proof = [(line, "says otherwise") for line in lines]
            yield fault(Moment(frame, time_ns), {"lid": lid, "what": what}, proof=proof, key=lid)

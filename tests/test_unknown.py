"""Values that a cut capture does not show are null in all tables, never 0, empty or false."""

from __future__ import annotations

import io
import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import ibdissect
from ibdissect import Capture
from ibdissect.pipeline.reading import open_reading
from ibdissect.traffic.statistics import Statistics
from tests import independent_packets
from tests.changed_captures import cut, written
from tests.commands import NEEDS_DUCKDB, run
from tests.diagnosis.lab import MS, Lab, as_json, diagnosis

CAPTURES = Path(__file__).parents[2] / "shared/captures"
MADE = {"messages": Capture.messages, "records": Capture.records, "requests": Capture.requests, "connections": Capture.connection_table}
KEYS = {"messages": ("first_frame",), "records": ("layer", "record", "frames"), "requests": ("request_frame",),
        "connections": ("first_frame",), "mads": ("frame_number",), "ports": ("frame_number",), "packets": ("frame_number",)}  # fmt: skip
JUDGED = {"verdict", "cause", "severity", "why", "advice", "outcome", "outcome_time", "requester", "connection", "blamed", "since",
          "detail", "proof_frame", "decisive_frame", "set_up", "set_up_tries", "round_trip", "transferring", "ack_wait"}  # fmt: skip
"""What follows from all that was captured: with less, something else may."""
SEEN = {"frame_cap_len", "info", "protocol", "destination", "frames", "lengths", "offsets", "segments"}
"""Columns that say what was captured, not what was sent: the destination of a request is its LID where its route is cut off."""
Row = dict[str, Any]
Table = dict[str, Row]


def rows(batch: Any) -> Iterable[Row]:
    """Times as numbers: they have nanoseconds."""
    columns = [column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in batch.columns]
    return (dict(zip(batch.schema.names, row, strict=True)) for row in zip(*(column.to_pylist() for column in columns), strict=True))


def tables(data: bytes, names: Iterable[str]) -> dict[str, Table]:
    found = {}
    for name in names:
        with ibdissect.open(io.BytesIO(data)) as capture:
            batches = pa.RecordBatchReader.from_stream(MADE[name](capture)) if name in MADE else [capture.sql(f"select * from {name}")]
            found[name] = {str([row[key] for key in KEYS[name]]): row for batch in batches for row in rows(batch)}
    return found


def wrong(whole: dict[str, Table], part: dict[str, Table]) -> dict[tuple[str, str], list[Any]]:
    """By table and column: values of the cut capture that are neither null nor those of the whole one."""
    found = defaultdict(list)
    for name, table in part.items():
        for key, row in table.items():
            for column, value in row.items() if key in whole[name] else ():
                if value is not None and column not in SEEN | JUDGED and value != whole[name][key][column]:
                    found[name, column].append((key, value, whole[name][key][column]))
    return found


OF_CONNECTIONS = [
    "nak_invalid_request.pcap", "nak_misaligned_atomic.pcap", "rc_atomic_lat.pcap", "cm_rping_v4.pcap", "cm_reject_no_listener.pcap",
    "cm_udaddy.pcap", "netem_blackout_retry_exceeded.pcap", "rc_send_inv.pcap", "k612_atomic_write.pcap",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(not CAPTURES.is_dir(), reason="there are no shared captures")
@pytest.mark.parametrize("size", [54, 56, 58, 62, 64, 70, 74, 82, 96, 120, 200])
@pytest.mark.parametrize("name", OF_CONNECTIONS)
def test_tables_of_connections_that_are_cut(name: str, size: int) -> None:
    every = [(time, length, data) for time, length, data, _ in independent_packets.records(str(CAPTURES / "rxe" / name))]
    names = ("messages", "requests", "connections")
    whole, part = tables(written(every), names), tables(written(cut(size)(every)), names)
    assert not wrong(whole, part)


@pytest.mark.slow
@NEEDS_DUCKDB
@pytest.mark.skipif(not CAPTURES.is_dir(), reason="there are no shared captures")
@pytest.mark.parametrize("size", [30, 50, 60, 76, 100, 120, 160, 200, 240])
def test_tables_of_management_that_is_cut(size: int) -> None:
    every = [
        (time, length, data) for time, length, data, _ in independent_packets.records(str(CAPTURES / "opensm/01-sweep-net1-lt247.pcap"))
    ]
    names = ("packets", "mads", "ports", "records", "requests")
    whole, part = tables(written(every, 247), names), tables(written(cut(size)(every), 247), names)
    assert not wrong(whole, part) and part["packets"]


# -- one case each


def refused() -> Lab:
    """A SEND that is refused, one that is acknowledged, and one that nobody answers."""
    lab = Lab()
    lab.ask(0, 100)
    lab.answer(MS, 100, msn=1)
    lab.ask(2 * MS, 101)
    lab.answer(3 * MS, 101, 0x62, msn=1)
    lab.ask(4 * MS, 102)
    return lab


BEFORE_AETH = 14 + 20 + 8 + 12


@pytest.mark.parametrize("size", [BEFORE_AETH, BEFORE_AETH + 3])
def test_an_answer_that_is_cut_off_says_nothing_of_its_message(size: int) -> None:
    columns = ("naks", "complete", "latency", "ack_frame", "ended")
    whole = tables(refused().pcap(), ["messages"])["messages"].values()
    assert [tuple(map(row.get, columns[:2])) for row in whole] == [(0, True), (1, False), (0, False)]
    part = tables(refused().pcap(size), ["messages"])["messages"].values()
    assert [tuple(map(row.get, columns)) for row in part] == [(None, None, None, None, True)] * 2 + [(0, False, None, None, True)]


def test_statistics_count_messages_whose_answers_are_cut_off() -> None:
    for size, unread, naks, complete in ((65535, 0, 1, 1), (BEFORE_AETH, 2, 0, 0)):
        statistics = Statistics()
        with open_reading(io.BytesIO(refused().pcap(size))) as reading:
            for table in reading.tables(keys=False):
                statistics.feed(table)
        (entry,) = statistics.result()["messages"]
        assert (entry["unread_answers"], entry["naks"], entry["complete"]) == (unread, naks, complete)


def test_a_set_up_whose_queue_pairs_are_cut_off_counts_nothing() -> None:
    """Communication ids are captured, queue pairs are not: it is not healthy, and its data is unknown."""
    lab = Lab()
    lab.good(lab.up(), 100, 5)
    found = diagnosis(lab.pcap(14 + 20 + 8 + 12 + 8 + 24 + 12))
    up, data = found.connections
    assert (up.verdict, up.set_up.state, up.ends[0].qpn, up.ends[1].qpn) == ("cannot-tell", "complete", None, None)
    assert "queue pairs are not captured" in up.why and not any(up.known_counts.values()) and None in {*up.known_counts.values()}
    assert set(as_json([found])["connections"][0]["counts"].values()) == {None}
    assert data.known_counts["messages"] == 5 and data.known_counts["naks"] == 0
    idle = Lab()
    idle.up()
    (one,) = diagnosis(idle.pcap()).connections
    assert one.verdict == "healthy" and set(one.known_counts.values()) == {0}


@pytest.mark.skipif(not CAPTURES.is_dir(), reason="there are no shared captures")
def test_a_subnet_without_node_info_and_description(tmp_path: Path) -> None:
    """What the nodes are and are called was not captured, nor which of their ports has a LID."""
    path = str(CAPTURES / "opensm/01-sweep-net1-lt247.pcap")
    kept = {one.number for one in independent_packets.frames(path) if ((one.packet and one.packet.mad) or (0, 0, 0))[2] not in (0x10, 0x11)}
    every = [(time, length, data) for n, (time, length, data, _) in enumerate(independent_packets.records(path), 1) if n in kept]
    (tmp_path / "some.pcap").write_bytes(written(every, 247))
    fabric = json.loads(run("fabric", str(tmp_path / "some.pcap"), "--format", "json").stdout)
    assert fabric["lids"] and {(one["node"], one["port"]) for one in fabric["lids"]} == {(None, None)}
    named = [*fabric["nodes"], *(member for one in fabric["partitions"] for member in one["members"])]
    assert {one["name"] for one in named} == {None} and {port["number"] for port in fabric["nodes"][0]["ports"]} == {None}
    text = run("fabric", str(tmp_path / "some.pcap")).stdout.decode()
    assert "port ?" in text and "None" not in text

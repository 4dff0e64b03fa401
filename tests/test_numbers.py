"""`stats` and the tables of messages and records agree with a counter that shares no code with them, and with each other."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import ibdissect
from ibdissect.pictures.portrait import Portrait, read
from ibdissect.pipeline.check import CheckOptions
from ibdissect.pipeline.reading import open_reading
from ibdissect.screen_model.background_analysis import Snapshot
from ibdissect.screen_model.number_text import duration
from ibdissect.traffic.statistics import Statistics
from tests import changed_captures, independent_counter, independent_packets, shown
from tests.diagnosis.lab import diagnosis
from tests.independent_messages import Message

SHARED = Path(__file__).parents[2] / "shared"
FOLDERS = ("captures/rxe", "captures/real", "captures/opensm", "numbers", "public", "faults", "points")
LARGEST = 400_000
"""Bytes of the largest capture that is counted by bytes; --thorough counts all of them, which takes minutes."""
EVERY = sorted(path for folder in FOLDERS for path in (SHARED / folder).rglob("*.pcap*") if path.is_file())
CHANGED = [
    SHARED / "captures/rxe" / name
    for name in ("rc_ops_mixed.pcap", "rc_batch_pipelined.pcap", "uc_send.pcap", "netem_reorder_resp.pcap", "cm_rping_big.pcap",
                 "rnr_recover.pcap", "ud_send_v6.pcap", "rc_send_mtu1024.pcap", "k612_netem_mess.pcap")
]  # fmt: skip
STREAM = ("packets", "payload_bytes", "unknown_sizes", "naks", "rnr_naks", "repeated", "missing", "late", "repeated_responses",
          "missing_responses", "unread_answers")  # fmt: skip
MESSAGE = ("messages", "complete", "bytes", "unknown_sizes", "retries", "naks")
MISSED = re.compile(r"roce-both/hub|ib-four-points|ib-tap-misses/T|roce-one-way/rx")
"""Captures that miss packets, or show them after their acknowledgement: which of them came before is not known for sure."""
KINDS = ("SEND", "WRITE", "READ", "ATOMIC", "FLUSH", "ATOMIC WRITE")
NAK_CODES = tuple(map(str, range(32)))
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not SHARED.is_dir(), reason="there are no shared captures")]


def counted(source: Any) -> dict[str, Any]:
    """What `stats` says."""
    statistics = Statistics()
    with open_reading(source) as reading:
        for table in reading.tables(keys=False):
            statistics.feed(table)
    return statistics.result(None)


def summed(entries: Iterable[dict[str, Any]], key: tuple[str, ...], fields: tuple[str, ...]) -> dict[tuple[Any, ...], Counter[str]]:
    found: dict[tuple[Any, ...], Counter[str]] = defaultdict(Counter)
    for entry in entries:
        for name in fields:
            found[tuple(entry[part] for part in key)][name] += entry[name]
        for kind, number in {**entry.get("kinds", {}), **entry.get("nak_codes", {})}.items():
            found[tuple(entry[part] for part in key)][kind] += number
    return found


def differences(path: Path) -> list[Any]:
    """Where `stats` and the independent counter differ."""
    mine, theirs = independent_counter.count(str(path)), counted(str(path))
    found: list[Any] = [
        (name, mine[name], theirs[name]) for name in ("frames", "bytes", "copies", "first_ns", "last_ns", "set_back")
        if mine[name] != theirs[name]
    ]  # fmt: skip
    lists = {"opcodes": ("opcode",), "p_keys": ("p_key",), "queue_pairs": ("dest_qp",), "conversations": ("source", "destination")}
    for name, key in lists.items():
        every = {tuple(entry[part] for part in key): [entry["frames"], entry["bytes"]] for entry in theirs[name]}
        wanted = {one if isinstance(one, tuple) else (one,): values for one, values in mine[name].items()}
        found += [(name, one, wanted.get(one), every.get(one)) for one in {*every, *wanted} if wanted.get(one) != every.get(one)]
    for side, entries in theirs["lids"].items():
        wanted = mine[f"{side}_lids"]
        every = {entry["lid"]: [entry["frames"], entry["bytes"]] for entry in entries}
        found += [(side, lid, wanted.get(lid), every.get(lid)) for lid in {*every, *wanted} if wanted.get(lid) != every.get(lid)]
    managed = Counter[tuple[int, int, str]]()
    for (mgmt_class, _, attribute), (number, size) in mine["mads"].items():
        managed.update({(mgmt_class, attribute, "frames"): number, (mgmt_class, attribute, "bytes"): size})
    for entry in theirs["mads"]:
        managed.subtract({(entry["mgmt_class"], entry["attribute"], name): entry[name] for name in ("frames", "bytes")})
    found += [("mads", *one, number) for one, number in managed.items() if number]
    parts: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
        ("streams", ("service", "source", "destination", "dest_qp", "responses"), STREAM),
        ("messages", ("service", "source", "destination", "dest_qp"), MESSAGE),
    )
    for name, key, fields in parts:
        every_ = summed(theirs[name], key, fields)
        for one in {*every_, *mine[name]}:
            for what in (*fields, *(KINDS if name == "messages" else NAK_CODES)):
                pair = mine[name].get(one, {}).get(what, 0), every_.get(one, Counter())[what]
                found += [(name, one, what, *pair)] if pair[0] != pair[1] else []
    if not MISSED.search(str(path)):
        told = Counter[str]()
        with ibdissect.open(str(path)) as capture:
            for one in capture.connections():
                told.update(messages=one.counts.messages, payload_bytes=one.counts.payload_bytes)
        found += [("connections", name, number, told[name]) for name, number in mine["connections"].items() if number != told[name]]
    marks = Counter(mine["marks"])
    for entry in theirs["congestion"]:
        for mark, what in (("ce", "ce"), ("fecn", "fecn"), ("becn", "becn"), ("cnp", "cnp"), ("fragment", "fragments")):
            marks[(entry["source"], entry["destination"]), mark] -= entry[what]
    found += [("marks", *one, number) for one, number in marks.items() if number]
    found += [("set-ups", mine["set_ups"], theirs["connections"])] if mine["set_ups"] != theirs["connections"] else []
    return (
        found
        + answers_that_differ(mine["answered"], theirs["response_times"])
        + rows_that_differ(path, mine["rows"])
        + (percentiles_that_differ(mine["rows"], theirs["messages"]))
    )


def answers_that_differ(mine: dict[tuple[int, int], dict[str, Any]], theirs: list[dict[str, Any]]) -> list[Any]:
    """By class and attribute, Gets and Sets together."""
    found = []
    told: dict[tuple[int, int], list[dict[str, Any]]] = defaultdict(list)
    for entry in theirs:
        told[entry["mgmt_class"], entry["attribute"]].append(entry)
    for key in {*mine, *told}:
        one, several = mine.get(key, {"answered": 0, "unanswered": 0, "retries": 0, "times": []}), told.get(key, [])
        pairs = {name: (one[name], sum(entry[name] for entry in several)) for name in ("answered", "unanswered", "retries")}
        timed = [entry for entry in several if "min_ns" in entry]
        if one["times"] or timed:
            pairs["min_ns"] = min(one["times"], default=None), min((entry["min_ns"] for entry in timed), default=None)
            pairs["max_ns"] = max(one["times"], default=None), max((entry["max_ns"] for entry in timed), default=None)
        found += [("response times", key, name, *pair) for name, pair in pairs.items() if pair[0] != pair[1]]
    return found


ROW = ("kind", "service", "source", "destination", "dest_qp", "first_frame", "bytes", "retries", "naks", "complete", "ack_frame", "latency")


def rows_that_differ(path: Path, every: list[Message]) -> list[Any]:
    """Rows of the table of messages that the independent counter does not have, and those that only it has."""
    mine = Counter(
        (one.kind, *map(str, one.way[:3]), one.way[3], one.first_frame, one.bytes, one.retries, one.naks, one.complete, one.ack_frame,
         one.latency) for one in every
    )  # fmt: skip
    with ibdissect.open(str(path)) as capture:
        rows = [row for batch in capture.messages().batches() for row in batch.select(ROW).to_pylist() if row["service"] != "CM"]
    theirs = Counter(
        (*(row[name] for name in ROW[:7]), row["retries"], row["naks"] or 0, row["complete"] or False, row["ack_frame"] or 0,
         None if row["latency"] is None else int(row["latency"].scaleb(9))) for row in rows
    )  # fmt: skip
    return [("mine", *(mine - theirs)), ("theirs", *(theirs - mine))] if mine != theirs else []


def percentiles_that_differ(every: list[Message], theirs: list[dict[str, Any]]) -> list[Any]:
    """Of latencies, by nearest rank."""
    times: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for one in every:
        times[one.way] += [one.latency] if one.latency is not None else []
    found = []
    for entry in theirs:
        mine = sorted(times[entry["service"], entry["source"], entry["destination"], entry["dest_qp"]])
        for share in (50, 90, 95, 99) if entry["service"] != "CM" and not entry["percentile_error"] else ():
            pair = mine[-(-share * len(mine) // 100) - 1] if mine else None, entry[f"p{share}_ns"]
            found += [("percentile", share, entry, *pair)] if pair[0] != pair[1] else []
    return found


def marked(path: Path, largest: int = LARGEST) -> Any:
    """A capture for parametrize: large ones with --thorough only."""
    return pytest.param(path, marks=[pytest.mark.thorough] * (path.stat().st_size > largest), id=str(path.relative_to(SHARED)))


@pytest.mark.parametrize("path", [marked(path) for path in EVERY])
def test_the_independent_counter_agrees(path: Path) -> None:
    assert not differences(path)


@pytest.mark.parametrize("path", CHANGED, ids=lambda path: path.name)
@pytest.mark.parametrize("change", changed_captures.CHANGES)
def test_the_independent_counter_agrees_about_changed_captures(path: Path, change: str, tmp_path: Path) -> None:
    every = changed_captures.ethernet(path)
    assert every is not None
    changed = tmp_path / "changed.pcap"
    changed.write_bytes(changed_captures.written(changed_captures.CHANGES[change](every)))
    assert not differences(changed)


NATIVE = [SHARED / name for name in ("captures/opensm/01-sweep-net1.pcap", "captures/opensm/24-congestion-control.pcap",
                                     "captures/real/infiniband.pcap", "points/hard/ib-equal-bytes/A.pcap.gz")]  # fmt: skip
CHANGES_OF_NATIVE = {
    **{f"cut at {size}": changed_captures.cut(size) for size in (46, 54, 70, 100, 128)},
    **{name: changed_captures.CHANGES[name] for name in ("mirrored", "mirrored thrice", "set back", "stepping back")},
}


@pytest.mark.parametrize("path", NATIVE, ids=lambda path: path.name)
@pytest.mark.parametrize("change", CHANGES_OF_NATIVE)
def test_the_independent_counter_agrees_about_changed_captures_of_infiniband(path: Path, change: str, tmp_path: Path) -> None:
    """Packets from their LRH on."""
    every = [(one.time, one.length, one.data) for one in islice(independent_packets.frames(str(path)), 2000)]
    changed = tmp_path / "changed.pcap"
    changed.write_bytes(changed_captures.written(CHANGES_OF_NATIVE[change](every), 247))
    assert not differences(changed)


WHOLE_SIZES = {"ud_send_v6.pcap"}
"""No packets of connections."""
REPEATED_READ = "k612_netem_mess.pcap"
"""A READ is asked again from its middle: without the RETH nobody knows that it is not the next one."""


@pytest.mark.parametrize("path", CHANGED, ids=lambda path: path.name)
@pytest.mark.parametrize("size", [58, 64, 70, 74, 80, 128])
def test_diagnose_counts_the_same_of_cut_packets(path: Path, size: int) -> None:
    """RETH and AtomicETH are cut off below 82 bytes: sequence and sizes come from BTH, UDP and IP."""
    every = changed_captures.ethernet(path)
    assert every is not None
    if path.name == REPEATED_READ and size < 74:
        return
    whole, cut = (diagnosis(changed_captures.written(some)) for some in (every, changed_captures.cut(size)(every)))
    sums = [Counter[str](), Counter[str]()]
    for found, told in zip((whole, cut), sums, strict=True):
        for one in found.connections:
            told.update({name: getattr(one.counts, name) for name in one.counts.__struct_fields__})
    assert sums[0] == sums[1] and (sum(sums[0].values()) or path.name in WHOLE_SIZES)


WITH_RECORDS = {"10-partitions.pcap", "14-saquery.pcap", "26-informinfo-reports.pcap"}
OF_SUBNETS = [
    pytest.param(path, marks=[pytest.mark.thorough] * (path.name not in WITH_RECORDS), id=path.name)
    for path in EVERY if path.parent.name == "opensm"
]  # fmt: skip


@pytest.mark.parametrize("path", OF_SUBNETS)
def test_the_independent_counter_agrees_about_records(path: Path) -> None:
    with ibdissect.open(str(path)) as capture:
        rows = [row for batch in capture.records().batches() for row in batch.select(["attribute", "complete"]).to_pylist()]
    shown = Counter(row["attribute"] for row in rows if row["complete"])
    assert sorted(shown.values()) == sorted((+independent_counter.count(str(path))["records"]).values())
    assert shown or path.name not in WITH_RECORDS


# -- the outputs agree with each other

SMALL = 200_000
"""Bytes of the largest capture of which all outputs are compared; --thorough compares those of all."""
DAMAGED = {"netem_corrupt.pcap"}
"""A request that was sent again came with a wrong ICRC: it is no step of a stream."""


def by_ends(entries: Iterable[dict[str, Any]], *, message: bool) -> Counter[tuple[Any, ...]]:
    """Sums by unordered pair of ends, for what the screen and reports show of both directions together."""
    found = Counter[tuple[Any, ...]]()
    for entry in entries:
        ends = (entry["service"], *sorted((entry["source"], entry["destination"])))
        if message:
            found[(*ends, "messages")] += entry["messages"]
        else:
            found[(*ends, "repeated")] += entry["repeated"] + entry["repeated_responses"]
            found[(*ends, "missing")] += entry["missing"] + entry["missing_responses"]
            found[(*ends, "naks")] += entry["naks"]
            found[(*ends, "rnr")] += entry["rnr_naks"]
    return +found


def with_page(path: Path, shot: Snapshot) -> bool:
    """Whether the page is made, too: of one capture of four, if it lists all conversations."""
    return path not in EVERY or (EVERY.index(path) % 4 == 0 and len(shot.conversations) <= 100)  # a page has no more


SENT = {"repeated": "Repeated", "missing": "Missing", "naks": "NAKs", "rnr": "RNR", "messages": "Messages"}
ON_THE_PAGE = {"repeated": "repeated", "missing": "missing", "naks": "NAK", "rnr": "RNR", "packets": "packets", "back": "back"}
OF_STREAMS = {"repeated": "repeated", "missing": "missing", "rnr": "RNR", "packets": "packets"}
ASKED = {"answered": "Answered", "unanswered": "Unanswered", "retries": "Retries"}


def what_people_read_agrees(stats: dict[str, Any], screens: dict[str, list[shown.Row]], page: dict[str, list[shown.Row]] | None) -> None:
    """The text of `stats`, the cells of the screen's tables and the page of `report`, read back."""
    text = shown.text_of_stats(stats | {"causes": [], "times": []})
    wanted = Counter[str]()
    for entry in stats["streams"]:
        wanted.update(repeated=entry["repeated"] + entry["repeated_responses"], missing=entry["missing"] + entry["missing_responses"],
                      naks=entry["naks"], rnr=entry["rnr_naks"], packets=entry["packets"])  # fmt: skip
    assert shown.summed(text.get("Streams", []), OF_STREAMS) == {name: wanted[name] for name in OF_STREAMS} or not stats["streams"]
    wanted["messages"] = sum(entry["messages"] for entry in stats["messages"])
    told = shown.summed(screens["conversations"], SENT)
    assert +told == Counter({name: wanted[name] for name in SENT if wanted[name]})
    in_text = shown.summed(text.get("Response times", []), {name: name for name in ASKED})
    assert all(in_text[name] == sum(entry[name] for entry in stats["response_times"]) for name in ASKED)
    frames = [(row["frames"], row["frame bytes"]) for row in text.get("OpCodes", [])]
    assert frames == [(str(entry["frames"]), str(entry["bytes"])) for entry in stats["opcodes"]]
    asked = {name: sum(entry[name] for entry in stats["response_times"]) for name in ASKED}
    for rows in (screens["kinds"], screens["exchanges"]):
        assert shown.summed(rows, ASKED) == asked or not rows
    slowest = [duration(entry["p99_ns"]) for entry in stats["response_times"] if "p99_ns" in entry]
    assert sorted(row["p99"] for row in screens["kinds"] if row["p99"] != "·") == sorted(slowest)
    if page is not None:
        rows = [row for row in page.get("conversations", []) if row["service"] in ("RC", "UC", "XRC")]
        found = shown.summed(rows, ON_THE_PAGE)
        assert (found["packets"] + found["back"], *(found[name] for name in ("repeated", "missing", "naks", "rnr"))) == tuple(
            wanted[name] for name in ("packets", "repeated", "missing", "naks", "rnr")
        )
        on_page = {"answered": "answered", "unanswered": "unanswered", "retries": "tried again"}
        assert shown.summed(page.get("requests", []), on_page) == asked or not page.get("requests")


@pytest.mark.parametrize("path", [marked(path, SMALL) for path in EVERY])
def test_all_outputs_agree(path: Path) -> None:
    """`stats`, the snapshot that the screen and `report` show, the messages of export and sql, `diagnose` and Python."""
    stats = counted(str(path))
    with read(str(path), CheckOptions(rules=[], names=False)) as portrait:
        assert isinstance(portrait, Portrait)
        shot = portrait.shot
        what_people_read_agrees(stats, shown.screens(portrait), shown.report(portrait) if with_page(path, shot) else None)
    # Frames, and what is in them: the screen and the report.
    assert (shot.traffic.frames, shot.traffic.octets) == (stats["frames"], stats["bytes"])
    assert sorted(count for _, count in shot.traffic.opcodes) == sorted(entry["frames"] for entry in stats["opcodes"])
    assert sorted(count for _, count in shot.traffic.p_keys) == sorted(entry["frames"] for entry in stats["p_keys"])
    # Streams and messages.
    in_snapshot = Counter[tuple[Any, ...]]()
    for one in shot.conversations:
        ends = (one.service, *sorted((str(one.near), str(one.far))))
        for name, number in (("repeated", one.repeated), ("missing", one.missing), ("naks", one.naks), ("rnr", one.not_ready)):
            in_snapshot[(*ends, name)] += number if one.counted else 0
    assert +in_snapshot == by_ends(stats["streams"], message=False)
    told = Counter[tuple[Any, ...]]()
    for one in shot.conversations:
        told[(one.service, *sorted((str(one.near), str(one.far))), "messages")] += one.messages
    assert +told == by_ends(stats["messages"], message=True)
    # Management: requests by kind, on the screen and in stats.
    kinds = sorted((found.answered, found.unanswered, found.retries) for _, found in shot.kinds)
    assert kinds == sorted((entry["answered"], entry["unanswered"], entry["retries"]) for entry in stats["response_times"])
    median = {found.answered: found.quantile(0.95) for _, found in shot.kinds if found.times.count}
    assert median == {entry["answered"]: entry["p95_ns"] for entry in stats["response_times"] if "p95_ns" in entry}
    # The table of messages, and connections as Python and `diagnose` have them.
    with ibdissect.open(str(path)) as capture:
        columns = ["service", "complete", "bytes", "packets", "retries", "naks", "cnps"]
        every = [row for batch in capture.messages().batches() for row in batch.select(columns).to_pylist()]
        rows = [row for row in every if row["service"] != "CM"]
        connections = capture.connections()
    sums, wanted = Counter[str](), Counter[str]()
    for row in rows:
        sums.update(messages=1, complete=row["complete"], bytes=row["bytes"] or 0, unknown_sizes=row["bytes"] is None,
                    **{name: row[name] for name in ("packets", "retries", "naks", "cnps")})  # fmt: skip
    for entry in stats["messages"]:
        names = ("messages", "complete", "bytes", "unknown_sizes", "packets", "retries", "naks", "cnps")
        wanted.update({name: entry[name] for name in names})
    assert +sums == +wanted
    # How long a set-up took, and how often it was asked for, in `stats` and `diagnose`; also where the messages are cut off.
    asked = Counter((one["setup_ns"], one["requests"]) for one in stats["connection_list"])
    ups = [one.set_up for one in connections if one.set_up.tries]
    assert asked == Counter(((up.established_ns and up.established_ns - (up.start_ns or 0)), up.tries) for up in ups)
    told = [(one.counts.naks, one.counts.rnr_naks) for one in connections]
    if connections:
        assert [*map(sum, zip(*told, strict=True))] == [sum(entry[name] for entry in stats["streams"]) for name in ("naks", "rnr_naks")]
    if connections and not MISSED.search(str(path)):
        again = sum(one.counts.packets_sent_again for one in connections), sum(entry["repeated"] for entry in stats["streams"])
        assert again[0] == again[1] or path.name in DAMAGED
    if connections and "points" not in str(path) and "faults" not in str(path):
        connected = [entry for entry in stats["messages"] if entry["service"] in ("RC", "UC", "XRC")]
        atomics = 8 * sum(entry["kinds"].get("ATOMIC", 0) for entry in connected)
        assert sum(one.counts.messages for one in connections) == sum(entry["ended"] for entry in connected)
        assert sum(one.counts.payload_bytes for one in connections) == sum(entry["bytes"] for entry in connected) - atomics


# -- what was wrong once, a capture each


def test_a_mirror_of_a_switch_shows_each_packet_twice() -> None:
    """On its way in and out, up to 35 us apart; 389 of 15,937 packets were lost in the switch or missed."""
    path = str(SHARED / "points/ib-four-points/M.pcap.gz")
    told = counted(path)
    assert abs(told["copies"] - 15_548) < 200
    with ibdissect.open(path) as capture:
        again = sum(one.counts.packets_sent_again for one in capture.connections())
    assert abs(sum(entry["repeated"] for entry in told["streams"]) - again) < 20 and again < 1800


def test_a_bound_that_is_reached_is_told() -> None:
    (entry,) = counted(str(SHARED / "numbers/ports200.pcap"))["congestion"]
    assert (entry["queue_pairs"], entry["source_ports"]) == (64, 64) and entry["queue_pairs_bound"] and entry["source_ports_bound"]
    (entry,) = counted(str(SHARED / "numbers/ud-ce.pcap"))["congestion"]
    assert not entry["queue_pairs_bound"] and not entry["source_ports_bound"]


def test_a_set_up_lasts_until_its_rtu() -> None:
    """The REP came after 88 ms, and was sent again until an RTU reached the other side."""
    (entry,) = counted(str(SHARED / "captures/rxe/netem_loss_cm.pcap"))["connection_list"]
    assert (entry["setup_ns"], entry["accepted_ns"]) == (4_279_708_000, 87_967_000)


def test_a_clock_that_was_set_back_makes_no_negative_time() -> None:
    told = counted(str(SHARED / "numbers/back.pcap"))
    assert told["first_ns"] < told["last_ns"] and told["set_back"] == 1


def test_a_mirrors_copies_are_no_retransmissions() -> None:
    told = counted(str(SHARED / "numbers/mirror-twice.pcap"))
    assert sorted(entry["repeated"] for entry in told["streams"] if not entry["responses"]) == [1, 2]
    assert sorted(entry["retries"] for entry in told["messages"]) == [1, 2]


def test_packets_that_were_cut_are_not_missing() -> None:
    told = counted(str(SHARED / "numbers/batch-snap64.pcap"))
    assert sum(entry["missing"] + entry["missing_responses"] for entry in told["streams"]) == 0

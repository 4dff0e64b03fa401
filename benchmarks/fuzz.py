"""Fuzzing with broken packets and captures: how many ibdissect survives, and whether its views agree on every one.

    python benchmarks/fuzz.py --packets 2000000 --containers 200000 --captures DIR --failing DIR

One core, reproducible by --seed: batch `i` of a run depends on the seed and `i` alone. Prints one JSON object at the end, and
after every 10 batches. Exit status 1 if anything crashed, hung, disagreed or used too much memory.
"""

from __future__ import annotations

import argparse
import gc
import io
import json
import logging
import random
import re
import resource
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from ibdissect.capture.times import FAR_NS, SECOND_NS  # noqa: E402
from ibdissect.decode.chunk_table import ChunkTable  # noqa: E402
from ibdissect.dfilter.compile import compile_filter  # noqa: E402
from ibdissect.dissect.frame_trees import dissect_row  # noqa: E402
from ibdissect.dissect.info_line import summaries  # noqa: E402
from ibdissect.dissect.printers import dotted, dump  # noqa: E402
from ibdissect.dissect.shown_value import Presenter  # noqa: E402
from ibdissect.dissect.tree import outline  # noqa: E402
from ibdissect.errors import CaptureError  # noqa: E402
from ibdissect.mad.rmpp_reassembly import Transfers, records  # noqa: E402
from ibdissect.pipeline.check import CheckOptions, check  # noqa: E402
from ibdissect.python_interface import Capture  # noqa: E402
from ibdissect.rules import load  # noqa: E402
from ibdissect.subnet.follower import FabricFollower  # noqa: E402
from ibdissect.traffic.statistics import Statistics  # noqa: E402
from tests.fuzz import agree, container, mutate, seeds, targets  # noqa: E402
from tests.fuzz.items import item, joined  # noqa: E402
from tests.fuzz.second import opposed  # noqa: E402
from tests.fuzz.wireshark import Verdicts, side_by_side  # noqa: E402

BATCH = 2000
MANY = 200
"""Crashes after which failing packets are no longer isolated from their batch."""
HUNG = 120
"""Seconds of CPU after which a batch is interrupted."""
RSS = 500 << 20
LONG, LONG_SHARE = 420, 0.02
"""Longer packets (bytes) are chosen rarely (Omni-Path MADs with thousands of fields), with this probability."""
PRINTED = 50
"""All printers run on the tree of every n-th packet."""
SELDOM = {"scrub": (40, 8), "tui": (4, 4), "lint": (24, 8)}
"""Guided-fuzzing targets that also get packets of each batch: how many packets, and how many at once."""
FRESH = 40
"""Batches after which packets are generated from the declarations again, and caches are cleared."""
FILTERS = (
    "mad", "infiniband.bth.opcode == 100 && !(lrh.vl == 15)", "infiniband.mad.attributeid in {0x11, 0x15..0x20}", "ip.addr == 192.168.0.1",
    'infiniband.nodedescription.nodestring matches "(a+)+$"', "infiniband.smpdirected.initialpath contains 00:01",
    "_ws.malformed or frame.len < 60", "infiniband.grh.sgid == fe80::1", "infiniband.grh.sgid[0:2] == fe:80",
)  # fmt: skip


class Hung(BaseException):
    """The CPU time limit was reached."""


def _expired(*_: object) -> None:
    raise Hung


class Run:
    """Counts results, and saves inputs that fail."""

    def __init__(self, told: argparse.Namespace) -> None:
        self.failing: Path | None = told.failing
        self.json_every, self.scapy_every, self.lint_every = told.json_every, told.scapy_every, told.lint_every
        self.counts: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()
        self.scapy: Counter[str] = Counter()
        self.slowest = 0.0
        self.most = RSS
        self.usual = 0.0
        """Average CPU seconds per batch."""
        self.rules = load()
        self.views = agree.Views()

    def note(self, kind: str, what: str, data: bytes, name: str) -> None:
        """Record a failure and save its input, at most three per kind."""
        self.counts[kind] += 1
        self.kinds[f"{kind}: {what}"] += 1
        if self.kinds[f"{kind}: {what}"] <= 3:
            print(f"{name}: {kind}: {what}", file=sys.stderr, flush=True)
            if self.failing is not None:
                self.failing.mkdir(parents=True, exist_ok=True)
                (self.failing / f"{name}-{self.counts[kind]}.{kind}").write_bytes(data)

    def guarded(self, name: str, data: bytes, work: Callable[[], None]) -> bool:
        """Run one step: any exception is a crash, too much CPU time a hang. False if it failed."""
        signal.setitimer(signal.ITIMER_VIRTUAL, HUNG)
        try:
            work()
        except Hung:
            self.note("hang", f"more than {HUNG} s", data, name)
            return False
        except Exception as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            self.note("crash", f"{type(error).__name__} {error} at {frame.filename.rpartition('/')[2]}:{frame.lineno}", data, name)
            return False
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        if peak > self.most:
            self.note("memory", f"more than {self.most >> 20} MB", data, name)
            self.most = peak + (32 << 20)  # the peak never falls: blame later inputs only if it grows
        return True

    def packets(self, packets: Sequence[mutate.Packet], name: str) -> None:
        """Run one batch through all views."""
        data = container.pcapng(packets)
        began = process_time()
        whole = self.guarded(name, data, lambda: self._batch(packets, data, name))
        spent = process_time() - began
        # A slow packet makes its whole batch unusually slow.
        if (not whole and self.counts["crash"] < MANY) or (self.usual and spent > self.usual + 2 * agree.SLOW + self.usual):
            self._single(packets, name)
        self.usual = spent if not self.usual else 0.9 * self.usual + 0.1 * spent
        for target, (many, at_once) in SELDOM.items():
            for first in range(0, min(many, len(packets)), at_once):
                self._seldom(target, packets[first : first + at_once], f"{name}-{target}{first}")
        self.counts["packets"] += len(packets)
        gc.collect()  # Scapy's packets contain reference cycles

    def _seldom(self, target: str, packets: Sequence[mutate.Packet], name: str) -> None:
        """Run a few packets through a target of guided fuzzing."""
        data = joined(map(item, packets))
        began = process_time()
        self.guarded(name, data, lambda: targets.TARGETS[target](data))
        if process_time() - began > agree.SLOW * len(packets):
            self.note("hang", f"{target}: {process_time() - began:.1f} s", data, name)
        self.counts[f"packets through {target}"] += len(packets)

    def _single(self, packets: Sequence[mutate.Packet], name: str) -> None:
        """Find the packets of a failed batch that also fail alone."""
        for number, packet in enumerate(packets):
            alone = container.pcapng([packet])
            began = process_time()
            self.guarded(f"{name}-{number}", alone, lambda alone=alone, packet=packet: self._batch([packet], alone, name))  # type: ignore[misc]
            if process_time() - began > agree.SLOW:
                self.note("hang", f"{process_time() - began:.1f} s", alone, f"{name}-{number}")

    def _batch(self, packets: Sequence[mutate.Packet], data: bytes, name: str) -> None:
        began = process_time()
        report = check(io.BytesIO(data), CheckOptions(rules=self.rules))
        if report.status != "ok" or report.frames != len(packets):
            self.note("crash", f"{report.frames} of {len(packets)} frames, {report.status} {report.error}", data, name)
        for finding in report.findings:
            if not finding.message or not 0 <= finding.frame <= report.frames:
                self.note("disagreement", f"finding {finding.code} without a place", data, name)
        statistics, transfers = Statistics(), Transfers()
        follower = FabricFollower()
        with Capture(io.BytesIO(data), show_keys=True) as capture:
            for table in capture.tables():
                if len(table):
                    # Trees and Scapy's packets see one frame: they lack the records that several frames hold together.
                    self._table(ChunkTable(table.chunk, table.catalog, table.services), data, name)
                    statistics.feed(table, None)
                    for _ in follower.feed(table):
                        pass
                    for transfer in transfers.feed(table).values():
                        for _ in records(transfer, table.catalog):
                            pass
        statistics.result(20)
        for transfer in transfers.unfinished():
            for _ in transfer.records():
                pass
        spent = process_time() - began
        self.slowest = max(self.slowest, spent / len(packets))

    def _table(self, table: ChunkTable, data: bytes, name: str) -> None:
        for found in agree.columns(table):
            self.note("disagreement", found.what, data, f"{name}-{found.rows[0]}")
        summaries(table, np.arange(len(table)), Presenter())
        for text in FILTERS:
            compile_filter(text, table.catalog).rows(table)
        base = table.chunk.first - 1
        seen = agree.Seen()
        for row, tree in agree.trees(table, self.views, seen, json_every=self.json_every):
            if (base + row) % PRINTED == 0:
                for printed in (outline(tree), dump(tree), dotted(tree)):
                    if not printed.replace("\n", "").isprintable():
                        self.note("disagreement", "control characters in text", data, f"{name}-{base + row}")
        dissect_row(table, len(table) // 2, Presenter())
        for found in seen.found:
            self.note("disagreement", found.what, data, f"{name}-{base + found.rows[0]}")
        for row, seconds in seen.slow:
            self.note("hang", f"tree of one packet: {seconds:.1f} s", data, f"{name}-{base + row}")
        self._scapy(table, data, name)

    def _scapy(self, table: ChunkTable, data: bytes, name: str) -> None:
        found, raised, count = opposed(table, every=self.scapy_every, tally=self.scapy)
        base = table.chunk.first - 1
        self.counts["scapy"] += count
        for one in found:
            self.note("disagreement", one.what, data, f"{name}-{base + one.rows[0]}")
        for row, error in raised:
            self.note("crash", f"layers: {type(error).__name__} {error}", data, f"{name}-{base + row}")

    def container(self, rnd: random.Random, packets: Sequence[mutate.Packet], name: str) -> None:
        """Run one broken container through reading and lint."""
        data = container.broken(rnd, packets)
        began = process_time()
        linted = self.counts["containers"] % self.lint_every == 0
        self.guarded(name, data, lambda: self._container(data, linted))
        spent = process_time() - began
        self.slowest = max(self.slowest, spent)
        if spent > agree.SLOW:
            self.note("hang", f"container: {spent:.1f} s", data, name)
        self.counts["containers"] += 1

    def _container(self, data: bytes, linted: bool) -> None:
        """Reading returns frames or an error; lint must read the same frames."""
        frames, error = 0, ""
        try:
            with Capture(io.BytesIO(data)) as capture:
                for frame in capture:
                    frames += 1
                    if abs(frame.time_ns) >= FAR_NS + SECOND_NS:
                        raise AssertionError(f"the time of frame {frame.number} is {frame.time_ns} ns")
                    if frame.number != frames:
                        raise AssertionError(f"frame {frame.number} comes {frames}th")
                status = "damaged" if capture.damage else "ok"
        except CaptureError as refused:
            status, error = "unreadable", str(refused)
        self.counts[f"containers {status}"] += 1
        if not linted:
            return
        report = check(io.BytesIO(data), CheckOptions(rules=self.rules))
        self.counts["containers linted"] += 1
        if (report.status == "unreadable") != bool(error) or (not error and report.frames != frames):
            raise AssertionError(f"{frames} frames read ({error}), {report.frames} checked ({report.error})")
        for finding in report.findings:
            if not finding.message or finding.frame > report.frames:
                raise AssertionError(f"finding {finding.code} of frame {finding.frame}, capture has {report.frames}")

    def bad(self) -> int:
        """Number of failures."""
        return sum(self.counts[kind] for kind in ("crash", "hang", "memory", "disagreement"))

    def summary(self, seconds: float) -> dict[str, Any]:
        """The figures as one JSON object."""
        rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        counts, shown = self.counts, {"packets", "containers", "crash", "hang", "memory", "disagreement", "scapy"}
        return {
            "packets": counts["packets"], "containers": counts["containers"], "crashes": counts["crash"], "hangs_over_1_s": counts["hang"],
            "rss_over_500_mb": counts["memory"], "disagreements": counts["disagreement"],
            "scapy": {"packets": counts["scapy"], **dict(sorted(self.scapy.items()))},
            "other": {name: count for name, count in sorted(counts.items()) if name not in shown},
            "slowest_seconds": round(self.slowest, 3), "peak_rss_mb": round(rss, 1), "cpu_seconds": round(seconds, 1),
            "faults": dict(self.kinds.most_common(40)),
        }  # fmt: skip


class Starts:
    """Packets to mutate."""

    def __init__(self, every: Sequence[seeds.Seed]) -> None:
        self.every = every
        self.short = [seed for seed in every if len(seed.data) <= LONG]
        self.long = [seed for seed in every if len(seed.data) > LONG]

    def pick(self, rnd: random.Random) -> seeds.Seed:
        """Choose one, rarely a long one."""
        return rnd.choice(self.long if rnd.random() < LONG_SHARE else self.short)


def beside_tshark(told: argparse.Namespace, starts: Starts) -> int:
    """Print how often tshark agrees on which packets are malformed, and the causes of differences."""
    found = Verdicts()
    for number in range(-(-told.tshark // BATCH)):
        rnd = random.Random(f"{told.seed} {number}")
        side_by_side([mutate.mutated(rnd, starts.pick(rnd), starts.every) for _ in range(BATCH)], found)
    if told.failing is not None:
        told.failing.mkdir(parents=True, exist_ok=True)
        for k, (cause, data) in enumerate(sorted(found.examples.items())):
            (told.failing / f"{k:02}-{re.sub('[^a-z0-9]+', '-', cause.lower())}.packet").write_bytes(data)
    print(json.dumps({**dict(found.counts.most_common()), "causes": dict(found.causes.most_common())}, indent=2))
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packets", type=int, default=20_000)
    parser.add_argument("--containers", type=int, default=2_000)
    parser.add_argument("--seconds", type=float, help="stop after so much CPU time, whatever is left")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--captures", type=Path, action="append", default=[], help="further folders whose packets are broken")
    parser.add_argument("--failing", type=Path, help="folder for inputs that fail")
    parser.add_argument("--tshark", type=int, default=0, help="only compare the verdict `malformed` with tshark's, on so many packets")
    parser.add_argument("--json-every", type=int, default=4, help="compare the JSON line with the tree on every k-th packet")
    parser.add_argument("--lint-every", type=int, default=4, help="lint every k-th container; all are read")
    parser.add_argument("--scapy-every", type=int, default=1, help="compare with Scapy on every k-th packet")
    told = parser.parse_args()
    logging.getLogger("scapy").setLevel(logging.CRITICAL)
    signal.signal(signal.SIGVTALRM, _expired)
    folders = [ROOT / "captures", *told.captures]
    paths = sorted(p for folder in folders for p in folder.rglob("*") if ".pcap" in p.name)
    captured, starts = list(seeds.of_captures(paths)), Starts([])
    if told.tshark:
        return beside_tshark(told, Starts([*captured, *seeds.of_declarations(told.seed)]))
    run, began, number = Run(told), process_time(), 0
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 10, 10)  # millions of nodes are created, few in cycles
    per_batch = max(1, told.containers * BATCH // max(told.packets, 1))
    while run.counts["packets"] < told.packets or run.counts["containers"] < told.containers:
        if told.seconds is not None and process_time() - began > told.seconds:
            break
        rnd = random.Random(f"{told.seed} {number}")
        if number % FRESH == 0 or not starts.every:
            starts = Starts([*captured, *seeds.of_declarations(told.seed + number // FRESH)])
            run.views = agree.Views()  # texts of random values are remembered up to a bound that is far away
        if run.counts["packets"] < told.packets:
            run.packets([mutate.mutated(rnd, starts.pick(rnd), starts.every) for _ in range(BATCH)], f"s{told.seed}b{number}")
        for i in range(min(per_batch, told.containers - run.counts["containers"])):
            few = [mutate.mutated(rnd, starts.pick(rnd), starts.every) for _ in range(rnd.choice((0, 1, 2, 3, 8)))]
            run.container(rnd, few, f"s{told.seed}b{number}c{i}")
        number += 1
        if number % 10 == 0:
            print(json.dumps(run.summary(process_time() - began)), file=sys.stderr, flush=True)
    print(json.dumps(run.summary(process_time() - began), indent=2))
    return 1 if run.bad() else 0


if __name__ == "__main__":
    sys.exit(main())

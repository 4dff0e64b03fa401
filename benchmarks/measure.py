"""CPU, time and memory of a command, compared with another program in the same run.

With `--record` a benchmark appends its figures to benchmarks/history.csv.
"""

from __future__ import annotations

import argparse
import csv
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

HISTORY = Path(__file__).with_name("history.csv")
COLUMNS = ("date", "commit", "machine", "python", "command", "capture", "cpu_s", "memory_mb", "other", "other_cpu_s", "other_memory_mb")


@dataclass(frozen=True)
class Run:
    """One finished command: CPU seconds (user + system, with children), peak resident memory in MB, exit status, elapsed seconds."""

    cpu: float
    memory: float
    status: int
    wall: float


@dataclass(frozen=True)
class Comparison:
    """Median seconds of CPU and elapsed, and peak memory in MB, of ibdissect and, if installed, of the other program."""

    ours: Run
    other: str | None = None
    theirs: Run | None = None

    def __str__(self) -> str:
        line = f"ibdissect {self.ours.cpu:.2f} s, {self.ours.memory:.0f} MB"
        if self.theirs is not None:
            ratio, elapsed = self.theirs.cpu / self.ours.cpu, self.theirs.wall / self.ours.wall
            line += f"; {self.other} {self.theirs.cpu:.2f} s, {self.theirs.memory:.0f} MB; ratio {ratio:.2f}, of elapsed time {elapsed:.2f}"
        return line + (f"; exit status {self.ours.status}" if self.ours.status not in (0, 1) else "")


def run(command: list[str]) -> Run:
    """Run a command and discard its output."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    unit = 1024 * 1024 if sys.platform == "darwin" else 1024
    return Run(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / unit, process.returncode, time.perf_counter() - start)


def compare(ours: list[str], theirs: list[str] | None, runs: int) -> Comparison:
    """Run the two commands alternately, after one warm-up each."""
    commands = [ours] + ([theirs] if theirs is not None and shutil.which(theirs[0]) else [])
    for command in commands:
        run(command)
    results: list[list[Run]] = [[] for _ in commands]
    for _ in range(runs):
        for found, command in zip(results, commands, strict=True):
            found.append(run(command))
    summed = [
        Run(
            statistics.median(r.cpu for r in found), max(r.memory for r in found), max(found, key=lambda r: r.status not in (0, 1)).status,
            statistics.median(r.wall for r in found),
        )
        for found in results
    ]  # fmt: skip
    return Comparison(summed[0], commands[1][0], summed[1]) if len(summed) == 2 else Comparison(summed[0])


def add_record_option(parser: argparse.ArgumentParser) -> None:
    """Add the option `--record` to a benchmark."""
    parser.add_argument("--record", action="store_true", help=f"append the figures to benchmarks/{HISTORY.name}")


def record(command: str, capture: str, found: Comparison, history: Path = HISTORY) -> None:
    """Append one line to the history: date, commit, kind of machine, and the figures."""
    new = not history.exists()
    with open(history, "a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        if new:
            writer.writerow(COLUMNS)
        figures = [f"{found.ours.cpu:.3f}", f"{found.ours.memory:.0f}"]
        other = [found.other, f"{found.theirs.cpu:.3f}", f"{found.theirs.memory:.0f}"] if found.theirs is not None else ["", "", ""]
        when = datetime.now(UTC).strftime("%Y-%m-%d")
        writer.writerow([when, commit(), machine(), platform.python_version(), command, Path(capture).name, *figures, *other])


def commit() -> str:
    """The checked-out commit, with a `+` if tracked files differ from it; empty outside a repository."""
    git = ["git", "-C", str(HISTORY.parent)]
    head = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    if head.returncode:
        return ""
    changed = subprocess.run(
        [*git, "status", "--porcelain", "--untracked-files=no", "--", ":!history.csv"], capture_output=True, check=False
    )
    return head.stdout.strip() + ("+" if changed.stdout else "")


def machine() -> str:
    """Number and model of the processors, without the machine's name."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return f"{os.cpu_count()} x {name}"

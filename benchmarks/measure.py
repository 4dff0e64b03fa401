"""How much CPU and memory does a command take, against another in the same run?"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class Run:
    """One finished command: CPU seconds (user + system, with children), peak resident memory in MB, exit status."""

    cpu: float
    memory: float
    status: int


def run(command: list[str]) -> Run:
    """Run a command with its output thrown away."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    unit = 1024 * 1024 if sys.platform == "darwin" else 1024
    return Run(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / unit, process.returncode)


def compare(ours: list[str], theirs: list[str] | None, runs: int) -> str:
    """Run both in turn, after one warm-up each; a line with the medians and the ratio of CPU."""
    both = [ours] + ([theirs] if theirs is not None and shutil.which(theirs[0]) else [])
    for command in both:
        run(command)
    results: list[list[Run]] = [[] for _ in both]
    for _ in range(runs):
        for found, command in zip(results, both, strict=True):
            found.append(run(command))
    cpu = [statistics.median(r.cpu for r in found) for found in results]
    memory = [max(r.memory for r in found) for found in results]
    line = f"ibdissect {cpu[0]:.2f} s, {memory[0]:.0f} MB"
    if len(both) == 2:
        line += f"; {both[1][0]} {cpu[1]:.2f} s, {memory[1]:.0f} MB; ratio {cpu[1] / cpu[0]:.2f}"
    bad = {r.status for r in results[0]} - {0, 1}
    return line + (f"; exit status {sorted(bad)}" if bad else "")

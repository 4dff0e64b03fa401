"""Every screen ends, at whatever moment and in whatever way it is left. Counts processes and files that stay.

    python benchmarks/ends.py [--screens 50] [--served 20] [--seed 1]

A screen on a terminal of its own is left by SIGHUP, SIGTERM, a terminal that closes, or a parent that is killed and takes the terminal
along; a served one by SIGINT, SIGTERM or SIGKILL of the server while its browser stays, or a browser that goes away. Each is given
10 seconds; 2 are promised on an idle machine.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import pty
import random
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import aiohttp

ROOT = Path(__file__).resolve().parents[1]
CAPTURE = ROOT / "captures/pkey-lab-full.pcap"
PATIENCE, LONGEST = 10.0, 4.0
WAYS = {"hangup": signal.SIGHUP, "terminate": signal.SIGTERM, "terminal": None, "parent": None}
SERVED = {"interrupt": signal.SIGINT, "terminate": signal.SIGTERM, "kill": signal.SIGKILL, "browser": None}

PARENT = """
import fcntl, os, subprocess, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
child = subprocess.Popen(sys.argv[1:])
print(child.pid, flush=True)
child.wait()
"""
"""Takes the terminal and starts a screen on it."""


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "ibdissect", *words]


def left_over(mark: str) -> list[int]:
    """Processes in whose environment the mark stands."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and f"IBDISSECT_ENDS={mark}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


@contextmanager
def watched(name: str, number: int) -> Iterator[dict[str, str]]:
    """The environment of one attempt; afterwards says what stays, and ends it."""
    mark = f"{os.getpid()}-{number}"
    with tempfile.TemporaryDirectory() as folder:
        places = {"TMPDIR": folder, "XDG_STATE_HOME": folder, "PYTHONPATH": str(ROOT)}
        yield {**os.environ, **places, "TERM": "xterm-256color", "IBDISSECT_ENDS": mark}
        start = time.monotonic()
        while (stays := left_over(mark)) and time.monotonic() - start < PATIENCE:
            time.sleep(0.05)
        took = time.monotonic() - start
        files = [str(path.relative_to(folder)) for path in Path(folder).rglob("*") if path.is_file() and "ibdissect/" not in str(path)]
        print(f"{number:3} {name:18} {took:5.2f} s  {len(stays)} processes, {len(files)} files stay {' '.join(files)}", flush=True)
        COUNTS.append((len(stays), len(files), took))
        for process in stays:
            with suppress(OSError):
                os.kill(process, signal.SIGKILL)


COUNTS: list[tuple[int, int, float]] = []


def screen(way: str, moment: float, environment: dict[str, str]) -> None:
    """Start a screen below a parent of its own, and leave it."""
    master, slave = pty.openpty()
    words = [sys.executable, "-c", PARENT, *command("tui", str(CAPTURE))]
    process = subprocess.Popen(words, stdin=slave, stdout=slave, stderr=slave, env=environment)
    os.close(slave)
    child = int(os.read(master, 64).split()[0])

    until = time.monotonic() + moment
    while (left := until - time.monotonic()) > 0:
        if select.select([master], [], [], left)[0]:
            os.read(master, 65536)
    sent = WAYS[way]
    if sent is not None:
        os.kill(child, sent)
        return
    if way == "parent":
        process.kill()
    os.close(master)


async def served(way: str, moment: float, environment: dict[str, str]) -> None:
    """Serve a capture, open it as a browser does, and leave it."""
    server = await asyncio.create_subprocess_exec(
        *command("serve", str(CAPTURE)), env=environment, stderr=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL
    )
    assert server.stderr is not None
    found = re.search(rb"http://\S+", await server.stderr.readline())
    assert found is not None
    async with aiohttp.ClientSession() as session:
        page = found[0].decode()
        for _ in range(100):
            try:
                async with session.get(page) as answer:
                    socket = re.search(r"ws://[0-9.:]+/[\w-]+/ws", await answer.text())
                    break
            except aiohttp.ClientError:
                await asyncio.sleep(0.1)
        assert socket is not None
        async with session.ws_connect(f"{socket[0]}?width=120&height=40"):
            await asyncio.sleep(moment)
            sent = SERVED[way]
            if sent is not None:
                server.send_signal(sent)
                await asyncio.wait_for(server.wait(), PATIENCE)  # the browser stays
    if sent is None:
        await asyncio.sleep(2)
        screens = len(left_over(environment["IBDISSECT_ENDS"])) - 1
        print(f"    {screens} screens 2 s behind the browser", flush=True)
        server.send_signal(signal.SIGTERM)
        await asyncio.wait_for(server.wait(), PATIENCE)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--screens", type=int, default=50)
    parser.add_argument("--served", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # screens would inherit that nohup ignores it, until they have their own handler
    rnd = random.Random(given.seed)
    for number in range(given.screens + given.served):
        way = list(WAYS if number < given.screens else SERVED)[number % len(WAYS if number < given.screens else SERVED)]
        with watched(way if number < given.screens else f"served, {way}", number) as environment:
            try:
                if number < given.screens:
                    screen(way, rnd.uniform(0, LONGEST), environment)
                else:
                    asyncio.run(served(way, rnd.uniform(0, LONGEST), environment))
            except TimeoutError:
                pass  # what stays is counted
    processes, files, _ = map(sum, zip(*COUNTS, strict=True))
    slowest = max(took for *_, took in COUNTS)
    print(f"{len(COUNTS)} screens: {processes} processes and {files} files stay; the slowest ended after {slowest:.2f} s")
    return int(processes + files > 0)


if __name__ == "__main__":
    sys.exit(main())

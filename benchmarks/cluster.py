"""Costs of a cluster and an object store, against processes and files of one machine.

    python benchmarks/cluster.py workers CAPTURE.pcap [--parts 200]    1, 2 and 4 workers against --jobs 2
    python benchmarks/cluster.py kills CAPTURE.pcap [--parts 200]      a worker killed five times
    python benchmarks/cluster.py s3 CAPTURE.pcap                       one large capture from an S3 server on this machine, and
                                                                       what its library takes to read the same bytes
    python benchmarks/cluster.py paths [--count 100000]                memory of the client for many captures
    python benchmarks/cluster.py share CAPTURE.pcap                    which part of a check depends on single windows alone

Needs ibdissect[remote,cluster], for `s3` also s3fs. Compare times only on an idle machine.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from many import split
from measure import run

from ibdissect.capture.chunk import Chunk

LINT = [sys.executable, "-m", "ibdissect", "lint", "--fail-on", "never"]


def timed(words: list[str]) -> tuple[float, float, bytes]:
    """Elapsed and CPU seconds and output of a command."""
    before, used = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.monotonic() - before, now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime, done.stdout


def workers(capture: Path, parts: int) -> None:
    """The same captures by processes and by clusters that run already, so that start-up does not count."""
    with tempfile.TemporaryDirectory() as folder:
        split(capture, Path(folder), parts)
        words, one = [*LINT, f"{folder}/parts", "--format", "json"], [*LINT, f"{folder}/parts/00000.pcap"]
        jobs, cpu, expected = timed([*words, "--jobs", "2"])
        cpu -= timed([*one, "--jobs", "2"])[1]
        print(f"--jobs 2: {jobs:.2f} s, CPU {cpu / parts * 1000:.1f} ms a capture")
        for count in (1, 2, 4):
            with cluster(folder, count) as there:
                engine = ["--engine", there.file]
                timed([*words, *engine])  # workers import what they need
                start = there.cpu()
                empty, client, _ = timed([*one, *engine])
                before = there.cpu()
                seconds, whole, found = timed([*words, *engine])
                used = there.cpu() - before - (before - start) + whole - client
            same = "same bytes" if found == expected else "OTHER BYTES"
            print(f"{count} workers: {seconds:.2f} s ({seconds / jobs:.2f} of --jobs 2), {same}, start {empty:.2f} s, ", end="")
            print(f"CPU {used / parts * 1000:.1f} ms a capture, {(used - cpu) / parts * 1000:+.1f}")


OBJECT = "s3://site/large.pcap"
ALONE = """
import fsspec, sys
system, path = fsspec.core.url_to_fs(sys.argv[1])
with system.open(path, cache_type="none") as file:
    while file.read(6 << 20):
        pass
"""
"""A program that reads an object and does nothing with it."""


class cluster:
    """A scheduler with workers on this machine."""

    def __init__(self, folder: str, count: int) -> None:
        self.file, self.count, self.folder = f"{folder}/scheduler-{count}.json", count, folder
        self.processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> cluster:
        self._start("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard")
        while not Path(self.file).exists():
            time.sleep(0.05)
        self._start("worker", "--host", "127.0.0.1", "--nworkers", str(self.count), "--nthreads", "1", "--no-dashboard")
        from distributed import Client

        with Client(scheduler_file=self.file, set_as_default=False) as client:
            client.wait_for_workers(self.count)
        return self

    def cpu(self) -> float:
        """CPU seconds of all its processes so far."""
        from psutil import Process

        every = [one for mine in self.processes for one in (Process(mine.pid), *Process(mine.pid).children(recursive=True))]
        return sum(sum(one.cpu_times()[:2]) for one in every)

    def _start(self, kind: str, *words: str) -> None:
        command = [sys.executable, "-m", "dask", kind, *words, "--scheduler-file", self.file]
        self.processes.append(subprocess.Popen(command, cwd=self.folder, stderr=subprocess.DEVNULL))

    def __exit__(self, *_: object) -> None:
        for process in reversed(self.processes):
            process.terminate()
            process.wait()


def kills(capture: Path, parts: int) -> None:
    """A random worker is killed five times; its nanny starts it again."""
    from distributed import Client

    with tempfile.TemporaryDirectory() as folder:
        split(capture, Path(folder), parts)
        words = [*LINT, f"{folder}/parts", "--format", "json"]
        *_, expected = timed([*words, "--jobs", "2"])
        with cluster(folder, 2) as there, Client(scheduler_file=there.file, set_as_default=False) as client:
            killed = 0

            def kill() -> None:
                nonlocal killed
                while killed < 5:
                    time.sleep(0.4)
                    busy = [address for address, keys in client.processing().items() if keys]
                    if busy and len(client.nthreads()) == 2:  # the last one is back
                        found = client.run(os.getpid, workers=[random.choice(busy)], on_error="ignore")
                        for process in found.values():
                            os.kill(process, signal.SIGKILL)
                            killed += 1

            thread = threading.Thread(target=kill, daemon=True)
            thread.start()
            seconds, _, found = timed([*words, "--engine", there.file])
            lost = found.count(b"the process that checked it died")
            same = "same bytes" if found == expected else f"OTHER BYTES, {lost} captures given up, their workers died again and again"
            print(f"{killed} workers killed: {seconds:.2f} s, {same}")
            killed = 5


def s3(capture: Path) -> None:
    """The file, the object, and the object read by fsspec alone; the server of this process counts the bytes of its answers."""
    server = FastStore(capture)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    os.environ |= {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_DEFAULT_REGION": "us-east-1"}
    os.environ["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{server.server_port}"
    lint, alone = [*LINT, "--format", "json"], [sys.executable, "-c", ALONE]
    for name, words in ((str(capture), lint), (OBJECT, lint), (f"{OBJECT}, read by fsspec alone", alone)):
        server.sent = 0
        before = time.monotonic()
        done = run([*words, name.partition(",")[0]])
        print(f"{name}: {time.monotonic() - before:.2f} s, CPU {done.cpu:.2f} s, {done.memory:.0f} MB; sent {server.sent:,} bytes")
    print(f"the file has {capture.stat().st_size:,} bytes")


class FastStore(ThreadingHTTPServer):
    """Answers what s3fs asks of one object as an S3 server does, at the speed of sendfile. (moto's copies the object for each range.)"""

    def __init__(self, path: Path) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.file, self.size, self.sent = open(path, "rb"), path.stat().st_size, 0  # noqa: SIM115 - open as long as the server


class Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FastStore

    def do_HEAD(self) -> None:
        self._head(200, self.server.size)

    def do_GET(self) -> None:
        first, last = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
        last = min(last, self.server.size - 1)
        self._head(206, last + 1 - first)
        self.wfile.flush()
        while first <= last:
            count = os.sendfile(self.connection.fileno(), self.server.file.fileno(), first, last + 1 - first)
            first += count
            self.server.sent += count

    def _head(self, status: int, length: int) -> None:
        self.send_response(status)
        for name, value in (("Content-Length", str(length)), ("ETag", '"1"'), ("Last-Modified", "Sat, 21 Nov 2026 12:00:00 GMT")):
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def nothing(path: str, stop: object = None) -> object:
    """A report as a worker would make, without reading."""
    from ibdissect.lint.finding import CaptureReport

    return CaptureReport(path=path, frames=100, checked=100, infiniband=100, counts={"error": 0, "warning": 0, "info": 0})


def paths(count: int) -> None:
    """Listing and passing on many captures: what does the client's memory do?"""
    from ibdissect.lint.finding import CaptureReport
    from ibdissect.pipeline.capture_report import killed
    from ibdissect.pipeline.cluster import Dask
    from ibdissect.pipeline.ordered_pool import spread

    def megabytes() -> float:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6

    names = [f"s3://bucket/2026-11-21/host{i % 400:03}/cap_{i:06}.pcap" for i in range(count)]
    with Dask("dask", workers=2) as cluster_:
        total, before = CaptureReport(path="", captures=0), megabytes()
        start = time.monotonic()
        for number, report in enumerate(spread(names, cluster_.pool(nothing), killed), 1):
            total.add(report)  # type: ignore[arg-type]
            if number in (1, 1000, count // 10, count // 2, count):
                print(f"{number:>7} captures: client {megabytes() - before:+.1f} MB, {time.monotonic() - start:.1f} s")
        print(f"{total.captures} results; paths and modules {before:.0f} MB")


def share(capture: Path) -> None:
    """CPU seconds of passes that do more and more of a check; what is left after the last but one needs the state of earlier windows."""
    from ibdissect.decode.chunk_table import ChunkTable
    from ibdissect.lint.linter import Linter
    from ibdissect.pipeline.reading import open_reading
    from ibdissect.rules import load

    def done(pick: Callable[[type], bool], *, feed: bool) -> float:
        linter = Linter([rule for rule in load() if pick(rule)])
        before = time.process_time()
        with open_reading(str(capture)) as reading:
            for table in reading.tables(keys=False):
                table.once(linter.conditions.holding)
                if feed:
                    linter.feed(table)
        linter.finish()
        return time.process_time() - before

    def read(make: Callable[[Chunk], object]) -> float:
        before = time.process_time()
        with open_reading(str(capture)) as reading:
            for chunk in reading.chunks():
                make(chunk)
        return time.process_time() - before

    steps: dict[str, Callable[[], float]] = {
        "reading records": lambda: read(len),
        "locating headers": lambda: read(ChunkTable),
        "conditions": lambda: done(lambda rule: rule.when is not None and not rule.needs_crc, feed=False),
        "sums": lambda: done(lambda rule: rule.when is not None or rule.needs_crc, feed=False),
        "state": lambda: done(lambda rule: True, feed=True),
    }
    found = {name: min(step() for _ in range(3)) for name, step in steps.items()}
    for (name, seconds), before in zip(found.items(), (0.0, *found.values()), strict=False):
        print(f"{name:>17}: {seconds - before:.2f} s, {(seconds - before) / found['state']:.0%}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("workers", "kills", "s3", "paths", "share"))
    parser.add_argument("capture", type=Path, nargs="?")
    parser.add_argument("--parts", type=int, default=200)
    parser.add_argument("--count", type=int, default=100_000)
    asked = parser.parse_args()
    if asked.what == "paths":
        paths(asked.count)
    elif asked.what in ("s3", "share"):
        {"s3": s3, "share": share}[asked.what](asked.capture)
    else:
        {"workers": workers, "kills": kills}[asked.what](asked.capture, asked.parts)

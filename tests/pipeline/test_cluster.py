"""A Dask cluster gives the same bytes as one machine, whatever happens to its workers."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from ibdissect.errors import ConfigError, IbdissectError
from ibdissect.pipeline.ordered_pool import spread
from tests.commands import run
from tests.conftest import REPO

pytest.importorskip("distributed")

import cloudpickle
from distributed.core import rpc
from distributed.security import Security

from ibdissect.pipeline.cluster import Dask, WorkerStatus, _kept_from_interrupts

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers need not import the tests

pytestmark = pytest.mark.slow


def work(path: str, stop: Callable[[], bool] | None) -> str:
    """What tests let workers do; paths say what."""
    deed, _, rest = path.partition(":")
    if deed == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if deed == "once" and not os.path.exists(rest):
        Path(rest).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if deed == "raise":
        raise KeyError(rest)
    if deed == "wait":
        Path(rest).touch()
        assert stop is not None
        while not stop():
            time.sleep(0.01)
        Path(f"{rest}.ended").touch()
    return path.upper()


def lost(path: str) -> str:
    return f"lost {path}"


@pytest.fixture(scope="module")
def here() -> Iterator[Dask]:
    """A cluster of two processes."""
    with Dask("dask", workers=2) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A scheduler file of a separate scheduler with a worker, whose folder is not that of the tests."""
    folder = tmp_path_factory.mktemp("cluster")
    file = folder / "scheduler.json"
    words = ["--scheduler-file", str(file), "--no-dashboard"]
    environment = {**os.environ, "PYTHONPATH": str(REPO)}
    with ExitStack() as stack:
        for command in (["scheduler", "--host", "127.0.0.1", "--port", "0"], ["worker", "--host", "127.0.0.1", "--nthreads", "2"]):
            process = subprocess.Popen(
                [sys.executable, "-m", "dask", *command, *words], cwd=folder, env=environment, stderr=subprocess.DEVNULL
            )
            stack.callback(process.wait)
            stack.callback(process.terminate)
            while not file.exists():
                assert process.poll() is None
                time.sleep(0.05)
        yield str(file)


def test_order_and_captures_that_kill(here: Dask) -> None:
    """The queue of a worker holds innocent captures behind the one that kills it."""
    paths = [f"kill:{i}" if i == 5 else f"p{i}" for i in range(200)]
    assert list(spread(paths, here.pool(work), lost)) == [f"lost {path}" if path.startswith("kill") else path.upper() for path in paths]


def test_a_worker_that_dies_once_costs_nothing(here: Dask, tmp_path: Path) -> None:
    paths = [f"once:{tmp_path}/{i}" if i == 4 else f"p{i}" for i in range(40)]
    assert list(spread(paths, here.pool(work), lost)) == [path.upper() for path in paths]
    assert len(list(tmp_path.iterdir())) == 1


def test_stop_reaches_what_runs(here: Dask, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    found = list(spread(["a", f"wait:{begun}", "b", "c"], here.pool(work), lost, begun.exists))
    assert found in ([], ["A"])
    deadline = time.monotonic() + 60
    while not Path(f"{begun}.ended").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_failures_of_a_worker_are_reported(here: Dask) -> None:
    with pytest.raises(IbdissectError, match="KeyError: 'x'"):
        list(spread(["a", "raise:x"], here.pool(work), lost))


def test_other_versions_are_errors(here: Dask, monkeypatch: pytest.MonkeyPatch) -> None:
    found: Any = here.client.get_versions(packages=["ibdissect"])
    worker = next(iter(found["workers"]))
    found["workers"][worker]["packages"]["numpy"] = "0.9"
    monkeypatch.setattr(here.client, "get_versions", lambda packages: found)
    with pytest.raises(ConfigError, match=r"has numpy 0\.9, this machine has"):
        here._compare_versions()


def test_a_worker_that_comes_later_with_another_version() -> None:
    doing = WorkerStatus(work, "dask://there:8786", (), False)
    doing.version = "0.0.1"
    with pytest.raises(ConfigError, match=r"dask://there:8786: a worker has ibdissect .*, this machine has 0\.0\.1; install the same"):
        doing.unpacked()


@pytest.mark.parametrize(("name", "kind"), [("fifo", "a FIFO"), ("/dev/zero", "a device"), ("folder", "a folder")])
def test_what_may_never_end_is_no_file_of_a_scheduler(name: str, kind: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    where = str(tmp_path / name)
    with pytest.raises(ConfigError, match=f"{where}: is {kind}, not a scheduler's file; name the file of"):
        Dask(where)


def test_an_unreachable_scheduler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("ibdissect.pipeline.cluster.PATIENCE_S", 0.5)
    (tmp_path / "none.json").write_text("[]")
    (tmp_path / "deep.json").write_text("[" * 100_000)
    for where in ("dask://127.0.0.1:9", *(str(tmp_path / f"{name}.json") for name in ("missing", "none", "deep"))):
        with pytest.raises(ConfigError, match="no scheduler with workers was reached"):
            Dask(where, trusted=True)


@pytest.mark.parametrize("secrets", [None, "others"])
def test_nobody_else_talks_to_our_own_cluster(here: Dask, secrets: str | None) -> None:
    """Not even a process of the same user: it would run its code in scheduler and workers."""
    assert here._own is not None
    addresses = [here._own.scheduler_address, *(worker.address for worker in here._own.workers.values())]
    addresses += [worker.worker_address for worker in here._own.workers.values()]
    assert all(address.startswith("tls://127.0.0.1:") for address in addresses)
    for address in addresses:
        known = Security.temporary() if secrets else None
        for asked in (address, address.replace("tls://", "tcp://")) if secrets is None else (address,):

            async def ask(asked: str = asked, known: Any = known) -> None:
                await asyncio.wait_for(rpc(asked, connection_args=known.get_connection_args("client") if known else {}).identity(), 5)

            with pytest.raises((OSError, TypeError, RuntimeError, ValueError, TimeoutError)):
                asyncio.run(ask())
    assert here._own.scheduler.http_server.address == "127.0.0.1"
    ports = [here._own.scheduler.http_server.port, *here.client.run(lambda dask_worker: dask_worker.http_server.port).values()]
    for path in ("", "status", "info/main/workers.html", "json/counts.json", "metrics", "health"):
        for port in ports:
            with pytest.raises(HTTPError, match="404"):
                urlopen(f"http://127.0.0.1:{port}/{path}", timeout=20)


def test_our_own_cluster_works_in_a_folder_of_its_own(here: Dask) -> None:
    """Modules are imported from that folder; that of Dask lies where everybody may write."""
    assert here._own is not None
    for folder in here.client.run(lambda dask_worker: dask_worker.local_directory).values():
        whole = Path(folder)
        private = next(part for part in (whole, *whole.parents) if part.name.startswith("ibdissect-"))
        assert private.stat().st_mode & 0o777 == 0o700


def test_a_scheduler_without_tls_needs_the_users_word(cluster: str) -> None:
    address = json.loads(Path(cluster).read_text())["address"]
    (file := Path(cluster).with_name("bare.json")).write_text(json.dumps({"address": "127.0.0.1:9"}))  # Dask takes it for tcp://
    for where in (cluster, address.replace("tcp://", "dask://"), address, "ws://127.0.0.1:9", "ucx://127.0.0.1:9", str(file)):
        with pytest.raises(ConfigError, match=r"without TLS, whoever reaches .*; use dask\+tls://HOST:PORT, or say --trust-network"):
            Dask(where)
    done = run("lint", str(REPO / "captures/pkey-lab.pcap"), "--engine", cluster, text=True)
    assert done.returncode == 2 and "say --trust-network" in done.stderr and not done.stdout


def test_plugins_travel_to_hosts_without_our_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules/own.py").write_text("one = 1")
    monkeypatch.chdir(tmp_path)
    doing = WorkerStatus(work, "dask", ("rules/own.py", "a_module"), False)
    doing.folder = "/nowhere"
    assert doing.unpacked()("a", stop=None) == "A"
    assert (Path(doing.folder) / "rules/own.py").read_text() == "one = 1"
    doing.teardown(None)  # type: ignore[arg-type]
    assert not Path(doing.folder).exists()


def test_the_command_gives_the_same_bytes(cluster: str, tmp_path: Path) -> None:
    """Plugin and configuration travel to a worker in another folder; a capture that cannot be read is reported."""
    shutil.copy(REPO / "docs/examples/acme.py", tmp_path)
    (tmp_path / "own.toml").write_text('[[rule]]\ncode = "OWN001"\nname = "own"\nwhen = "bth.p_key == 0x8999"\nmessage = "own"\n')
    for i in range(6):
        shutil.copy(REPO / "captures/pkey-lab.pcap", tmp_path / f"{i:02}.pcap")
    (tmp_path / "bad.pcap").write_bytes(b"no capture")
    (tmp_path / "ibdissect.toml").write_text('ignore = ["PKY003"]\n[severity]\nPKY001 = "info"\n')
    words = ("lint", ".", "--plugin", "acme.py", "--plugin", "own.toml", "--format", "json")
    alone, there = (run(*words, *more, cwd=tmp_path, text=True) for more in ((), ("--engine", cluster, "--trust-network")))
    assert alone.stdout == there.stdout and alone.returncode == there.returncode == 2
    assert "dashboard: http://127.0.0.1:" in there.stderr and "bad.pcap: not a capture" in there.stderr
    result = json.loads(there.stdout)
    where = ("--engine", cluster, "--trust-network")
    alone, counted = (run("stats", ".", "--format", "json", *more, cwd=tmp_path) for more in (("--jobs", "1"), where))
    assert alone.stdout == counted.stdout and alone.returncode == counted.returncode == 2
    assert result["by_rule"]["OWN001"] == 6 and "PKY003" not in result["by_rule"]
    assert {f["severity"] for f in result["findings"] if f["code"] == "PKY001"} == {"info"}


@pytest.mark.parametrize(
    ("name", "words"), [("out.csv", ("-e", "frame.number", "-e", "_ws.col.info")), ("out", ("--partition-by", "capture,hour"))]
)
def test_an_export_is_the_same(cluster: str, tmp_path: Path, name: str, words: tuple[str, ...]) -> None:
    pytest.importorskip("pyarrow")
    made = []
    for folder, more in ((tmp_path / "alone", ()), (tmp_path / "cluster", ("--engine", cluster, "--trust-network"))):
        folder.mkdir()
        assert run("export", str(REPO / "captures/pkey-lab.pcap"), "--output", str(folder / name), *words, *more).returncode == 0
        made.append({path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()})
    assert made[0] == made[1] != {}


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="no signal masks here")
def test_ctrl_c_does_not_reach_workers_that_start() -> None:
    with _kept_from_interrupts():
        process = get_context("spawn").Process(target=signal.raise_signal, args=(signal.SIGINT,))
        process.start()
    process.join(60)
    assert process.exitcode == 0
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_ctrl_c_keeps_what_was_found(cluster: str, tmp_path: Path) -> None:
    """The second capture is a pipe that nobody writes to."""
    for name in ("a.pcap", "c.pcap"):
        shutil.copy(REPO / "captures/pkey-lab.pcap", tmp_path / name)
    os.mkfifo(tmp_path / "b.pcap")
    words = [sys.executable, "-m", "ibdissect", "lint", "a.pcap", "b.pcap", "c.pcap", "--engine", cluster, "--trust-network"]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline().startswith("a.pcap  37 frames")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    with open(tmp_path / "b.pcap", "wb"):  # the worker's thread ends
        pass
    assert process.returncode == 130 and "2 interrupted" in out and "Traceback" not in err

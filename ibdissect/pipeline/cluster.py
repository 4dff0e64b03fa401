"""Work on captures by a Dask cluster, on this machine or many."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from multiprocessing import resource_tracker
from typing import Any, Generic, TypeVar
from uuid import uuid4

import cloudpickle
import dask
from distributed import CancelledError, Client, KilledWorker, LocalCluster, SchedulerPlugin, Worker, WorkerPlugin, get_worker
from distributed.security import Security

from ibdissect import heap
from ibdissect.capture.file_names import Unit
from ibdissect.capture.named_files import kind_of
from ibdissect.errors import ConfigError, IbdissectError, missing_extra
from ibdissect.version import VERSION

from .children import end_with_parent, safe_path
from .ordered_pool import Pending, Work

T = TypeVar("T")
PATIENCE_S = 30
"""How long to wait for the scheduler and its first worker."""
FRESH_S = 5.0
"""How old the count of workers may be, which changes as workers come and go."""
PROVEN = ("tls://", "wss://")
"""How addresses begin where both sides prove who they are. Whoever reaches another scheduler runs programs on its workers, and here."""
COMPARED = ("ibdissect", "numpy", "dask", "distributed")
"""Packages whose versions must be those of the client, beside Python's."""

_one_at_a_time = threading.Lock()
"""Workers may have several threads; a check has memory and settings that belong to the process."""


class Dask:
    """A connection to a scheduler; close it, or use it in a `with` statement."""

    def __init__(self, where: str, workers: int | None = None, plugins: Iterable[str] = (), trusted: bool = False) -> None:
        """`where`: `dask` (one worker a core of this machine, or `workers`), `dask://HOST:PORT`, `dask+tls://...` or a scheduler file.

        `trusted`: the user's word that a network without TLS may be used. ConfigError if the scheduler cannot be reached, has no worker, or
        has workers with other versions of what matters.
        """
        logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what matters of it is reported in our words
        self.where, self.plugins, self._own = where, tuple(plugins), None
        self._around = contextlib.ExitStack()
        try:
            if where == "dask":
                self._own = self._around.enter_context(_own_cluster(workers or os.cpu_count() or 1))
                self.client = Client(self._own, set_as_default=False)
            else:
                address = _address(where)
                if not address.startswith(PROVEN) and not trusted:
                    raise ConfigError(
                        "--engine", where, "without TLS, whoever reaches the scheduler can run programs on its workers and here",
                        hint="use dask+tls://HOST:PORT, or say --trust-network",
                    )  # fmt: skip
                self.client = Client(address, timeout=PATIENCE_S, set_as_default=False)
            self.client.wait_for_workers(1, timeout=PATIENCE_S)
            self._compare_versions()
        except (OSError, TimeoutError, ValueError, TypeError, LookupError, RecursionError) as error:
            self.close()
            raise ConfigError("--engine", where, f"no scheduler with workers was reached: {error}") from error
        except BaseException:
            self.close()
            raise
        self.dashboard: str = "" if self._own is not None else self.client.dashboard_link
        """Its address; empty for our own cluster, which has none, as everybody on this machine could open it."""

    def __enter__(self) -> Dask:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the cluster; end it if it is our own."""
        if hasattr(self, "client"):
            with contextlib.suppress(OSError, TimeoutError):
                self.client.close()
        self._around.close()

    def pool(self, work: Work[T]) -> Workers[T]:
        """The workers of the cluster, to do that work."""
        return Workers(self, work)

    def _compare_versions(self) -> None:
        found = self.client.get_versions(packages=["ibdissect"])
        own = found["client"]
        for address, theirs in {**found["workers"], f"the scheduler {self.client.scheduler.address}": found["scheduler"]}.items():
            packages = COMPARED if address in found["workers"] else ("dask", "distributed")
            pairs = {name: (own["packages"].get(name), theirs["packages"].get(name)) for name in packages}
            pairs["Python"] = (_minor(own["host"]["python"]), _minor(theirs["host"]["python"]))
            for name, (ours, other) in pairs.items():
                if ours != other:
                    raise _other_version(self.where, address, name, other or "(none)", ours)


def _other_version(where: str, address: str, name: str, theirs: str, ours: str) -> ConfigError:
    reason = f"{address} has {name} {theirs}, this machine has {ours}"
    return ConfigError("--engine", where, reason, hint="install the same versions everywhere")


@contextlib.contextmanager
def _own_cluster(count: int) -> Iterator[LocalCluster]:
    """A cluster of processes of this machine that nobody else can talk to: with a certificate that only they and this process have, kept in
    memory, without pages for browsers, and with a folder of its own.
    """
    try:
        secrets = Security.temporary()
    except ImportError as error:
        raise missing_extra("cluster", "cryptography") from error
    pages: dict[str, Any] = {f"distributed.{part}.http.routes": [] for part in ("scheduler", "worker")}
    # By default, 15 s after a death Dask gives a worker up for good if it is just being started again.
    settings = dask.config.set({"distributed.deploy.lost-worker-timeout": "1 day", **pages})
    with settings, safe_path(), tempfile.TemporaryDirectory(prefix="ibdissect-", ignore_cleanup_errors=True) as folder:
        with _kept_from_interrupts():
            cluster = LocalCluster(
                n_workers=count, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0", security=secrets,
                silence_logs=logging.CRITICAL, local_directory=folder, scheduler_kwargs={"dashboard": False},
            )  # fmt: skip
        try:
            yield cluster
        finally:
            with contextlib.suppress(OSError, TimeoutError):
                cluster.close()


@contextlib.contextmanager
def _kept_from_interrupts() -> Iterator[None]:
    """Start processes that never see Ctrl+C, as they would answer with tracebacks. Ours takes effect afterwards."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # its start would clear the mask
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _address(where: str) -> str:
    """Address of a scheduler, by its URL or file. (Dask itself waits without end for a file that does not appear.)"""
    if "://" in where:
        return where.replace("dask+tls://", "tls://").replace("dask://", "tcp://")
    if kind := kind_of(os.stat(where).st_mode):  # nobody may ever write to a FIFO
        raise ConfigError("--engine", where, f"is {kind}, not a scheduler's file", hint="name the file of `--scheduler-file`")
    with open(where, "rb") as file:
        return str(json.load(file)["address"])


def _minor(version: str) -> str:
    """3.11 of 3.11.7.final.0."""
    return ".".join(version.split(".")[:2])


class Workers(Generic[T]):
    """The workers of a cluster as a pool. What they do travels once to each, also to those that come later."""

    died = (KilledWorker,)

    def __init__(self, cluster: Dask, work: Work[T]) -> None:
        self.client, self.name = cluster.client, f"ibdissect-{uuid4().hex}"
        self._slots, self._counted = 1, -FRESH_S
        self._pending: set[Any] = set()
        try:
            self.client.register_plugin(WorkerStatus(work, cluster.where, cluster.plugins, cluster._own is not None), name=self.name)
        except Exception as error:
            raise ConfigError("--engine", cluster.where, f"a worker cannot take the work: {error}") from error
        with contextlib.suppress(ValueError):  # a scheduler that takes no plugins tries a task on four workers by itself
            self.client.register_plugin(_given_back_at_once(self.name), name=self.name)

    @property
    def slots(self) -> int:
        """Threads of all workers, as known a few seconds ago."""
        if time.monotonic() - self._counted > FRESH_S:
            self._slots, self._counted = max(1, sum(self.client.nthreads().values())), time.monotonic()
        return self._slots

    def submit(self, paths: Sequence[Unit]) -> Pending[T]:
        # Workers log the arguments of tasks that fail: paths may hold passwords.
        future: Any = self.client.submit(_worked, self.name, _Batch(paths), key=f"{self.name}-{uuid4().hex}", pure=False)
        self._pending.add(future)
        future.add_done_callback(self._pending.discard)
        return ClusterTask(future)

    def mend(self) -> None:
        """The scheduler starts other workers."""

    def close(self) -> None:
        with contextlib.suppress(OSError, TimeoutError, RuntimeError):
            self.client.cancel(list(self._pending), force=True)
            self.client.unregister_worker_plugin(self.name)
            self.client.unregister_scheduler_plugin(self.name)


class ClusterTask(Generic[T]):
    """A task of the cluster."""

    def __init__(self, future: Any) -> None:
        self.future, self.add_done_callback = future, future.add_done_callback

    def result(self) -> list[T]:
        try:
            failed, results = self.future.result()
        except CancelledError as error:
            raise ConfigError("--engine", "dask", "the scheduler was lost, or somebody cancelled the work") from error
        finally:
            self.future.release()
        if failed:
            raise IbdissectError(failed)
        return list(results)


class WorkerStatus(WorkerPlugin):  # type: ignore[misc]
    """The work of a cluster's worker, in the folder that the command was started in."""

    def __init__(self, work: Work[Any], where: str, plugins: Iterable[str], ours: bool) -> None:
        self.where, self.address = where, "a worker"
        self.packed, self.version, self.folder, self.ours = cloudpickle.dumps(work), VERSION, os.getcwd(), ours
        self.files: dict[str, bytes] = {}
        """Plugins that are files, for workers that do not see our folder."""
        for name in filter(os.path.isfile, plugins):
            with open(name, "rb") as file:
                self.files[name] = file.read()
        self.work: Work[Any] | None = None
        self.copied = ""
        """The folder that this worker made for them; empty: none."""

    def setup(self, worker: Worker) -> None:
        self.address = worker.address
        heap.set_up()
        if self.ours:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C reaches all processes of the terminal; the command ends the workers
            end_with_parent()

    def teardown(self, worker: Worker) -> None:
        if self.copied:
            shutil.rmtree(self.copied, ignore_errors=True)

    def unpacked(self) -> Work[Any]:
        """The work, made of the names of rules and plugins when it is first needed."""
        if self.work is None:
            if self.version != VERSION:
                raise _other_version(self.where, self.address, "ibdissect", VERSION, self.version)
            self._settle()
            with contextlib.chdir(self.folder):
                self.work = cloudpickle.loads(self.packed)
        return self.work

    def _settle(self) -> None:
        """Use a folder with copies of the plugins if ours is not here."""
        if os.path.isdir(self.folder) and all(os.path.isfile(os.path.join(self.folder, name)) for name in self.files):
            return
        self.folder = self.copied = tempfile.mkdtemp(prefix="ibdissect-")
        for name, content in self.files.items():
            path = os.path.normpath(os.path.join(self.folder, name))
            if path.startswith(self.folder):
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "wb") as file:
                    file.write(content)


class _Batch(list[Unit]):
    """Paths of a task, which no log shows."""

    def __repr__(self) -> str:
        return f"<{len(self)} captures>"


def _worked(name: str, paths: Sequence[Unit]) -> tuple[str, list[Any]]:
    """An error if the worker cannot work, and the results for captures; fewer if the client cancels the task."""
    worker = get_worker()
    key = worker.get_current_task()

    def stop() -> bool:
        task = worker.state.tasks.get(key)
        return task is None or task.state == "cancelled"

    doing = worker.plugins[name]
    try:
        with _one_at_a_time:
            work = doing.unpacked()
            with contextlib.chdir(doing.folder):
                return "", [work(path, stop=stop) for path in paths if not stop()]
    except IbdissectError as error:
        return str(error), []
    except Exception as error:
        return f"a worker failed: {type(error).__name__}: {error}", []


def _given_back_at_once(prefix: str) -> Any:
    """A plugin of the scheduler: it does not retry a task whose worker died, but returns it, so that its captures are checked one by one.

    Defined here, so that it travels as code: the scheduler need not have ibdissect.
    """

    class ReleasedTasks(SchedulerPlugin):  # type: ignore[misc]
        def start(self, scheduler: Any) -> None:
            self.scheduler = scheduler

        def transition(self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
            if finish == "processing" and str(key).startswith(prefix):
                self.scheduler.tasks[key].suspicious = self.scheduler.allowed_failures

    return ReleasedTasks()

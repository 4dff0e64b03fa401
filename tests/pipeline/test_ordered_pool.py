"""Results come in order, a few at a time, and only the capture that kills its process twice goes without."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from ibdissect.pipeline.ordered_pool import spread
from tests.cases import every


class Died(Exception):
    """What tasks of a `Room` raise when their worker died."""


class Room:
    """A pool whose tasks end when somebody waits; whoever is submitted together with a killer may die with it."""

    died = (Died,)

    def __init__(self, slots: int = 2, neighbours: int = 2) -> None:
        self.slots, self.neighbours = slots, neighbours
        self.flying = self.most = 0
        self.worked: list[str] = []
        self.open: list[Future[list[str]]] = []
        self.closed = False

    def submit(self, paths: list[str]) -> Future[list[str]]:
        self.flying += 1
        self.most = max(self.most, self.flying)
        future: Future[list[str]] = _Lazy(self, paths)
        self.open.append(future)
        return future

    def mend(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


class _Lazy(Future):  # type: ignore[type-arg]
    def __init__(self, room: Room, paths: list[str]) -> None:
        super().__init__()
        self.room, self.paths = room, paths

    def add_done_callback(self, called: object) -> None:
        self.finish()
        super().add_done_callback(called)  # type: ignore[arg-type]

    def finish(self) -> None:
        if self.done():
            return
        self.room.flying -= 1
        self.room.open.remove(self)
        if any(path.startswith("kill") for path in self.paths):
            self.set_exception(Died())
            for other in self.room.open[: self.room.neighbours]:
                self.room.flying -= 1
                other.set_exception(Died())
            del self.room.open[: self.room.neighbours]
        else:
            self.room.worked += self.paths
            self.set_result([path.upper() for path in self.paths])


def lost(path: str) -> str:
    return f"lost {path}"


@every("count", [0, 1, 5, 100, 1000])
def test_order_and_few_in_flight(count: int) -> None:
    room, paths = Room(), [f"p{i}" for i in range(count)]
    assert list(spread(paths, room, lost)) == [path.upper() for path in paths]
    assert room.most <= 2 * 3 and room.closed


@every("killers", [{0}, {39}, {3, 4, 5}, {0, 1, 20, 399}, set(range(0, 400, 17))])
@every("neighbours", [0, 1, 5])
def test_whoever_dies_beside_a_killer_is_worked_on_once(killers: set[int], neighbours: int) -> None:
    paths = [f"kill{i}" if i in killers else f"p{i}" for i in range(400)]
    room = Room(neighbours=neighbours)
    assert list(spread(paths, room, lost)) == [f"lost {path}" if path.startswith("kill") else path.upper() for path in paths]
    assert room.most <= 2 * 3 + 1


def test_a_worker_that_dies_once_costs_nothing() -> None:
    class Once(Room):
        def submit(self, paths: list[str]) -> Future[list[str]]:
            future = super().submit(paths)
            if "p7" in paths and not hasattr(self, "over"):
                self.over = True
                self.open.remove(future)
                self.flying -= 1
                future.set_exception(Died())
            return future

    paths = [f"p{i}" for i in range(50)]
    assert list(spread(paths, Once(), lost)) == [path.upper() for path in paths]


def test_a_capture_is_blamed_only_if_it_dies_alone_twice() -> None:
    """The first time, somebody may have killed the worker."""

    class Twice(Room):
        died_at = 0

        def submit(self, paths: list[str]) -> Future[list[str]]:
            future = super().submit(paths)
            if "p7" in paths and self.died_at < 2:
                self.died_at += 1
                self.open.remove(future)
                self.flying -= 1
                future.set_exception(Died())
            return future

    room, paths = Twice(), [f"p{i}" for i in range(50)]
    assert list(spread(paths, room, lost)) == [path.upper() for path in paths] and room.died_at == 2


def test_stop_keeps_the_findings_so_far() -> None:
    class Waiting(Room):
        def submit(self, paths: list[str]) -> Future[list[str]]:
            return Future() if "p9" in paths else super().submit(paths)

    room, asked = Waiting(), iter([False, False, True])
    found = list(spread([f"p{i}" for i in range(20)], room, lost, lambda: next(asked)))
    assert found == [f"P{i}" for i in range(9)] and room.closed


def test_a_bug_is_not_hidden() -> None:
    class Broken(Room):
        def submit(self, paths: list[str]) -> Future[list[str]]:
            future: Future[list[str]] = Future()
            future.set_exception(KeyError("x"))
            return future

    room = Broken()
    with pytest.raises(KeyError):
        list(spread(["a"], room, lost))
    assert room.closed

"""Keys, clicks and sizes pressed at random: none brings the screen down or makes it hang.

    python benchmarks/keys.py [--events 10000] [--seed 1] [--slow 1] CAPTURE...

Events that take longer than --slow seconds are printed with those before them: nothing may hold the screen.
Each capture gets its share of the events; the seed and the last events are printed when one fails. Keys that write files write into a
folder that is deleted.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import string
import sys
import tempfile
import time
import traceback
from collections import deque
from contextlib import suppress
from pathlib import Path

from textual.errors import NoWidget

from ibdissect.pipeline.check import CheckOptions
from ibdissect.rules import load
from ibdissect.screen_model.capture_model import CaptureModel
from ibdissect.screen_model.saved_state import FilterHistory, Profile
from ibdissect.tui.app import COMMANDS, TuiApp

PATIENCE = 60.0
"""Seconds for one event, on a busy machine."""
MOVES = ("up", "down", "left", "right", "pageup", "pagedown", "home", "end", "enter", "tab", "shift+tab", "space", "backspace", "asterisk")
KEYS = (
    *(key for command in COMMANDS for key in command.keys.split(",") if command.word != "quit"), *MOVES * 3, *("escape",) * 12, *"oOrtmb",
    *string.ascii_lowercase.replace("q", ""), *string.digits, "full_stop", "equals_sign",
)  # fmt: skip


async def event(app: TuiApp, rnd: random.Random, said: deque[str]) -> None:
    """One key, click, drag, turn of the wheel or size."""
    from textual.pilot import Pilot

    pilot, what = Pilot(app), rnd.random()
    place = rnd.randrange(app.size.width), rnd.randrange(app.size.height)
    if what < 0.8:
        key = rnd.choice(KEYS)
        said.append(key)
        await pilot.press(key)
    elif what < 0.9:
        button, times = rnd.choice((1, 1, 1, 3)), rnd.choice((1, 1, 2))
        said.append(f"click {place} button {button} x{times}")
        await pilot.click(offset=place, button=button, times=times)
    elif what < 0.94:
        other = rnd.randrange(app.size.width), rnd.randrange(app.size.height)
        said.append(f"drag {place} to {other}")
        await pilot.mouse_down(offset=place)
        await pilot.hover(offset=other)
        await pilot.mouse_up(offset=other)
    else:
        size = rnd.choice((20, 40, 80, 120, 200)), rnd.choice((4, 10, 24, 40, 50))
        said.append(f"size {size}")
        await pilot.resize_terminal(*size)


async def walk(path: str, events: int, rnd: random.Random, said: deque[str], slow: float) -> None:
    """So many events on one capture; raises what the application or one of its threads failed with."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        history, memory = FilterHistory(Path(folder) / "filters"), Profile(Path(folder) / "screen.json")
        app, failures = TuiApp([CaptureModel(path)], lambda: CheckOptions(rules=load()), history=history, memory=memory), list[str]()
        app.failed = lambda text, _: failures.append(text)  # type: ignore[method-assign]
        async with app.run_test(size=(120, 40)):
            for number in range(events):
                begun, computed = time.monotonic(), time.thread_time()
                with suppress(NoWidget):  # a click on a screen that is not laid out yet hits nothing
                    await asyncio.wait_for(event(app, rnd, said), PATIENCE)
                took, computed = time.monotonic() - begun, time.thread_time() - computed
                if took > slow:  # on a busy machine most of it is waiting
                    where, before = type(app.screen).__name__, " | ".join([*said][-8:])
                    print(f"event {number} took {took:.1f} s, {computed:.1f} s of it computing, on {where}: {before}", flush=True)
                if failures:
                    raise RuntimeError(failures[0])
        os.chdir("/")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("captures", nargs="+")
    parser.add_argument("--events", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--slow", type=float, default=1.0)
    given = parser.parse_args()
    failed, share = 0, -(-given.events // len(given.captures))
    for path in [os.path.abspath(one) for one in given.captures]:  # the walks change the folder
        rnd, said, start = random.Random(f"{given.seed} {os.path.basename(path)}"), deque[str](maxlen=25), time.monotonic()
        try:
            asyncio.run(walk(path, share, rnd, said, given.slow))
        except Exception:
            failed += 1
            traceback.print_exc()
            print(f"behind: {' | '.join(said)}")
        print(f"{os.path.basename(path):40} {share:6} events {time.monotonic() - start:7.1f} s", flush=True)
    print(f"{len(given.captures)} captures, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())

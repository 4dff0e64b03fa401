"""Does the screen survive keys that nobody would press? Random keys on captures, without a terminal.

    python benchmarks/random_keys.py [--keys 1000] [--seed 1] CAPTURE ...

Prints a line for each capture. Exit status 1 if one of them ended with an error; the last keys before it are printed, and the same seed
presses the same keys again.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ibdissect.rules import load
from ibdissect.session.check import Options
from ibdissect.study.capture_model import CaptureModel
from ibdissect.study.saved_state import FilterHistory, Profile
from ibdissect.tui.app import COMMANDS, TuiApp

SIZES = ((80, 24), (120, 40), (200, 50), (40, 10), (20, 5))
MOVES = ("up", "down", "left", "right", "pageup", "pagedown", "home", "end", "tab", "shift+tab", "enter", "escape", "space", "asterisk",
         "backspace")  # fmt: skip
TEXT = (*"bthlid05.", "equals_sign", "full_stop", "underscore", "slash")
ENDS = ("q", "ctrl+c", "ctrl+q", "ctrl+z")
"""Keys that end or suspend the program."""
TAIL = 40
"""Keys that are printed after an error."""


def keys(count: int, chance: random.Random) -> list[str]:
    """Keys of commands, moves and text; more of those that lead somewhere."""
    commands = [key for command in COMMANDS for key in command.keys.split(",") if key not in ENDS]
    groups = (commands, MOVES, ("escape", "enter"), TEXT)
    return [chance.choice(chance.choices(groups, (4, 4, 2, 2))[0]) for _ in range(count)]


async def press(path: str, count: int, seed: int) -> str:
    """What went wrong; empty if nothing did."""
    chance, pressed = random.Random(f"{seed} {Path(path).name}"), list[str]()
    with tempfile.TemporaryDirectory() as state:
        memory, history = Profile(Path(state) / "screen.json"), FilterHistory(Path(state) / "filters")
        app = TuiApp([CaptureModel(path)], lambda: Options(rules=load()), history=history, memory=memory)
        try:
            async with app.run_test(size=chance.choice(SIZES)) as pilot:
                for key in keys(count, chance):
                    pressed.append(key)
                    if not chance.randrange(200):
                        await pilot.resize_terminal(*chance.choice(SIZES))
                    await pilot.press(key)
                    if not app.is_running or app._exit:
                        return f"it ended after {' '.join(pressed[-TAIL:])}"
                    if wrong := [note.message for note in app._notifications if "please report" in note.message]:
                        return f"{wrong[0]} after {' '.join(pressed[-TAIL:])}"
        except Exception as error:  # whatever it is, it is what this looks for
            return f"{type(error).__name__}: {error} after {' '.join(pressed[-TAIL:])}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("captures", nargs="+")
    parser.add_argument("--keys", type=int, default=1000, help="for each capture")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    failed = False
    for path in options.captures:
        begin = time.monotonic()
        wrong = asyncio.run(press(path, options.keys, options.seed))
        failed |= bool(wrong)
        print(f"{path}  {options.keys} keys, {time.monotonic() - begin:.0f} s: {wrong or 'nothing went wrong'}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

"""Draws the pictures of the terminal UI in docs/images.

    python docs/screenshots.py [FOLDER WITH CAPTURES]

The folder holds opensm/10-partitions.pcap and rxe/netem_loss_send_bw.pcap (default: ../shared/captures beside the repository).
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ibdissect.cli.common_options import CommonOptions
from ibdissect.cli.output import early_options
from ibdissect.cli.points import MergedCapture
from ibdissect.pipeline.check import CheckOptions
from ibdissect.rules import load
from ibdissect.screen_model.capture_model import CaptureModel
from ibdissect.screen_model.saved_state import FilterHistory, Profile
from ibdissect.tui.app import TuiApp
from tests.tui.drawn import picture

HERE = Path(__file__).resolve().parent
SIZE = (132, 40)
SHOTS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("main", "opensm/10-partitions.pcap", ("f", "tab", *("down",) * 9)),
    ("light", "rxe/netem_loss_send_bw.pcap", ("f", "tab", *("down",) * 4)),
    ("filter", "rxe/netem_loss_send_bw.pcap", ("slash", *"bth.p")),
    ("explain", "opensm/10-partitions.pcap", ("f", "e")),
    ("findings", "opensm/33-mkey-enforced-prot2.pcap", ("S",)),
    ("conversations", "rxe/rc_write_mtu1024.pcap", ("C",)),
    ("transfer", "opensm/31-saquery-rmpp-ft36.pcap", ("slash", *"rmpp.segmentnumber", *["equals_sign"] * 2, "3", "enter", "R", "right")),
    ("fabric", "opensm/10-partitions.pcap", ("b", *("down",) * 9, "r", *("down",) * 14)),
    ("history", "opensm/12-two-sms.pcap", ("b", "t", "end", *("up",) * 3)),
    ("sweeps", "opensm/12-two-sms.pcap", ("E", "right", "right")),
    ("menu", "opensm/10-partitions.pcap", ("f", "tab", *["down"] * 4, "space")),
    ("time", "rxe/netem_loss_send_bw.pcap", ("T",)),
    ("ladder", "rxe/netem_loss_send_bw.pcap", ("f", "L")),
    ("statistics", "opensm/16-diags-gs-vendor-cc.pcap", ("s",)),
)
"""Name, capture, keys pressed before the picture is taken."""
OWN: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("why", "slow-lab.pcap", ("W", *("down",) * 3)),
    ("why-frames", "slow-lab.pcap", ("W", *("down",) * 3, "tab", *("down",) * 5, "enter")),
    ("stalls", "slow-lab.pcap", ("W", *("down",) * 2, "L")),
)
"""The same, of captures in the repository."""


async def shoot(captures: Path, name: str, capture: str, keys: tuple[str, ...], folder: Path) -> None:
    """One picture, by somebody who remembers nothing of earlier runs."""
    with tempfile.TemporaryDirectory() as state:
        history, memory = FilterHistory(Path(state) / "filters"), Profile(Path(state) / "screen.json")
        app = TuiApp([CaptureModel(str(captures / capture))], lambda: CheckOptions(rules=load()), history=history, memory=memory)
        await _drawn(app, name, keys, folder)


async def shoot_points(folder: Path) -> None:
    """The captures of docs/where-was-it-lost.md, merged, at a lost packet."""
    merged = MergedCapture([str(HERE / "examples" / "lost" / f"{point}.pcap") for point in ("client", "tap", "server")], CommonOptions())
    model, options = CaptureModel(merged.file.name), early_options(CommonOptions(), points=True)
    assert options is not None
    merged.tell(model)
    options.policy = merged.known
    with tempfile.TemporaryDirectory() as state:
        history, memory = FilterHistory(Path(state) / "filters"), Profile(Path(state) / "screen.json")
        app = TuiApp([model], lambda: options, history=history, memory=memory)
        await _drawn(app, "points", ("f",), folder)


async def _drawn(app: TuiApp, name: str, keys: tuple[str, ...], folder: Path) -> None:
    async with app.run_test(size=SIZE) as pilot:
        if name == "light":
            app.theme = "ibdissect-light"
        while not app.study.finished:
            await pilot.pause(0.05)
        await pilot.pause(0.3)
        for key in keys:
            await pilot.press({".": "full_stop", "_": "underscore"}.get(key, key))
            await pilot.pause(0.15)
        await pilot.pause(0.3)
        (folder / f"tui-{name}.svg").write_text(picture(app, "ibdissect"), encoding="utf-8")


def main() -> None:
    captures = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parents[1] / "shared" / "captures"
    folder = HERE / "images"
    folder.mkdir(exist_ok=True)
    for place, shots in ((captures, SHOTS), (HERE.parent / "captures", OWN)):
        for name, capture, keys in shots:
            asyncio.run(shoot(place, name, capture, keys, folder))
            print(f"docs/images/tui-{name}.svg")
    asyncio.run(shoot_points(folder))


if __name__ == "__main__":
    main()

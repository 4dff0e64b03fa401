"""A small capture with something of everything: management, data, retransmission, a NAK, findings, keys, hostile text."""

from __future__ import annotations

from pathlib import Path

from ibdissect.linting import Options
from ibdissect.rules import load
from ibdissect.tui.app import TuiApp
from ibdissect.tui.memory import History, Memory
from ibdissect.tui.model import CaptureModel
from tests.craft import erf_pcap, gmp, native, rc, ud
from tests.fabric.made import answer, ask, node, p_keys

NODE_INFO, NODE_DESCRIPTION, P_KEY_TABLE = 0x11, 0x10, 0x16
HOSTILE = b"[red]\x1b[31mhost\x07[/red] \xe2\x80\xae=cmd"
SIZE = (120, 40)


def frames() -> list[bytes]:
    """Thirty frames; 3 is a packet of a foreign partition (PKY003), 20 repeats the PSN of 19, 21 is a NAK."""
    made = [
        answer(5, NODE_INFO, node(5)),
        answer(5, P_KEY_TABLE, p_keys(0xFFFF, 0x1234)),
        native(0x04, bytes(8), slid=3, dlid=5, bth={"p_key": 0x9999, "destqp": 0x12, "psn": 1}),
        answer(5, NODE_DESCRIPTION, HOSTILE.ljust(64, b"\0")),
        ask(5, NODE_INFO),
        gmp(4, 1, 0x12, slid=3, dlid=5),
        ud(b"needle in a haystack" + bytes(4), dest_qp=0x40, src_qp=0x41, q_key=0x1234567, slid=3, dlid=5),
        rc(0x0A, bytes(16), ext={"RETH": {"va": 0x1000, "r_key": 0xABCDEF, "dmalen": 16}}, slid=3, dlid=5, bth={"psn": 9}),
    ]
    made += [native(0x04, bytes([i]) * 16, slid=3, dlid=5, bth={"destqp": 0x50, "psn": 100 + i}) for i in range(11)]
    made.append(native(0x04, bytes([10]) * 16, slid=3, dlid=5, bth={"destqp": 0x50, "psn": 110}))
    made.append(rc(0x11, ext={"AETH": {"syndrome": 0x60, "msn": 3}}, slid=5, dlid=3, bth={"destqp": 0x60, "psn": 110}))
    made += [native(0x04, bytes(4), slid=3, dlid=6, bth={"destqp": 0x70, "psn": 500 + i}) for i in range(9)]
    return made


def capture(folder: Path, *, name: str = "made.pcap", repeat: int = 1) -> Path:
    """The frames as a capture file."""
    path = folder / name
    path.write_bytes(erf_pcap(frames() * repeat))
    return path


def app_on(path: Path, *, follow: bool = False, show_keys: bool = False, display_filter: str = "") -> TuiApp:
    """The application on a capture, with a history of its own."""
    model = CaptureModel(str(path), follow=follow, show_keys=show_keys)
    history, memory = History(path.parent / "history"), Memory(path.parent / "screen.json")
    return TuiApp(model, lambda: Options(rules=load()), history=history, memory=memory, display_filter=display_filter)

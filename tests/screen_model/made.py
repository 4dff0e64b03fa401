"""A small capture with something of everything: management, data, retransmission, a NAK, findings, keys, hostile text."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from pathlib import Path

from ibdissect.lint.finding import Finding
from ibdissect.pipeline.check import CheckOptions
from ibdissect.rules import load
from ibdissect.screen_model.background_analysis import BackgroundAnalysis, Snapshot
from ibdissect.screen_model.capture_model import CaptureModel
from ibdissect.screen_model.findings_store import FindingsStore
from ibdissect.screen_model.shown_frames import FilteredRows
from tests import craft
from tests.craft import erf_pcap, gmp, native, rc, ud
from tests.subnet.made import answer, ask, node, p_keys

NODE_INFO, NODE_DESCRIPTION, P_KEY_TABLE = 0x11, 0x10, 0x16
HOSTILE = b"[red]\x1b[31mhost\x07[/red] \xe2\x80\xae=cmd"


def frames() -> list[bytes]:
    """Thirty frames; 3 is a packet of a foreign partition (PKY003), 20 repeats the PSN of 19, 21 is a NAK."""
    made = [
        answer(5, NODE_INFO, node(5)),
        answer(5, P_KEY_TABLE, p_keys(0xFFFF, 0x1234)),
        native(0x04, bytes(8), slid=3, dlid=5, bth={"p_key": 0x9999, "destqp": 0x12, "psn": 20001}),
        answer(5, NODE_DESCRIPTION, HOSTILE.ljust(64, b"\0")),
        ask(5, NODE_INFO),
        gmp(4, 1, 0x12, slid=3, dlid=5),
        ud(b"needle in a haystack" + bytes(4), dest_qp=0x40, src_qp=0x41, q_key=0x1234567, slid=3, dlid=5),
        rc(0x0A, bytes(16), ext={"RETH": {"va": 0x1000, "r_key": 0xABCDEF, "dmalen": 16}}, slid=3, dlid=5, bth={"psn": 20009}),
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


def written(folder: Path, *frames: bytes) -> Path:
    path = folder / "few.pcap"
    path.write_bytes(craft.erf_pcap(frames))
    return path


TOTAL = len(frames())


def opened(path: Path | io.BytesIO, **kw: bool) -> CaptureModel:
    model = CaptureModel(str(path) if isinstance(path, Path) else path, **kw)
    model.scan(lambda: None)
    return model


def filtered(
    model: CaptureModel, text: str, *, wanted: Callable[[], bool] = lambda: True, grew: Callable[[], object] = lambda: None
) -> FilteredRows:  # fmt: skip
    """The rows of the packet list with a filter, when all frames have been looked at, or it is no longer wanted."""
    matcher, error = model.filter(text)
    assert matcher is not None, error
    rows = FilteredRows()
    model.fill(rows, matcher, wanted, lambda: grew() and None)
    return rows


def selected(model: CaptureModel, text: str) -> list[int]:
    """The frames that a filter selects."""
    rows = filtered(model, text)
    return rows.frames(0, len(rows))


def studied(model: CaptureModel, options: CheckOptions | None = None, kept: int | None = 1000) -> tuple[BackgroundAnalysis, Snapshot]:
    """Everything learnt; the study's thread is over."""
    study = BackgroundAnalysis(model, lambda: options or CheckOptions(rules=load()), kept)
    shots: list[Snapshot] = []
    study.want(shots.append)
    thread = threading.Thread(target=study.run, args=(lambda: None,))
    thread.start()
    for _ in range(1000):
        if study.finished:
            break
        model.wait(0.01)
    shot = study.snapshot()
    model.close()
    study.close()
    thread.join(10)
    assert study.finished and not thread.is_alive()
    return study, shot


def all_of(store: FindingsStore) -> list[Finding]:
    """Every occurrence as a finding."""
    return [store.finding(place) for place in range(len(store))]

"""Everything holds for the stored inputs: those that guided fuzzing found interesting, and those that were faults once."""

from __future__ import annotations

import logging
from itertools import count
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from rich.segment import Segment

from ibdissect.decode.chunk_table import ChunkTable
from ibdissect.tui.panes.tree_pane import TreePane
from tests.craft import LINK_INFINIBAND, smp

from . import scrubbing, targets
from .agree import Disagreement
from .container import pcapng
from .items import item, joined

pytestmark = pytest.mark.slow

logging.getLogger("scapy").setLevel(logging.CRITICAL)
CORPUS = Path(__file__).with_name("corpus")
OF = {
    "packets": ("locate", "walk", "scapy", "summary", "lint", "scrub", "tui"), "reader": ("reader",), "filter": ("filter",),
    "rmpp": ("rmpp",), "cm": ("cm",),
}  # fmt: skip
"""Targets that the inputs of each folder go through."""
INPUTS = [(path, target) for folder, names in OF.items() for path in sorted((CORPUS / folder).iterdir()) for target in names]
SOME = [
    pytest.param(path, target, marks=[pytest.mark.thorough] * (i % 5 != 0 and not path.name.startswith("found-")))
    for i, (path, target) in enumerate(INPUTS)
]
"""Every fifth input and target, and every input that was a fault once."""


@pytest.mark.parametrize(("path", "target"), SOME, ids=lambda value: value.name if isinstance(value, Path) else value)
def test_holds(path: Path, target: str) -> None:
    targets.TARGETS[target](path.read_bytes())


def test_every_target_has_inputs_and_they_are_small() -> None:
    assert {target for _, target in INPUTS} == set(targets.TARGETS)
    assert sum(path.stat().st_size for path in CORPUS.rglob("*") if path.is_file()) < 300_000


class Everything:
    """A filter that selects every row, like its opposite."""

    def rows(self, table: ChunkTable) -> npt.NDArray[np.bool_]:
        return np.ones(len(table), np.bool_)


NUMBERS = count()
SPOILT: dict[str, tuple[object, str, object]] = {
    "reader": (targets, "_frames", lambda data, window=0: ([], str(window))),
    "walk": (targets, "outline", lambda tree: "\x1b[2J"),
    "scapy": (targets, "opposed", lambda table: ([Disagreement("BTH differs", [0])], [], 1)),
    "filter": (targets, "compile_filter", lambda text, catalog: Everything()),
    "lint": (targets, "_said", lambda report: {(f"X{next(NUMBERS)}", 1, 1, "")}),
    "scrub": (scrubbing, "scrubbed", lambda capture, container: capture),
    "tui": (TreePane, "parts", lambda pane, index, width: [Segment(" " * 500)]),
}  # fmt: skip
"""What makes a target wrong: a module or class, a name of it, and what stands there instead."""
FRAME = smp(0x01, 0x15, bytes(range(1, 65)), m_key=0x0123456789ABCDEF)
WRONG_FOR = {"reader": pcapng([]), "filter": b"mad"}


@pytest.mark.parametrize("target", sorted(SPOILT))
def test_a_target_that_is_made_wrong_fails(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = WRONG_FOR.get(target, joined([item((LINK_INFINIBAND, FRAME, len(FRAME)))]))
    targets.TARGETS[target](data)
    monkeypatch.setattr(*SPOILT[target])
    with pytest.raises(targets.Wrong):
        targets.TARGETS[target](data)

"""What do the parts of the screen say to each other? The whole vocabulary; a widget knows no other widget."""

from __future__ import annotations

from dataclasses import dataclass

from textual.message import Message

from ibdissect.dissect.rmpp import Transfer
from ibdissect.dissect.tree import Node
from ibdissect.lint.finding import Finding

from .find import Query
from .study import Snapshot


@dataclass
class FrameSelected(Message):
    """The cursor of the packet list came to rest on a frame."""

    frame: int


@dataclass
class NodeSelected(Message):
    """The cursor of the tree is on a node; None on a line that is no node."""

    node: Node | None


@dataclass
class ByteSelected(Message):
    """The cursor of the bytes pane is on a byte of the frame."""

    byte: int


@dataclass
class JumpTo(Message):
    """Go to a frame."""

    frame: int


@dataclass
class ExplainFinding(Message):
    """Show why a finding matters."""

    finding: Finding


@dataclass
class FilterEntered(Message):
    """Show the frames that a display filter matches; an empty one shows all."""

    text: str


@dataclass
class FilterLeft(Message):
    """The filter bar is done with; give the focus back."""


@dataclass
class FindEntered(Message):
    """Look for something from the selected frame on."""

    query: Query


@dataclass
class SearchEnded(Message):
    """A search is over: the row found, and whether it went round the end; None when nothing matches."""

    query: Query
    row: int | None
    round_: bool


@dataclass
class CounterpartFound(Message):
    """The answer to a frame's request, or the request of its answer; None when there is none."""

    frame: int
    other: int | None


@dataclass
class TransferFound(Message):
    """The RMPP transfer of a frame; None when it belongs to none."""

    frame: int
    transfer: Transfer | None


@dataclass
class WriteEnded(Message):
    """Frames were written, or not."""

    path: str
    frames: int
    error: str | None


@dataclass
class ThreadFailed(Message):
    """A thread ended in a way that nobody foresaw."""

    text: str


@dataclass
class SnapshotReady(Message):
    """Numbers for the statistics, conversations and fabric screens."""

    snapshot: Snapshot

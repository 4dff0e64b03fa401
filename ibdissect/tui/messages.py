"""The messages between the parts of the screen. All of them are here; a widget knows no other widget."""

from __future__ import annotations

from dataclasses import dataclass

from textual.message import Message

from ibdissect.dissect.tree import Node
from ibdissect.lint.finding import Finding
from ibdissect.screen_model.linked_values import Link


@dataclass
class FrameSelected(Message):
    """The cursor of the packet list came to rest on a frame."""

    frame: int


@dataclass
class NodeSelected(Message):
    """The cursor of the tree is on a node; None on a line that is not a node."""

    node: Node | None


@dataclass
class ByteSelected(Message):
    """The cursor of the bytes pane is on a byte of the frame."""

    byte: int


@dataclass
class JumpTo(Message):
    """Go to a frame, and to the field of a finding there."""

    frame: int
    finding: Finding | None = None


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
    """The user left the filter bar; give the focus back."""


@dataclass
class KeysWanted(Message):
    """The filter bar has read an Enter or Escape: keys typed behind it may go on."""


@dataclass
class SortWanted(Message):
    """Sort the packet list by a column; by the same again: the other way round, then by time."""

    column: str


@dataclass
class ValuesWanted(Message):
    """Offer the nodes, ports, queue pairs and frames that a line names."""

    text: str


@dataclass
class ValueClicked(Message):
    """Offer what can be done with a value that a text names: its frames, a filter with it, its text."""

    link: Link


@dataclass
class Sized(Message):
    """The user resized a pane (in per cent) or a column (in cells)."""

    what: str
    """Its name in a profile: `size detail`, `width source`."""
    size: int

"""The decode tree of one frame: layers that open and close, fields with values, and findings at their fields."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from rich.segment import Segment
from rich.style import Style
from textual import events

from ibdissect.capture.chunk import SetMember
from ibdissect.dissect.tree import Node, Tree
from ibdissect.lint.finding import Finding
from ibdissect.lint.set_members import place_text
from ibdissect.screen_model.field_notes import layer_note
from ibdissect.screen_model.tree_layers import closed_layers, name_of
from ibdissect.screen_model.value_filters import as_filter
from ibdissect.wire.text import printable

from ..messages import JumpTo, NodeSelected
from ..widgets.cells import cut, fit, line_of, width_of
from ..widgets.tree_list import TreeList

LABEL = 28
"""Cells of a field's label before its value."""


@dataclass(slots=True)
class TreeLine:
    node: Node | None
    """None: about the frame as a whole."""
    path: str
    """Labels from the layer to the node; identifies an open node in other frames."""
    text: str = ""
    findings: list[Finding] = field(default_factory=list)


def nodes_of(finding: Finding, tree: Tree) -> list[Node]:
    """The innermost nodes that hold the bytes of a finding; without bytes, the first of its field."""
    found = []
    for span in finding.spans:
        if span.frame == tree.frame:
            stop = span.offset + span.length
            holding = [n for n in tree.walk() if not n.in_front and n.offset <= span.offset and stop <= n.offset + n.length]
            found += ([node for node in holding if node.name == finding.field] or holding)[-1:]
    return found or [node for node in tree.walk() if node.name and node.name == finding.field][:1]


class TreePane(TreeList[TreeLine]):
    """Shows a `Tree`; what is open stays open from frame to frame."""

    empty = "Select a frame: its headers and fields are shown here."

    def __init__(self, knowledge: Callable[[Node, Tree], str], members: Sequence[SetMember] = ()) -> None:
        """`members` are the files of a set."""
        super().__init__(id="tree")
        self.knowledge, self.members = knowledge, members
        self.frame_tree: Tree | None = None
        self.findings: list[Finding] = []
        self.chosen_layers: dict[str, bool] = {}
        """Names of layers that the user opened (True) or closed; others are open if they matter, everything below is closed."""
        self.keep_layer: Callable[[str, bool], object] = lambda name, wanted: None
        """Called with the name of a layer that the user opened or closed."""
        self._around: set[str] = set()
        """Names of the layers that do not matter in this frame."""
        self._revealed: set[str] = set()
        """Paths of layers that are open until the cursor is in another one and another frame is shown."""
        self._for_now = False
        """Whether layers are opened for this frame only."""
        self._marks: dict[int, list[Finding]] = {}

    @property
    def node(self) -> Node | None:
        return self.item.node if self.item is not None else None

    @property
    def as_filter(self) -> str | None:
        """The filter that says what the selected field holds, if any; a field of a record or message is at no place of the frame."""
        text, tree = as_filter(self.node), self.frame_tree
        elsewhere = tree is not None and tree.home(self.node) is not None
        return None if elsewhere and text is not None and text.startswith("frame[") else text

    def show_findings(self, findings: list[Finding]) -> None:
        """Show the findings of the frame again: there may be more."""
        if findings != self.findings:
            self.findings = findings
            self.rebuild()

    def show_tree(self, tree: Tree, findings: list[Finding], target: Node | None = None) -> None:
        """Show a frame; the cursor goes to `target`, else stays on the same field if the frame has it."""
        before, path = self.node, self.item.path.partition("/")[0] if self.item is not None else ""
        self.frame_tree, self.findings, self.lines = tree, findings, []
        self._around, self._revealed = closed_layers(tree), self._revealed & {path}
        self.rebuild()
        if target is not None:
            self.reveal_node(target)
            return
        wanted = next((i for i, (_, line) in enumerate(self.lines) if before is not None and line.node is not None
                       and (line.node.name, line.node.label) == (before.name, before.label)), 0)  # fmt: skip
        self.cursor = wanted
        self.select(wanted, tell=False)
        self.post_message(NodeSelected(self.node))

    def reveal(self, byte: int) -> None:
        """Put the cursor on the innermost field of a byte of the frame, or of the record or message that the cursor is in."""
        tree = self.frame_tree
        covering = tree.at_byte(byte, tree.home(self.node)) if tree is not None else []
        if not covering:
            return
        # The last of equal fields is the one inside; the smallest says most.
        self.reveal_node(min(reversed(covering), key=lambda node: node.bits))

    def reveal_node(self, target: Node) -> None:
        """Open the parents of a node and select it."""
        level: Sequence[TreeLine] = self.roots()
        while line := next((line for line in level if line.node is not None and any(below is target for below in line.node.walk())), None):
            if line.node is target:
                break
            if "/" in line.path:
                self.mark_open(line, True)
            else:
                self._revealed.add(line.path)
            level = self.below(line)
        self.rebuild()
        self.select(next((i for i, (_, line) in enumerate(self.lines) if line.node is target), 0), tell=False)
        self.post_message(NodeSelected(target))

    # -- lines

    def roots(self) -> list[TreeLine]:
        tree = self.frame_tree
        if tree is None:
            return []
        seconds, rest = divmod(tree.time_ns, 1_000_000_000)
        moment = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
        size = f"{tree.length} bytes" + (f", {tree.caplen} captured" if tree.snapped else "")
        where = f"  {place_text(self.members, tree.frame)}" if self.members else ""
        about = f"Frame {tree.frame}{where}  {size}  {moment}.{rest:09} UTC" + (f"  interface {tree.interface}" if tree.interface else "")
        self._marks = self._marked(tree)
        return [
            TreeLine(None, "frame", about),
            *([TreeLine(None, "malformed", f"✖ Malformed: {tree.malformed}")] if tree.malformed else []),
            *(self._line(layer, layer.label) for layer in (*tree.layers, *tree.joined)),
            *(TreeLine(None, f"finding {i}", findings=[finding]) for i, finding in enumerate(self.findings)),
        ]

    def below(self, item: TreeLine) -> list[TreeLine]:
        return [self._line(child, f"{item.path}/{child.label}") for child in item.node.children] if item.node is not None else []

    def _line(self, node: Node, path: str) -> TreeLine:
        line = TreeLine(node, path)
        shown = node.walk() if node.children and not self.is_open(line) else (node,)
        line.findings = [finding for below in shown for finding in self._marks.get(id(below), ())]
        return line

    def key(self, item: TreeLine) -> object:
        return id(item.node) if item.node is not None else item.path

    def is_open(self, item: TreeLine) -> bool:
        if "/" in item.path:
            return item.path in self.opened
        if item.node is None or item.path in self._revealed:
            return item.node is not None
        name = name_of(item.node)
        if name in self.chosen_layers:
            return self.chosen_layers[name]
        return name not in self._around or any(id(node) in self._marks for node in item.node.walk())

    def mark_open(self, item: TreeLine, wanted: bool) -> None:
        if "/" in item.path:
            (self.opened.add if wanted else self.opened.discard)(item.path)
        elif self._for_now:
            self._revealed.add(item.path)
        elif item.node is not None:
            self._revealed.discard(item.path)
            self.chosen_layers[name_of(item.node)] = wanted
            self.keep_layer(name_of(item.node), wanted)

    def action_open_all(self) -> None:
        """The whole tree of this frame."""
        self._for_now = True
        super().action_open_all()
        self._for_now = False

    def _marked(self, tree: Tree) -> dict[int, list[Finding]]:
        """Findings by the innermost node that holds their bytes."""
        marked: dict[int, list[Finding]] = {}
        for finding in self.findings:
            for node in nodes_of(finding, tree):
                marked.setdefault(id(node), []).append(finding)
        return marked

    def parts(self, index: int, width: int) -> list[Segment]:
        depth, line = self.lines[index]
        node = line.node
        if node is None:
            if line.findings:
                finding = line.findings[0]
                ink = self.ink(finding.severity.value)
                return line_of(((f" {finding.severity.sign} {finding.code} ", ink), (finding.message, None)), width)
            return line_of(((" " + line.text, self.ink("nak" if line.text.startswith("✖") else "dim")),), width)
        start = f" {'  ' * depth}{self.arrow(line)} "
        marks = [(f" {finding.severity.sign} {finding.code}", self.ink(finding.severity.value)) for finding in line.findings[:3]]
        while sum(width_of(text) for text, _ in marks) >= width:
            marks.pop()
        room = width - sum(width_of(text) for text, _ in marks) - 1
        parts: list[tuple[str, Style | None]] = []
        if depth == 0 and not node.name:
            note = layer_note(node)
            parts += [(start, self.ink("dim")), (node.label, self.ink("strong"))]
            parts.append(("  " + note if note else "", self.ink("dim")))
        else:
            known = self.knowledge(node, self.frame_tree) if self.frame_tree is not None else ""
            label = max(min(LABEL + 6, width // 2) - len(start), 8)
            parts += [
                (start, self.ink("dim")),
                (fit(node.label, label), self.ink("dim")),
                ("  " + printable(node.text), self.ink("key") if node.value is None and node.masked else None),
                (f"  {known}" if known else "", self.ink("accent")),
            ]
        segments = line_of(parts, room)
        return segments + [Segment(cut(text, width), style) for text, style in marks]

    # -- keys

    def choose(self) -> None:
        """On the same packet at another point, go there."""
        if self.node is not None and self.node.name == "frame.number":
            self.post_message(JumpTo(self.node.value))
        else:
            super().choose()

    def moved(self) -> None:
        self.post_message(NodeSelected(self.node))

    def toggle_line(self, index: int, event: events.Click) -> None:
        if event.x <= 2 * self.lines[index][0] + 2:
            super().toggle_line(index, event)

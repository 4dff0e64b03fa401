"""The decode tree of one frame: layers that open and close, fields with their values, findings where they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from rich.segment import Segment
from rich.style import Style
from textual import events

from ibdissect.dissect.tree import Node, Tree
from ibdissect.lint.finding import Finding
from ibdissect.wire.text import printable

from .ink import SHAPES, cut, fit, line_of, width_of
from .layer_note import layer_note
from .line_list import LineList
from .messages import NodeSelected

LABEL = 28
"""Cells of a field's label before its value."""


@dataclass(slots=True)
class TreeLine:
    """A line of the tree."""

    depth: int
    node: Node | None
    """None: about the frame as a whole."""
    text: str = ""
    findings: list[Finding] = field(default_factory=list)


class TreePane(LineList):
    """Shows a `Tree`; what is open stays open from frame to frame."""

    empty = "Select a frame: its headers and fields are shown here."
    BINDINGS = [("right,l", "open", "open"), ("left,h", "shut", "close"), ("asterisk", "open_all", "open all")]

    def __init__(self, knowledge: Callable[[Node, Tree], str]) -> None:
        super().__init__(id="tree")
        self.knowledge = knowledge
        self.frame_tree: Tree | None = None
        self.findings: list[Finding] = []
        self.shut: set[str] = {"ERF", "Ethernet", "Trailer", "VCRC", "ICRC", "LRH", "GRH"}
        """Paths of layers and structures that are closed."""
        self.lines: list[TreeLine] = []

    def count(self) -> int:
        return len(self.lines)

    @property
    def node(self) -> Node | None:
        """The node at the cursor."""
        return self.lines[self.cursor].node if self.cursor < len(self.lines) else None

    def show_tree(self, tree: Tree, findings: list[Finding]) -> None:
        """Show a frame; the cursor stays on the same field if the frame has it."""
        before = self.node
        self.frame_tree, self.findings = tree, findings
        self._flatten()
        self.renew()
        wanted = next((i for i, line in enumerate(self.lines) if before is not None and line.node is not None
                       and (line.node.name, line.node.label) == (before.name, before.label)), 0)  # fmt: skip
        self.cursor = wanted
        self.select(wanted, tell=False)
        self.post_message(NodeSelected(self.node))

    def reveal(self, byte: int) -> None:
        """Put the cursor on the innermost field of a byte."""
        tree = self.frame_tree
        covering = tree.at_byte(byte) if tree is not None else []
        if not covering:
            return
        # The last of equal fields is the one inside; the smallest says most.
        target = min(reversed(covering), key=lambda node: node.bits)
        for key, node in self._paths():
            if node is not target and any(below is target for below in node.walk()):
                self._open(key, node)
        self._flatten()
        self.renew()
        self.select(next((i for i, line in enumerate(self.lines) if line.node is target), 0), tell=False)
        self.post_message(NodeSelected(target))

    # -- lines

    def _flatten(self) -> None:
        tree = self.frame_tree
        self.lines = []
        if tree is None:
            return
        seconds, rest = divmod(tree.time_ns, 1_000_000_000)
        moment = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
        size = f"{tree.length} bytes" + (f", {tree.caplen} captured" if tree.snapped else "")
        about = f"Frame {tree.frame}  {size}  {moment}.{rest:09} UTC" + (f"  interface {tree.interface}" if tree.interface else "")
        self.lines.append(TreeLine(0, None, about))
        if tree.malformed:
            self.lines.append(TreeLine(0, None, f"✖ Malformed: {tree.malformed}"))
        marked = self._marked(tree)
        for layer in tree.layers:
            self._add(layer, 0, layer.label, marked)
        self.lines += [TreeLine(0, None, "", [finding]) for finding in self.findings]

    def _add(self, node: Node, depth: int, path: str, marked: dict[int, list[Finding]]) -> None:
        closed = node.children and not self._is_open(path, node)
        found = marked.get(id(node), [])
        if closed:
            found = [finding for below in node.walk() for finding in marked.get(id(below), ())]
        self.lines.append(TreeLine(depth, node, findings=found))
        if not closed:
            for child in node.children:
                self._add(child, depth + 1, f"{path}/{child.label}", marked)

    def _is_open(self, path: str, node: Node) -> bool:
        # Bits inside a field and nested structures start closed below the second level, layers open.
        if "/" in path:
            return f"+{path}" in self.shut
        return path not in self.shut and not (node.struct is not None and node.struct.__name__ in self.shut)

    def _open(self, path: str, node: Node) -> None:
        if "/" in path:
            self.shut.add(f"+{path}")
        else:
            self.shut.discard(path)
            if node.struct is not None:
                self.shut.discard(node.struct.__name__)

    def _shut(self, path: str, node: Node) -> None:
        if "/" in path:
            self.shut.discard(f"+{path}")
        else:
            self.shut.add(path)

    def _paths(self) -> list[tuple[str, Node]]:
        """Every node that has others below, with its path."""
        found: list[tuple[str, Node]] = []

        def visit(node: Node, path: str) -> None:
            if node.children:
                found.append((path, node))
            for child in node.children:
                visit(child, f"{path}/{child.label}")

        for layer in self.frame_tree.layers if self.frame_tree is not None else ():
            visit(layer, layer.label)
        return found

    def _marked(self, tree: Tree) -> dict[int, list[Finding]]:
        """Findings by the innermost node that holds their bytes."""
        marked: dict[int, list[Finding]] = {}
        for finding in self.findings:
            for span in finding.spans:
                if span.frame != tree.frame:
                    continue
                stop = span.offset + span.length
                holding = [n for n in tree.walk() if not n.in_front and n.offset <= span.offset and stop <= n.offset + n.length]
                exact = [node for node in holding if node.name == finding.field]
                for node in (exact or holding)[-1:]:
                    marked.setdefault(id(node), []).append(finding)
        return marked

    def parts(self, index: int, width: int) -> list[Segment]:
        line = self.lines[index]
        node = line.node
        if node is None:
            if line.findings:
                finding = line.findings[0]
                ink = self.ink(finding.severity.value)
                return line_of(((f" {SHAPES[finding.severity]} {finding.code} ", ink), (finding.message, None)), width)
            return line_of(((" " + line.text, self.ink("nak" if line.text.startswith("✖") else "dim")),), width)
        arrow = " "
        if node.children:
            arrow = "▾" if index + 1 < len(self.lines) and self.lines[index + 1].depth > line.depth else "▸"
        indent = " " + "  " * line.depth
        marks = [(f" {SHAPES[finding.severity]} {finding.code}", self.ink(finding.severity.value)) for finding in line.findings[:3]]
        while sum(width_of(text) for text, _ in marks) >= width:
            marks.pop()
        room = width - sum(width_of(text) for text, _ in marks) - 1
        parts: list[tuple[str, Style | None]] = []
        if line.depth == 0 and not node.name:
            note = layer_note(node)
            parts += [(f"{indent}{arrow} ", self.ink("dim")), (node.label, self.ink("strong"))]
            parts.append(("  " + note if note else "", self.ink("dim")))
        else:
            known = self.knowledge(node, self.frame_tree) if self.frame_tree is not None else ""
            start = len(indent) + 2
            label = max(min(LABEL + 2 - start + 4, width // 2 - start), 8)
            parts += [
                (f"{indent}{arrow} ", self.ink("dim")),
                (fit(node.label, label), self.ink("dim")),
                ("  " + printable(node.text), self.ink("key") if node.value is None and node.masked else None),
                (f"  {known}" if known else "", self.ink("accent")),
            ]
        segments = line_of(parts, room)
        return segments + [Segment(cut(text, width), style) for text, style in marks]

    # -- keys

    def moved(self) -> None:
        self.post_message(NodeSelected(self.node))

    def choose(self) -> None:
        self._toggle(None)

    def action_open(self) -> None:
        self._toggle(True)

    def action_shut(self) -> None:
        node = self.node
        line = self.lines[self.cursor] if self.lines else None
        if line is None:
            return
        is_open = self.cursor + 1 < len(self.lines) and self.lines[self.cursor + 1].depth > line.depth
        if node is not None and node.children and is_open:
            self._toggle(False)
            return
        above = next((i for i in range(self.cursor - 1, -1, -1) if self.lines[i].depth < line.depth), None)
        if above is not None:
            self.select(above)

    def action_open_all(self) -> None:
        for path, node in self._paths():
            self._open(path, node)
        self._again()

    def _toggle(self, wanted: bool | None) -> None:
        node = self.node
        for path, candidate in self._paths():
            if candidate is node:
                is_open = self._is_open(path, candidate)
                if wanted is None or wanted != is_open:
                    (self._shut if is_open else self._open)(path, candidate)
                    self._again()
                return

    def _again(self) -> None:
        node = self.node
        self._flatten()
        self.renew()
        self.select(next((i for i, line in enumerate(self.lines) if line.node is node), self.cursor), tell=False)

    def clicked(self, index: int, event: events.Click) -> None:
        self.select(index)
        line = self.lines[index]
        if line.node is not None and line.node.children and event.x <= 2 * line.depth + 2 and event.chain == 1:
            self._toggle(None)

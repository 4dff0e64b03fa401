"""The bytes of a frame, record or message in hex and ASCII, with the selected field's bytes and bits marked; keys are hidden."""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events

from ibdissect.dissect.tree import Node, Tree
from ibdissect.wire.text import printable

from ..messages import ByteSelected
from ..widgets.cells import cut
from ..widgets.line_list import LineList

OFFSET = 7
"""Cells of a line in front of its first byte."""


class BytesPane(LineList):
    """Lines of 4, 8 or 16 bytes; the cursor is a byte, its line the line of the list."""

    empty = "Select a frame: its bytes are shown here."
    bar = False
    BINDINGS = [("left", "byte(-1)", "byte before"), ("right", "byte(1)", "next byte")]

    def __init__(self) -> None:
        super().__init__(id="bytes")
        self.data = b""
        self.hidden: frozenset[int] = frozenset()
        """Bytes that belong to a masked key."""
        self.byte = 0
        self.span = (0, 0)
        """First byte of the selected field, and the byte after it."""
        self.bits = (0, 0)
        """The same in bits from the start of the frame."""
        self.found: tuple[int, int] | None = None
        """Bytes that a search found in the frame, to mark with the next field."""
        self.per_line = 8
        self.frame_tree: Tree | None = None
        self.home: Node | None = None
        """The record or message whose bytes are shown; None: the frame's."""

    def count(self) -> int:
        return -(-len(self.data) // self.per_line)

    def show_tree(self, tree: Tree) -> None:
        self.frame_tree = tree
        self._show(None)

    def _show(self, home: Node | None) -> None:
        """Show the bytes of a record or message, or those of the frame."""
        tree, self.home = self.frame_tree, home
        assert tree is not None
        self.data, secret = tree.data if home is None else home.raw, tree.hidden(home)
        self.hidden = frozenset(byte for start, stop in secret for byte in range(start, min(stop, len(self.data))))
        self.byte = min(self.byte, max(len(self.data) - 1, 0))
        self._fold()

    def show_node(self, node: Node | None) -> None:
        """Mark the bytes and bits of a field."""
        home = self.frame_tree.home(node) if self.frame_tree is not None else None
        if home is not self.home:
            self._show(home)
        if node is None or node.in_front or not node.length:
            self.span = self.bits = (0, 0)
        else:
            self.span = (node.offset, node.offset + node.length)
            first = node.offset * 8 + node.bit
            self.bits = (first, first + node.bits)
            if not self.span[0] <= self.byte < self.span[1]:
                self.byte = node.offset
        if self.found is not None:
            self.span, self.byte = self.found, self.found[0]
            self.bits = self.span[0] * 8, self.span[1] * 8
            self.found = None
        self._marked()

    def _marked(self) -> None:
        self.generation += 1
        self._strips.clear()
        if self.data:
            self.select(self.byte // self.per_line, tell=False)
        self.refresh()

    def on_resize(self, _: events.Resize) -> None:
        self._fold()

    def _fold(self) -> None:
        """Show as many bytes per line as fit."""
        width = self.line_width
        # n bytes need OFFSET + 3n, a space every 8, 2 in front of the ASCII and n for it
        self.per_line = next((n for n in (16, 8) if OFFSET + 4 * n + n // 8 + 2 <= width), 4)
        self.renew()
        self._marked()

    def parts(self, index: int, width: int) -> list[Segment]:
        start = index * self.per_line
        row = range(start, start + self.per_line)
        segments = [Segment(f" {start:04x}  ", self.ink("dim"))]
        text: list[Segment] = []
        for byte in row:
            if byte - start and (byte - start) % 8 == 0:
                segments.append(Segment(" "))
            if byte >= len(self.data):
                segments.append(Segment("   "))
                continue
            value = self.data[byte]
            digits = "**" if byte in self.hidden else f"{value:02x}"
            high, low = self._ink(byte * 8, 4), self._ink(byte * 8 + 4, 4)
            char = "*" if byte in self.hidden else chr(value) if 0x20 <= value < 0x7F else "·"
            both = self._ink(byte * 8, 8)
            if byte == self.byte and self.has_focus:
                here, bits = self.ink("cursor") + Style(bold=True, underline=True), self.ink("bits")
                high, low = (bits + Style(underline=True) if ink == bits else here for ink in (high, low))
                both = here
            segments += [Segment(digits[0], high), Segment(digits[1], low)]
            # The space between two bytes of one field belongs to it.
            inside = self.span[0] <= byte and byte + 1 < self.span[1] and byte + 1 in row and (byte + 1 - start) % 8
            segments.append(Segment(" ", self.ink("span") if inside else None))
            text.append(Segment(char, both if both is not None else self.ink("dim") if char == "·" else None))
        return [*segments, Segment(" "), *text]

    def _ink(self, bit: int, bits: int) -> Style | None:
        """The style of a few bits: `bits` if the selected field has any of them, `span` if only its bytes include them."""
        if not self.span[0] <= bit // 8 < self.span[1]:
            return None
        part_of_byte = self.bits[0] % 8 or self.bits[1] % 8
        if part_of_byte and bit < self.bits[1] and self.bits[0] < bit + bits:
            return self.ink("bits")
        return self.ink("span")

    def bit_line(self, width: int) -> Text:
        """The selected field's bytes in binary with its own bits marked. For whole bytes: their record or message, if any."""
        first, stop = self.bits
        if not stop or (first % 8 == 0 and stop % 8 == 0) or stop > len(self.data) * 8:
            return Text(cut(f" {self.home.label}  {printable(self.home.text)}", width)) if self.home is not None else Text()
        begin, end = first // 8, -(-stop // 8)
        parts: list[tuple[str, Style | None]] = [(f" {begin:04x}  ", self.ink("dim"))]
        for byte in range(begin, min(end, begin + max((width - 20) // 9, 1))):
            for bit in range(8):
                at = byte * 8 + bit
                inside = first <= at < stop
                digit = "*" if byte in self.hidden else str(self.data[byte] >> (7 - bit) & 1)
                parts.append((digit, self.ink("bits") if inside else self.ink("dim")))
            parts.append((" ", None))
        count = stop - first
        where = f"bit {first % 8}" if count == 1 else f"bits {first % 8}-{(stop - 1) % 8}" if end - begin == 1 else f"{count} bits"
        parts.append((f" {where}", self.ink("dim")))
        return Text.assemble(*[(cut(text, width), style or "") for text, style in parts])

    # -- the cursor

    def action_byte(self, step: int) -> None:
        self._go(self.byte + step)

    def action_move(self, step: int) -> None:
        self._go(self.byte + step * self.per_line)

    def action_page(self, step: int) -> None:
        self._go(self.byte + step * self.per_line * max(self.page_size - 1, 1))

    def action_edge(self, last: int) -> None:
        self._go(len(self.data) - 1 if last else 0)

    def _go(self, byte: int) -> None:
        if self.data:
            self.byte = max(0, min(byte, len(self.data) - 1))
            self.post_message(ByteSelected(self.byte))

    def clicked(self, index: int, event: events.Click) -> None:
        place = self._column(int(event.x))
        if place is not None:
            self._go(index * self.per_line + place)

    def _column(self, x: int) -> int | None:
        """The place in its line of the byte at a cell; None between bytes."""
        groups = self.per_line // 8
        text = OFFSET + 3 * self.per_line + max(groups - 1, 0) + 1
        if x >= text:
            return x - text if x - text < self.per_line else None
        for place in range(self.per_line):
            begin = OFFSET - 1 + 3 * place + place // 8
            if begin <= x < begin + 3:
                return place
        return None

    def on_focus(self) -> None:
        self._marked()

    def on_blur(self) -> None:
        self._marked()

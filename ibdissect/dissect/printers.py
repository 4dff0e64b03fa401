"""Printers of the tree: as 32-bit words with field names (`dump`), or as dotted lines; the outline is in `tree`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from ibdissect.wire.text import Paint, number_text, plain

from .shown_value import mask_hex
from .tree import COLUMN, Node, Tree, printed


def dump(tree: Tree, paint: Paint = plain) -> str:
    """Per layer: byte offset, 32-bit word, and the fields that start in it."""
    return printed(tree, paint, lambda layer: chain([paint(layer.label, "layer")], _words(tree, layer.children)))


def _words(tree: Tree, nodes: list[Node]) -> Iterator[str]:
    """The words of a list of fields; nested structures get their own heading."""
    row: list[Node] = []
    start = nodes[0].offset if nodes else 0
    for node in nodes:
        inside = bool(node.children) and (node.value is None or node.struct is not None or not _is_mask(node))
        if row and (inside or node.offset >= start + 4):
            yield from _word_lines(tree, start, row)
            row = []
        if inside:
            yield f"+ {node.label} {node.text}".rstrip()
            yield from _words(tree, node.children)
            yield from _remainder(tree, node)
            continue
        if not row:
            start = node.offset
        row.append(node)
    if row:
        yield from _word_lines(tree, start, row)


def _remainder(tree: Tree, node: Node) -> Iterator[str]:
    """The bytes of a raw field after the structure that explains its start."""
    reached = max(child.offset + child.length for child in node.children)
    if reached < node.offset + node.length:
        rest = _digits(tree, node.in_front, reached, node.offset + node.length)
        yield from (f"{reached + i // 2:5d} {rest[i : i + 8].upper()}" for i in range(0, len(rest), 8))


def _is_mask(node: Node) -> bool:
    """Whether the children are parts of the node's own bits."""
    return all(child.field is not None and child.field.part_of is not None for child in node.children)


def _word_lines(tree: Tree, start: int, row: list[Node]) -> Iterator[str]:
    stop = max(node.offset + node.length for node in row)
    names = ",".join(f"{_name(node)}={_bare(node)}" for node in row)
    digits = _digits(tree, row[0].in_front, start, stop)
    for at in range(start, max(stop, start + 1), 4):
        word = digits[2 * (at - start) : 2 * (at - start) + 8]
        yield f"{at:5d} {word.upper():<8} {names if at == start else ''}".rstrip()


def _digits(tree: Tree, in_front: bool, start: int, stop: int) -> str:
    """Bytes of the frame (or of its ERF header) as hex, with keys masked."""
    if in_front:
        data = next(layer.raw for layer in tree.layers if layer.in_front)[start:stop]
        return data.hex()
    data = tree.data[start:stop]
    spans = tuple((max(low - start, 0), high - start) for low, high in tree.secret_bytes if low < stop and high > start)
    return mask_hex(data.hex(), data, spans)


def dotted(tree: Tree, paint: Paint = plain) -> str:
    """One field per line, name and value separated by dots."""
    return printed(tree, paint, lambda layer: chain([paint(layer.label, "layer")], *(_dotted(node, "") for node in layer.children)))


def _dotted(node: Node, prefix: str) -> Iterator[str]:
    name = prefix + _name(node)
    if node.children and node.value is None and (node.field is None or not node.field.secret):
        for child in node.children:
            yield from _dotted(child, name + ".")
        return
    yield f"{name + '.':.<{COLUMN}}{_bare(node)}"
    for child in node.children:
        yield from _dotted(child, name + ".")


def _name(node: Node) -> str:
    """The field's Python name, with the index of a repeated one; of a structure in a list its title."""
    if node.field is None:
        return node.label.replace(" ", "")
    _, bracket, index = node.label.rpartition("[") if node.field.count > 1 else ("", "", "")
    return node.field.name + bracket + index


def _bare(node: Node) -> str:
    """The value without explanation."""
    if node.value is None or isinstance(node.value, str):
        return node.text
    if isinstance(node.value, bool):
        return str(int(node.value))
    assert node.field is not None
    return number_text(node.field, node.value)

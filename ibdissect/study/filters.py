"""Which display filter selects frames with the value of a field?"""

from __future__ import annotations

from ibdissect.dissect.tree import Node
from ibdissect.dissect.walk import LEFT_OVER
from ibdissect.wire.catalog import builtin
from ibdissect.wire.headers import Payload


def _beside_bytes(node: Node) -> bool:
    """Whether reserved bits share their name with reserved bytes of their structure: to these no number is compared."""
    owner = node.field.owner if node.field is not None else None
    return owner is not None and any(field.kind == "pad" and field.bits > 64 for field in owner.fields)


def as_filter(node: Node | None) -> str | None:
    """The filter for a field and its value; None for a node without a name or with a masked value."""
    if node is None or not node.name:
        return None
    value, name = node.value, node.name
    if value is None:
        return None if node.masked or node.field is None or node.field.kind != "nested" else name
    kind = node.field.kind if node.field is not None else ""
    if isinstance(value, bool):
        return f"{name} == {int(value)}"
    if isinstance(value, int):
        if kind == "pad" and _beside_bytes(node):
            return f"frame[{node.offset}:{len(node.raw)}] == {node.raw.hex(':')}"
        if node.bits > 64:
            return name  # filters compare numbers of up to 64 bits
        if any(field.secret for field in builtin().names.get(name, ())):
            return name  # another structure has a key under this name (KEY of traps 257 and 258), which may not be compared
        wide = node.field is not None and node.field.base in ("hex", "guid")
        return f"{name} == {f'0x{value:0{(node.bits + 3) // 4}x}' if wide else value}"
    if kind in ("gid", "mac", "ip4"):
        return f"{name} == {value}"
    if kind == "text":
        escaped = str(value).replace("\\", "\\\\").replace('"', '\\"')
        # A replacement character stands for bytes that are not UTF-8: no string equals them.
        return f'{name} == "{escaped}"' if str(value).isprintable() and "\ufffd" not in str(value) else name
    raw = str(value)
    left_over = node.field is not None and node.field.owner in LEFT_OVER and node.field.owner is not Payload
    if not raw:
        return None if left_over else name
    if node.field is not None and node.field.secret and not raw.strip("0"):
        return f"{name} == {':'.join(['00'] * (len(raw) // 2))}"  # all that a filter may ask of a hidden key
    # Undeclared bytes have a name for display, but none for filters.
    place, start = ("frame", node.offset) if left_over else (name, 0)
    count = min(len(raw) // 2, 16)
    return f"{place}[{start}:{count}] == {':'.join(raw[i : i + 2] for i in range(0, 2 * count, 2))}"

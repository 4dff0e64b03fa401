"""Display filters for frames with the value of a field."""

from __future__ import annotations

import re

from ibdissect.dissect.tree import Node, Tree
from ibdissect.dissect.walk import LEFT_OVER
from ibdissect.wire.catalog import builtin
from ibdissect.wire.headers import Payload

from .capture_model import PacketLine
from .packet_columns import ListColumn

MEANT = {
    "nak": (("infiniband.aeth.syndrome.opcode == 3", "NAK: refused, or a PSN is missing"),),
    "rnr": (("infiniband.aeth.syndrome.opcode == 1", "RNR NAK: no receive buffer"),),
    "lid": (("infiniband.lrh.slid", "LID it was sent from"), ("infiniband.lrh.dlid", "LID it was sent to")),
}
"""Words of the trade that no field has as its name, and filters for what is meant."""
_WORD = re.compile(r"(?<![\w.\"])([a-z]+)\Z", re.IGNORECASE)
_CODE_AS_NAME = re.compile(r'ibdissect\.rule\s*(?:==|contains)\s*"([A-Z]{2,4}\d{3})"')
_OF_A_LID = re.compile(r"(?<![\w.\"])lid\s*==\s*(\w+)\Z", re.IGNORECASE)


def meant(before: str) -> list[tuple[int, str, str]]:
    """Filters for what was typed in front of the cursor in words of the trade: where they begin, their text, and what they say."""
    if (either := _OF_A_LID.search(before)) is not None:
        value = either[1]
        return [(either.start(), f"(infiniband.lrh.slid == {value} or infiniband.lrh.dlid == {value})", "sent from or to this LID")]
    word = _WORD.search(before)
    return [(word.start(), *one) for one in MEANT.get(word[1].lower(), ())] if word is not None else []


def doubted(text: str) -> str:
    """Why a valid filter finds less than one sees on the screen; empty if there is no such reason."""
    if "[repeated" in text.casefold():
        return "the mark [repeated PSN] is no part of Info: packets of messages that were sent again have ibdissect.message.retries > 0"
    code = _CODE_AS_NAME.search(text)
    return f'{code[1]} is the code of a rule, not its name: ibdissect.code == "{code[1]}"' if code is not None else ""


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


def combined(now: str, text: str, how: str) -> str:
    """A filter with another condition: `and`, `or`, `and not` to what there is, or `not` instead of it."""
    plain = re.fullmatch(r'[\w.:\[\]]+( == ([^\s"()]+|"[^"]*"))?', text)
    one = text if plain and not how.endswith("not") else f"({text})"
    if how == "not" or not now:
        return f"not {one}" if how.endswith("not") else text
    return f"({now}) {how} {one}"


def quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def cell_filter(line: PacketLine, column: ListColumn, tree: Tree | None, nodes: tuple[str, str] = ("", "")) -> str | None:
    """The filter for what stands in a column of the list; None if no filter says it. `nodes`: names of sender and receiver, if shown."""
    key = column.key
    if column.field:
        node = next((node for node in tree.walk(joined=True) if node.name == column.field), None) if tree is not None else None
        return as_filter(node)
    if key == "p_key":
        return f"infiniband.bth.p_key == 0x{line.p_key:04x}" if line.p_key is not None else None
    if key in ("source", "destination"):
        name = nodes[key == "destination"]
        field = "ibdissect.src.node" if key == "source" else "ibdissect.dst.node"
        return f"{field} == {quoted(name)}" if name else f"_ws.col.{key} == {quoted(getattr(line, key))}"
    if key in ("protocol", "info"):
        return f"_ws.col.{key} == {quoted(getattr(line, key))}"
    return f"frame.len == {line.length}" if key == "length" else f"frame.number == {line.frame}"

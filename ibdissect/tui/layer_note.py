"""What does a layer say in a few words, beside its name?"""

from __future__ import annotations

from ibdissect.dissect.tree import Node
from ibdissect.wire.text import printable

NOTES: dict[str, str] = {
    "LRH": "LID {slid} → LID {dlid}  VL {vl}  SL {sl}",
    "GRH": "{sgid} → {dgid}",
    "BTH": "{opcode}  QP {destqp}  PSN {psn}",
    "DETH": "Q_Key {q_key}  from QP {srcqp}",
    "RETH": "VA {va}  R_Key {r_key}  length {dmalen}",
    "AETH": "{syndrome}  MSN {msn}",
    "Ethernet": "{source} → {destination}",
    "IPv4": "{source} → {destination}",
    "IPv6": "{source} → {destination}",
    "UDP": "{source_port} → {destination_port}",
    "MAD": "{mgmt_class}  {method}",
}
"""By class of the structure; placeholders are attribute names of its fields."""


def layer_note(node: Node) -> str:
    """The note of a layer; empty where there is nothing short to say."""
    struct = node.struct
    template = NOTES.get(struct.__name__) if struct is not None else None
    if struct is None or template is None:
        return ""
    texts: dict[str, str] = {}
    for child in node.walk():
        if child.field is not None and child.field.name not in texts:
            texts[child.field.name] = printable(child.text)
    try:
        return template.format_map(texts)
    except KeyError:
        return ""

"""The words of plugins, imported from one place by authors of dissectors and rules. docs/plugin-words.md explains them.

The modules that define them are part of the interface, too.
"""

from ibdissect.lint.rule import (
    ERROR,
    INFO,
    WARNING,
    Hit,
    Moment,
    Rule,
    Seen,
    fault,
    on_chunk,
    on_end,
    on_event,
    on_struct,
)
from ibdissect.lint.sequence import previous, unless, within
from ibdissect.lint.setting import Setting
from ibdissect.wire.column import column
from ibdissect.wire.dialogue import VendorClass, answer, note, summary
from ibdissect.wire.expr import present
from ibdissect.wire.kept import kept
from ibdissect.wire.places import (
    Behind,
    CmPayload,
    CmService,
    CmWrite,
    DestQP,
    Ethertype,
    Inside,
    Mad,
    MadFormat,
    Parsed,
    QKey,
    Stream,
    TcpData,
    TcpPort,
    UdpPort,
    VendorOui,
)
from ibdissect.wire.spec import (
    Struct,
    array,
    bit,
    enum,
    flag,
    gid,
    guid,
    hole,
    ip4,
    lid,
    mac,
    nested,
    pad,
    part,
    pkey,
    qpn,
    raw,
    rest,
    secret,
    text,
    uint,
)
from ibdissect.wire.tail import case, choice, optional, repeat, text_until

__all__ = [
    "ERROR", "INFO", "WARNING", "Behind", "CmPayload", "CmService", "CmWrite", "DestQP", "Ethertype", "Hit", "Inside", "Mad", "MadFormat",
    "Moment", "Parsed", "QKey", "Rule", "Seen", "Setting", "Stream", "Struct", "TcpData", "TcpPort", "UdpPort", "VendorClass", "VendorOui",
    "answer", "array", "bit", "case", "choice", "column", "enum", "fault", "flag", "gid", "guid", "hole", "ip4", "kept", "lid", "mac",
    "nested", "note", "on_chunk", "on_end", "on_event", "on_struct", "optional", "pad", "part", "pkey", "present", "previous", "qpn", "raw",
    "repeat", "rest", "secret", "summary", "text", "text_until", "uint", "unless", "within",
]  # fmt: skip

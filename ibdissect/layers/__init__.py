"""Scapy packet classes of the structures: `from ibdissect.layers import LRH, BTH`; the import binds them in Scapy."""

from __future__ import annotations

import sys
import warnings

import scapy.config
from scapy.layers.inet import UDP
from scapy.layers.l2 import CookedLinux, CookedLinuxV2, Dot1AD, Dot1Q, Ether
from scapy.packet import Packet, bind_bottom_up, bind_layers, split_layers

from ibdissect.wire import encapsulation

from .component_mask import component_mask, sa_query
from .derive import Layer, layer
from .erf import ERF
from .inner import IPoIB
from .link import GRH, LRH, RWH, FlowControl
from .mad import MAD, MadLayer
from .plugin import from_scapy
from .registry import catalog, register, use_catalog
from .transport import BTH, DETH, RETH

for _below, _key in ((Ether, "type"), (Dot1Q, "type"), (CookedLinux, "proto"), (CookedLinuxV2, "proto")):
    bind_layers(_below, GRH, **{_key: encapsulation.ETHERTYPE_ROCE})
    for _tag in encapsulation.ETHERTYPES_VLAN:  # Scapy lacks 0x9100, and 0x88a8 behind cooked headers
        bind_bottom_up(_below, Dot1AD if _tag == encapsulation.ETHERTYPE_8021AD else Dot1Q, **{_key: _tag})
_first = [upper for fields, upper in UDP.payload_guess if fields == {"dport": encapsulation.ROCE_PORT}]
for _other in _first:  # scapy.contrib.roce was imported first: Scapy takes the first class that was bound
    split_layers(UDP, _other, dport=encapsulation.ROCE_PORT)
    _said = f"UDP port {encapsulation.ROCE_PORT} is ibdissect.layers.BTH from now on, not {_other.__module__}.BTH (back: docs/plugins.md)"
    warnings.warn(_said, stacklevel=2)
bind_layers(UDP, BTH, dport=encapsulation.ROCE_PORT)
vars(scapy.config)["ibdissect"] = sys.modules["ibdissect"]  # `explore()` evaluates the names of all modules with layers there


def __getattr__(name: str) -> type[Packet]:
    """The layer of the structure with this class name (for Ethernet, IP and UDP use Scapy's own)."""
    for struct in catalog().structs:
        if struct.__name__ == name and struct.__module__ != encapsulation.__name__ and struct not in catalog().tail_parts:
            return layer(struct)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *(struct.__name__ for struct in catalog().structs if struct.__module__ != encapsulation.__name__)})


__all__ = [
    "BTH", "DETH", "ERF", "GRH", "LRH", "MAD", "RETH", "RWH", "FlowControl", "IPoIB", "Layer", "MadLayer",
    "component_mask", "from_scapy", "layer", "register", "sa_query", "use_catalog",
]  # fmt: skip

_SCAPYS = {"ICMP", "Neighbor", "TCP"}
_declared = {struct.__name__ for struct in catalog().structs if struct.__module__ != encapsulation.__name__}
globals()["__all__"] = sorted({*__all__, *_declared} - _SCAPYS)  # `import *` does not replace classes of scapy.all

if scapy.config.conf.interactive:  # in Scapy's shell `ls("portinfo")` and `explore()` find classes that nobody has asked for yet
    for _struct in catalog().structs:
        layer(_struct)

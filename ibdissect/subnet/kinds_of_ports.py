"""Which kinds of port a port may be, by its number, its LID, and what NodeInfo said of its node."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ibdissect.decode import Int
from ibdissect.wire import numbers
from ibdissect.wire.port_kinds import ADAPTER_PORT, ALL_PORTS, EXTERNAL_PORT, PORT_ZERO, ROUTER_PORT

from .nodes import CA, ROUTER, SWITCH
from .smps import PlacedSmps
from .vantage import AGES_NS, CONFIGURED_NS

PORTS_OF_ADAPTERS = 4
"""Adapters with more ports are not known. An external port of a switch may show anything as its LID."""


def kinds_of_ports(kind: Int, number: Int, has_lid: npt.NDArray[np.bool_]) -> Int:
    """The kinds of port (`wire.port_kinds`) that ports with these numbers, of nodes with these NodeTypes (0: unknown; below 0: another node
    may be there by now), may be; int64[n].

    Number 0 may be a switch's own port, a numbered port without a LID, or with a number that adapters seldom have, an external one.
    """
    zero = number == 0
    numbered = np.where(has_lid & (number <= PORTS_OF_ADAPTERS), ADAPTER_PORT | ROUTER_PORT, ALL_PORTS & ~PORT_ZERO)
    unknown = np.where(zero, ALL_PORTS & ~EXTERNAL_PORT, numbered)
    switch = np.where(zero, PORT_ZERO, EXTERNAL_PORT)
    was = np.abs(kind)
    found = np.select([was == CA, was == ROUTER, was == SWITCH], [ADAPTER_PORT, ROUTER_PORT, switch], unknown)
    return np.where(kind < 0, found | unknown, found)


def kinds_by_then(smps: PlacedSmps) -> Int:
    """NodeType of the node of each SMP; 0 if unknown; below 0 where NodeInfo is so old that another node may have its LID, or be at the end
    of its route."""
    holds = smps.age <= np.where(smps.directed, CONFIGURED_NS, AGES_NS)
    return np.where(holds, smps.kind, -smps.kind).astype(np.int64, copy=False)


def is_lid(value: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Which numbers a port may have as its LID, bool[n]; what else it shows is none."""
    return (value > 0) & (value <= numbers.LAST_UNICAST)

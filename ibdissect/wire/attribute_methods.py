"""Methods of each attribute, and attributes that take no modifier. One table for all classes of the standard.

IBA 13.4.8, 14.2.5, 15.2.5, 16; python-rdma's MAD classes; kernel and libibmad where they agree. Requests only: an answer repeats its
request. What the table does not list is not judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct as Record

from .numbers import (
    BM_CLASS,
    CC_CLASS,
    CLASS_PORT_INFO,
    CM_CLASS,
    DELETE,
    DIRECTED,
    DM_CLASS,
    GET,
    GET_MULTI,
    GET_TABLE,
    GET_TRACE,
    INFORM,
    LID_ROUTED,
    NOTICE,
    PM_CLASS,
    PORT_INFO_RECORD,
    REPORT,
    SA_CLASS,
    SEND,
    SET,
    SNMP_CLASS,
    TRAP,
    TRAP_REPRESS,
)


class Requests(Record, frozen=True):
    """How an attribute may be requested."""

    methods: frozenset[int]
    no_modifier: bool = False
    """Whether the attribute modifier must be 0."""


READ, WRITTEN = frozenset({GET}), frozenset({GET, SET})
LOOKED_UP = frozenset({GET, GET_TABLE})
KEPT = frozenset({GET, GET_TABLE, SET, DELETE})
"""Records of the SA that are read by Get and GetTable; those that clients may also write and delete."""
NOTICES = frozenset({GET, SET, TRAP, TRAP_REPRESS})


def _all(methods: frozenset[int], attributes: Iterable[int], *, no_modifier: bool = False) -> dict[int, Requests]:
    return dict.fromkeys(attributes, Requests(methods, no_modifier))


_SM = {
    **_all(NOTICES, [NOTICE]), **_all(WRITTEN, [0x10, 0x12, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1A, 0x1B, 0x20, 0x31]),
    **_all(READ, [0x11, 0x1C, 0x1D, 0x30]),
}  # fmt: skip
"""Set(NodeDescription) needs CapabilityMask2 bit 0 of the port."""
_COMMON = _all(WRITTEN, [CLASS_PORT_INFO], no_modifier=True)
REQUESTS: Mapping[int, Mapping[int, Requests]] = {
    LID_ROUTED: _SM, DIRECTED: _SM,
    SA_CLASS: {
        **_COMMON, **_all(frozenset({GET, SET, REPORT}), [NOTICE], no_modifier=True), **_all(frozenset({SET}), [INFORM], no_modifier=True),
        **_all(LOOKED_UP, [0x11, *range(0x13, 0x1A), 0x20, 0x33, 0x35, 0x36, 0x3B, 0x3C, 0x3D, 0x3E, 0xF3], no_modifier=True),
        **_all(LOOKED_UP, [PORT_INFO_RECORD]), **_all(KEPT, [0x30, 0x31, 0x38], no_modifier=True),
        **_all(frozenset({GET_TRACE}), [0x39], no_modifier=True), **_all(frozenset({GET_MULTI, GET_TRACE}), [0x3A], no_modifier=True),
    },
    PM_CLASS: {**_COMMON, **_all(WRITTEN, [0x10, 0x12, *range(0x15, 0x20), *range(0x30, 0x38)]), **_all(READ, [0x11])},
    BM_CLASS: {**_COMMON, **_all(NOTICES, [NOTICE], no_modifier=True), **_all(WRITTEN, [0x10], no_modifier=True),
               **_all(frozenset({SEND}), range(0x20, 0x30))},
    DM_CLASS: {**_COMMON, **_all(NOTICES, [NOTICE], no_modifier=True), **_all(READ, [0x10], no_modifier=True),
               **_all(READ, [0x11, 0x12, 0x20, 0x24]), **_all(WRITTEN, [0x21]), **_all(frozenset({SET}), [0x22, 0x23])},
    CM_CLASS: {**_COMMON, **_all(frozenset({SEND}), range(0x10, 0x1D), no_modifier=True)},
    SNMP_CLASS: {**_COMMON, **_all(frozenset({SEND}), [0x10, 0x11], no_modifier=True)},
    CC_CLASS: {**_COMMON, **_all(NOTICES, [NOTICE], no_modifier=True), **_all(READ, [0x11, 0x13, 0x18], no_modifier=True),
               **_all(WRITTEN, [0x12, 0x14, 0x16], no_modifier=True), **_all(WRITTEN, [0x15, 0x17])},
}  # fmt: skip
"""By class and attribute. Modifiers of subnet management have rules of their own, those of counters are looked up in AM031."""

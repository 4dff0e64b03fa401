"""Numbers of the standards, written down once more, so that tests do not trust those of the package."""

from __future__ import annotations

LINK_NULL, LINK_ETHERNET, LINK_PPP, LINK_LOOP, LINK_SLL = 0, 1, 9, 108, 113
LINK_ERF, LINK_IPOIB, LINK_INFINIBAND, LINK_SLL2 = 197, 242, 247, 276
LINKS_RAW_IP = 12, 14, 101, 228, 229
"""Link types of capture files."""
CA, SWITCH, ROUTER = 1, 2, 3
DOWN, ACTIVE = 1, 4
"""States of a port."""
GET, SET, TRAP, TRAP_REPRESS = 0x01, 0x02, 0x05, 0x07
CM_CLASS = 0x07
NODE_INFO, SWITCH_INFO, PORT_INFO, P_KEY_TABLE, SL_TO_VL, LINEAR = 0x11, 0x12, 0x15, 0x16, 0x17, 0x19
DATA, ACK, STOP, ABORT = 1, 2, 3, 4
LAST_SEGMENT = 4
"""Kinds of RMPP messages, and a flag."""
FULL, BASE = 0x8000, 0x7FFF
"""Of a P_Key: the bit of full members, and the others."""
FIRST_MULTICAST = 0xC000
RC, UC, RD, XRC = 0x00, 0x20, 0x40, 0xA0
"""The first OpCodes of services."""
SECOND_NS = 1_000_000_000

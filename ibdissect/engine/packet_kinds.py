"""Kinds of packets that the engine tells apart: the numbers of `common.pxd`, for the interpreter."""

from ibdissect.wire.headers import PSNS as PSNS
from ibdissect.wire.opcodes import ACKNOWLEDGE as ACKNOWLEDGE
from ibdissect.wire.opcodes import COMPARE_SWAP as COMPARE_SWAP
from ibdissect.wire.opcodes import FETCH_ADD as FETCH_ADD
from ibdissect.wire.opcodes import READ_FIRST as READ_FIRST
from ibdissect.wire.opcodes import READ_LAST as READ_LAST
from ibdissect.wire.opcodes import READ_MIDDLE as READ_MIDDLE
from ibdissect.wire.opcodes import READ_ONLY as READ_ONLY
from ibdissect.wire.opcodes import READ_REQUEST as READ_REQUEST
from ibdissect.wire.opcodes import SEND_FIRST as SEND_FIRST
from ibdissect.wire.opcodes import SEND_MIDDLE as SEND_MIDDLE
from ibdissect.wire.opcodes import WRITE_FIRST as WRITE_FIRST
from ibdissect.wire.opcodes import WRITE_MIDDLE as WRITE_MIDDLE

NOTHING, REQUEST, ANSWER, CNP, OTHER = range(5)
"""None of InfiniBand; sent by a requester; by a responder; a congestion notification; of another service."""
NATIVE, ROCE1, ROCE2 = 1, 2, 3
"""What carries a packet: an LRH, Ethernet with a GRH, UDP."""
IDLE, TRANSFERRING, BUSY, RECOVERY, WAITING = range(5)
"""After a packet: all is acknowledged; a message is half sent; something is under way; a loss is made good; a receive queue was empty."""
UNKNOWN_SPAN = 1 << 20
"""PSNs that a READ takes whose length is cut off."""
RING = 32
"""Positions of which the last packet is remembered, to know repetitions from other messages."""
OF_REQUEST = 3
"""Numbers of each: position, content, frame."""
PAUSE_NS = 5_000_000
"""A pause of the application that counts as an episode."""
SOON_NS = 400_000
"""No transport timer is shorter: a repetition that comes sooner was asked for by a packet that the capture does not show."""
ANEW_NS = 1_000_000
"""A queue pair that is silent for a shorter time was not made again: that takes several calls of both hosts, and a message between them."""
APART_NS = 1_000_000_000
"""A path that took no packet for so long may not have worked."""
GROUP_NS = 50_000
"""Marks of congestion that are nearer together are answered by one CNP at most."""
MAX_WAITING = 4096
"""Unacknowledged packets that are remembered, for each direction."""
MAX_PAUSES = 64
"""Pauses whose times are remembered, for each direction."""
OPEN_VALUES = 8
"""Numbers that are kept of each."""
FIND_PLACE, HANDLE_REQUEST, HANDLE_ANSWER, HANDLE_TRAP = range(4)
"""What is done with an SMP: its port is found, and a request, an answer or a trap may be processed."""
ROWS = 1 << 17
"""Most records of a window."""
AFTER_ALL = 1 << 40
"""A frame after all others."""

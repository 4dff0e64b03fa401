"""Which packets did the network between two capture points lose, double, change or damage?"""

from __future__ import annotations

from ibdissect.lint.rule import ERROR, WARNING
from ibdissect.lint.sightings import PointRule, Sighting
from ibdissect.table import crcs
from ibdissect.table.table import ChunkTable


class LostBetweenPoints(PointRule):
    """A packet that one point has never reached the next one.

    The network between the two points dropped it. The frame is that of the last point that has it. That a file lacks a packet does
    not suffice: the point behind is known to miss none, two later points lack it, or the receiver asked for this packet with a NAK.
    A loss that is most likely, but not proved, is an info.

    Look at the counters of switches and links between both points: PortXmitDiscards tell of congestion or a wrong virtual lane,
    PortRcvErrors of cables, PortXmitConstraintErrors of partitions. Record at a third point between them.
    """

    code, name, severity = "PTS001", "lost-between-points", ERROR
    reference = "IBA 9.7.5.2 (NAK), 18.2.5 (switches discard packets)"
    message = "lost between {after} and {before}: {proof}"
    example = "captures of two points, the second of which lacks a packet that its receiver asks for with a NAK"


class DuplicatedBetweenPoints(PointRule):
    """The network delivered a packet twice.

    A point that misses nothing has it once, and points behind it have it twice. No switch may do that: a receiver of datagrams
    takes both, and duplicates of connected traffic cost it time. It is an info where one point only has it twice, as that point's
    mirror may have doubled it.

    Look for loops and for mirrors that feed their copies back into the network between both points.
    """

    code, name, severity = "PTS002", "duplicated-between-points", WARNING
    reference = "IBA 18.2.4 (a switch forwards a unicast packet to one port)"
    message = "passed {before} once and {point} twice"
    example = "captures of three points, of which the first has a packet once and the others have it twice"


class ChangedBetweenPoints(PointRule):
    """The P_Key, the service level, an address or the payload of a packet changed on the way.

    Nothing between two points of a subnet may change these: they are covered by the ICRC. Two captures that show the same packet
    with different values name the part of the network that rewrites it. It is an info where only the payload differs, as two
    packets with the same PSN could be taken for one.

    Look for a gateway, a middlebox or a faulty switch between both points. The receiver drops such a packet, unless the ICRC
    was computed again.
    """

    code, name, severity = "PTS003", "changed-between-points", ERROR
    reference = "IBA 7.8.1 (what the ICRC covers), 9.6.1"
    message = "{what} changed between {before} and {point}"
    example = "captures of two points that show a packet with different P_Keys"


class DamagedBetweenPoints(PointRule):
    """A packet's payload changed between two points, and its ICRC is wrong behind them.

    Link errors would show in the VCRC or the Ethernet checksum, and the port would have dropped the packet. So a device between both
    points damaged it in its memory and sent it on with new link checksums. The receiver drops it, and the sender sends it again.

    Replace the switch or card between both points; look whether all damaged packets pass the same one.
    """

    code, name, severity = "PTS004", "damaged-between-points", ERROR
    reference = "IBA 7.8.1, 7.8.2"
    needs_crc = True
    message = "the payload is not what it was at {before}, and the ICRC is wrong: it was damaged between {before} and {point}"
    example = "captures of two points, the second of which has a payload bit flipped"

    def holds(self, one: Sighting, table: ChunkTable) -> bool:
        return bool(crcs.icrc(table).bad[one.frame - table.chunk.first])


class NotificationLost(PointRule):
    """A congestion notification (CNP) was lost on its way to the sender.

    The receiver saw marked packets and told the sender to slow down, but the sender never heard of it, and may go on sending
    too fast.

    Give CNPs a strict priority of their own at the switches between both points, and check that no ACL or policer drops it.
    """

    code, name, severity = "PTS005", "cnp-lost-between-points", WARNING
    reference = "RoCE Annex A17.9.3; DCQCN (Zhu et al., SIGCOMM 2015)"
    message = "a CNP was lost between {after} and {before}: {proof}"
    example = "captures of two points, the second of which lacks CNPs that the first one has"

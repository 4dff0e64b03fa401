"""Packets that the network between two capture points lost, duplicated, changed or damaged."""

from __future__ import annotations

from ibdissect.decode import ChunkTable, crcs
from ibdissect.lint.point_faults import PointFault, PointRule
from ibdissect.lint.rule import ERROR, INFO, WARNING


class LostBetweenPoints(PointRule):
    """A packet that passed one point never reached the next.

    The network between the two points dropped it.

    Look at the counters of switches and links between both points: PortXmitDiscards point to congestion or a wrong virtual lane,
    PortRcvErrors to cables, PortXmitConstraintErrors to partitions. Record at a third point between them.

    The frame at the last point that has it. It is not enough that a file lacks the packet. The next point must be known to miss nothing,
    or two later points do not have it, or the receiver asked for this packet with a NAK. A likely loss that is not proved is an `info`:
    one that a NAK alone tells, too, if the only later point also lacks more than 2 % of the packets that arrived, as adaptive routing leads
    them around it; and one that nobody repairs, if only packets of the other way prove that the later point misses nothing, as a tap
    records each way by itself, if that point has none of its flow before it, or none after it, or less than four fifths of it and no point
    behind it lacks the packet, too, as flows and single packets take other ways, if it lacks packets in so few stretches that its recorder
    may have dropped those of each at once, or if the packet goes to a multicast group, whose members come and go. A flow of datagrams of
    which less than a fifth goes another way for a while and comes back is accused: then the point lacks all packets of the flow in that
    time.
    """

    code, name, severity = "PTS001", "lost-between-points", ERROR
    reference = "IBA 9.7.5.2 (NAK), 18.2.5 (switches discard packets)"
    message = "lost between {after} and {before}: {proof}"
    example = "captures of two points, the second of which lacks a packet that its receiver asks for with a NAK"


class DuplicatedBetweenPoints(PointRule):
    """The network delivered a packet twice.

    No switch may do that: a receiver of datagrams accepts both, and duplicates of connected traffic cost it time.

    Look for loops and for mirrors that feed their copies back into the network between both points.

    A point that misses nothing has the packet once, and later points have it twice. An `info` where only one point has it twice: its mirror
    may have doubled it; or where its sender may have sent it twice, of which the first point missed one: a request as late as a NAK takes,
    an answer, a CNP; and for multicast, which switches copy.
    """

    code, name, severity = "PTS002", "duplicated-between-points", WARNING
    reference = "IBA 18.2.4 (a switch forwards a unicast packet to one port)"
    message = "passed {before} once and {point} twice"
    example = "captures of three points, of which the first has a packet once and the others have it twice"


class ChangedBetweenPoints(PointRule):
    """The P_Key, the service level, an address or the payload of a packet changed on the way.

    The ICRC covers them, so nothing within a subnet may change them. The receiver drops such a packet, unless the ICRC was computed again.

    Look for a gateway, a middlebox or a faulty switch between both points.

    Two captures that show the same packet with different values. An `info` where only the payload differs: two packets may have the same
    PSN. Packets with different addresses are two if both addresses have other packets, too: servers alike use the same queue pairs.
    """

    code, name, severity = "PTS003", "changed-between-points", ERROR
    reference = "IBA 7.8.1 (what the ICRC covers), 9.6.1"
    message = "{what} changed between {before} and {point}"
    example = "captures of two points that show a packet with different P_Keys"


class DamagedBetweenPoints(PointRule):
    """A packet's payload changed between two points, and its ICRC is wrong afterwards.

    Link errors would show in the VCRC or the Ethernet checksum, and the port would have dropped the packet. So a device between
    both points damaged it in its memory and sent it on with new link checksums. The receiver drops it, and the sender repeats it.

    Replace the switch or card between both points; check whether all damaged packets pass the same one.

    The same packet at two points, the second time with another payload and a wrong ICRC.
    """

    code, name, severity = "PTS004", "damaged-between-points", ERROR
    reference = "IBA 7.8.1, 7.8.2"
    needs_crc = True
    message = "the payload is not what it was at {before}, and the ICRC is wrong: it was damaged between {before} and {point}"
    example = "captures of two points, the second of which has a payload bit flipped"

    def holds(self, one: PointFault, table: ChunkTable) -> bool:
        return bool(table.once(crcs.icrc).bad[one.frame - table.chunk.first])


class NotificationLost(PointRule):
    """A congestion notification (CNP) was lost on its way to the sender.

    The receiver saw marked packets and told the sender to slow down. The sender never heard of it and may go on sending too fast.

    Give CNPs a strict priority of their own at the switches between both points, and check that no ACL or policer drops it.

    A CNP that one point has and the next one lacks, with the proof that PTS001 needs. An `info` where the loss is not proved.
    """

    code, name, severity = "PTS005", "cnp-lost-between-points", WARNING
    reference = "RoCE Annex A17.9.3; DCQCN (Zhu et al., SIGCOMM 2015)"
    message = "a CNP was lost between {after} and {before}: {proof}"
    example = "captures of two points, the second of which lacks CNPs that the first one has"


class MarksUnanswered(PointRule):
    """The network marked packets (ECN), and their receiver sent no congestion notification (CNP).

    The marks arrived, so the network does its part of congestion control (DCQCN). The receiver does not: the sender does not slow down
    until buffers overflow or priority flow control stops the link.

    Enable ECN for RoCE at the receiver (notification point); nothing, if the senders rely on round-trip times.

    A point that misses nothing is the last one that has the packets, and earlier points have them without the mark. It shows the other
    direction, too, for a second and more, but no point has any CNP.
    """

    code, name, severity = "PTS006", "ecn-unanswered-between-points", INFO
    reference = "RoCE Annex A17; DCQCN (Zhu et al., SIGCOMM 2015); RFC 3168"
    message = "{packets} of this flow were marked (ECN CE) between {before} and {point}, and no CNP went back within a second"
    example = "captures of two points, the second of which has packets with ECN 3 and no CNPs"

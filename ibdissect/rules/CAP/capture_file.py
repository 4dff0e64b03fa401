"""Faults of the capture that its frames show: cut, repeated, out of order, not readable, mixed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ibdissect.bounded import KeptDict
from ibdissect.capture.chunk import LINK_INFINIBAND
from ibdissect.decode import ChunkTable
from ibdissect.decode.identity import Index
from ibdissect.decode.inner_structures import of_plugins
from ibdissect.decode.mirror_copies import Copies
from ibdissect.decode.payload_sizes import frame_sizes
from ibdissect.engine import offsets
from ibdissect.lint.finding import Span
from ibdissect.lint.rule import INFO, SEEN, WARNING, Context, Hit, Moment, Rule, Seen, fault, on_chunk, on_end, on_event
from ibdissect.lint.setting import Setting
from ibdissect.rules.LNK.header_fields import length_disagrees, too_small
from ibdissect.subnet import FabricFollower
from ibdissect.subnet.events import StateEvicted
from ibdissect.subnet.separate_subnets import BY_CAPTURE, SubnetMap
from ibdissect.wire.convert import duration_text
from ibdissect.wire.encapsulation import Pause, PriorityPause
from ibdissect.wire.headers import LRH
from ibdissect.wire.text import counted

MAX_SHORT = 1024
"""Capture interfaces with a frame that is shorter than its packet."""
DEEPEST = 78
"""Bytes up to the end of the BTH after Ethernet with a VLAN tag, IPv6 and UDP."""


class PacketTruncated(Rule):
    """Frames were only partly captured (snap length).

    CRCs, payload lengths and, below 300 bytes, management attributes cannot be checked. Silence about such frames proves nothing.

    Capture again without a snap length (`tcpdump -s 0`), or with at least 300 bytes if only management matters.

    One frame whose record says that it was cut, or whose packet is longer by all its lengths: mirrors and packet brokers send the
    beginning of packets if told so. Of InfiniBand, a part of the payload must be missing, not only of the ICRC (LNK003).
    """

    code, name, severity = "CAP001", "packet-truncated", WARNING
    reference = "pcap, pcapng and ERF record headers"
    message = "only {captured} of {length} bytes were captured; what is missing cannot be checked"
    example = "a frame of 290 bytes in a capture with snap length 64"

    @on_chunk
    def cut(self, table: ChunkTable, _: Context) -> Iterator[Hit]:
        """One finding a capture interface, at its first cut frame."""
        chunk = table.chunk
        rows = np.flatnonzero(table.located.snapped)
        interfaces, first = np.unique(chunk.interface[rows], return_index=True)
        for interface, row in zip(interfaces.tolist(), rows[first].tolist(), strict=True):
            arguments = {"captured": int(chunk.caplen[row]), "length": int(table.located.length[row])}
            yield fault(Seen(table, row), arguments, rows=rows[chunk.interface[rows] == interface], key=interface)


class TimeRegression(Rule):
    """Time goes backwards between two packets.

    Response times, timers and the order of events across such a place mean nothing. Captures were merged without sorting, or the host's
    clock was set during the capture.

    Sort the capture by time (`reordercap`), or keep the parts apart.

    Two records, the later one with the earlier time. Records without a time are not compared.
    """

    code, name, severity = "CAP005", "timestamp-regression", INFO
    reference = "ibdump uses the host's clock"
    message = "this packet is {time} older than the one before it"
    example = "two packets, the second with the earlier time"

    def __init__(self) -> None:
        self.last = 0

    @on_chunk
    def backwards(self, table: ChunkTable, _: Context) -> Iterator[Hit]:
        """One finding a capture, counting every place."""
        chunk = table.chunk
        rows = np.flatnonzero(chunk.time_ns != 0)  # a record without a time (or without its header) has 0
        if not rows.size:
            return
        times = chunk.time_ns[rows]
        step = np.diff(times, prepend=self.last or times[0])
        self.last = int(times[-1])
        back = np.flatnonzero(step < 0)
        if back.size:
            row, time = int(rows[back[0]]), duration_text(-int(step[back[0]]) / 1e9)
            yield fault(
                Seen(table, row), {"time": time}, proof=[(chunk.first + row - 1, "the packet before it")], evidence=SEEN,
                rows=rows[back], key="time",
            )  # fmt: skip


class LinkTypeUnsupported(Rule):
    """The capture has link type 247, which Wireshark before 4.2 cannot open.

    The packets are fine, but whoever receives the file may see only raw bytes.

    Convert it: `ibdissect export` writes link type 197 (ERF), which every Wireshark dissects.

    The link type of the file.
    """

    code, name, severity = "CAP009", "linktype-unsupported", INFO
    about_capture = True
    reference = "tshark 4.0.17"
    message = "link type 247 (InfiniBand): Wireshark 4.0 cannot open it, but it opens link type 197 (ERF)"
    example = "a pcap file of link type 247"

    @on_chunk
    def link_type(self, table: ChunkTable, _: Context) -> Iterator[Hit]:
        chunk = table.chunk
        rows = np.flatnonzero(chunk.link == LINK_INFINIBAND)
        if rows.size:
            row = int(rows[0])
            yield fault(Seen(table, row), {}, rows=rows, key="link")


class DuplicateFrames(Rule):
    """The capture contains frames twice.

    A port that is mirrored twice (on entry and on exit) delivers every packet twice. Other rules ignore the second copies, so that they do
    not look like retransmissions or second answers.

    Check the mirror's configuration, or remove the copies (`editcap -d`). A network that really duplicates packets looks the same.

    The same bytes up to eight frames later. Of IP packets, the headers around them are not compared: one of the two may have a VLAN tag or
    be in a tunnel. Frames that were cut off before the end of their BTH are not compared. Within one microsecond the second is a copy
    unless it is an ACK; a request is one within three. Other frames within three microseconds, and ACKs, which a responder may repeat at
    once, are copies only if so far at least every 32nd frame was repeated: retransmissions are rarely that fast. Within 5 ms a packet is a
    copy that the network made, if its sender numbers its packets in their IPv4 headers and no NAK asked for it. Where a mirror of a switch
    shows two of three packets on their way in and on their way out, those that come out within 0.2 ms are copies. Management datagrams with
    the same bytes between the same ports are copies within half a millisecond, also on both sides of a router, and within five where many
    are repeated: their senders wait longer. Packets with the same ICRC, BTH and addresses, the later one with fewer hops left, are one
    packet on both sides of a router.
    """

    code, name, severity = "CAP012", "duplicate-frames", INFO
    reference = "heuristic: identical bytes within 3 us, of management datagrams within 0.5 ms"
    message = "the same {length} bytes as frame {original}, {time} apart"
    of_router = "the same packet as frame {original}, {time} apart, with fewer hops left: captured before and behind a router"
    example = "the same frame twice with the same time"
    within = Setting(10000, "microseconds between a frame and its copy", 0)

    @on_chunk
    def copies(self, table: ChunkTable, context: Context) -> Iterator[Hit]:
        found = table.once(context.get(Copies).leave_out)
        near = np.flatnonzero(found.later_ns <= self.within * 1000)
        if near.size:
            i = int(near[0])
            seen, behind = Seen(table, int(found.rows[i])), int(found.behind[i])
            yield fault(
                seen, {
                    "length": int(found.size[i]), "original": seen.frame - behind, "time": duration_text(int(found.later_ns[i]) / 1e9),
                },
                proof=[(seen.frame - behind, "the same bytes")], evidence=SEEN, rows=found.rows[near], key="copy",
                message=self.of_router if found.rows[i] in found.routed else "",
            )  # fmt: skip


class FrameMalformed(Rule):
    """A frame is too short for the headers or the management datagram that it announces.

    A receiver drops it. It was damaged, built by a faulty tool, or is something else.

    Look at the frame's bytes from the marked place on. One such frame may be chance; a series comes from one sender.

    One whole frame. Silent where LNK003, LNK004, BTH009, BTH019 or SMP001 reports the wrong length, for UDP datagrams to the port of
    RoCE that are too short for a BTH (programs get that port by chance), and where all lengths say that the packet is longer than its
    frame: it was cut (CAP001). But a single one of its interface was not, if longer frames are whole.
    """

    code, name, severity = "CAP015", "frame-malformed", WARNING
    reference = "sizes of the headers"
    message = "{reason}"
    example = "a performance management datagram with 100 bytes of payload"

    OTHERS = (offsets.PKTLEN_LARGE, offsets.PKTLEN_SMALL, offsets.NO_EXTENDED)
    """Reported by LNK003, LNK004, BTH009 and BTH019; the length of a subnet management packet by SMP001."""

    def __init__(self) -> None:
        self.longest = np.zeros(1 << 16, np.int64)
        """The longest frame of each interface."""
        self.short = KeptDict[Index, tuple[int, int, Hit]](MAX_SHORT, "interfaces with a frame that is shorter than its packet")
        """By interface: how many such frames there are, the size of the first one, and the finding about it."""

    @on_chunk
    def malformed(self, table: ChunkTable, _: Context) -> Iterator[Hit]:
        """Frames that the locator gave up on, and management datagrams that are not 256 bytes."""
        loc, chunk = table.located, table.chunk
        reasons = loc.malformed
        if reasons.any():
            reported = np.isin(reasons, self.OTHERS)
            reported[table.occurrences(LRH).rows[too_small(table)]] = True
            for row in np.flatnonzero((reasons != 0) & ~reported).tolist():
                yield self._hit(table, row, offsets.MALFORMED[int(reasons[row])], 0)
        mad = loc.start.get("mad")
        if mad is None:
            return
        rows = np.flatnonzero((mad >= 0) & loc.complete & (reasons == 0))
        room = loc.payload_end[rows] - mad[rows]
        short = (room < 256) & (chunk.data[mad[rows]] == 1) & ((chunk.data[mad[rows] + 1] & 0x7F) != 0x01)
        if short.any():
            links = table.occurrences(LRH).rows
            short &= ~np.isin(rows, links[length_disagrees(table)])
        for row, size in zip(rows[short].tolist(), room[short].tolist(), strict=True):
            yield self._hit(table, row, f"the management datagram has {size} bytes instead of 256", int(mad[row]))

    @on_chunk
    def shorter(self, table: ChunkTable, _: Context) -> None:
        """Note the frames that end in front of their packets although their records hold all that arrived."""
        loc, chunk = table.located, table.chunk
        np.maximum.at(self.longest, chunk.interface, chunk.length)
        rows = np.flatnonzero((loc.length > chunk.length) & (chunk.caplen == chunk.length) & ~loc.in_tunnel)
        interfaces, first, counts = np.unique(chunk.interface[rows], return_index=True, return_counts=True)
        for interface, row, count in zip(interfaces.tolist(), rows[first].tolist(), counts.tolist(), strict=True):
            size = int(chunk.length[row])
            number, one, hit = self.short.get(interface) or (0, size, None)
            if hit is None:
                reason = f"its headers say {loc.length[row]} bytes, the frame has {size}, and longer frames were not cut"
                hit = fault(Moment(chunk.first + row, int(chunk.time_ns[row])), {"reason": reason})
            self.short.keep(interface, (number + count, one, hit), hit.frame, hit.time_ns)

    @on_end
    def damaged(self, _: Context) -> Iterator[Hit]:
        """A mirror cuts all packets above a size: not a single one, if longer ones came."""
        yield from (hit for i, (number, size, hit) in self.short.items() if number == 1 and size < self.longest[i])

    def _hit(self, table: ChunkTable, row: int, reason: str, at: int) -> Hit:
        seen, offset = Seen(table, row), at - int(table.chunk.offset[row]) if at else 0
        return fault(seen, {"reason": reason}, spans=(Span(seen.frame, offset, int(table.chunk.caplen[row]) - offset),))


class NoInfiniBand(Rule):
    """The capture holds neither InfiniBand nor RoCE packets.

    Nothing could be checked, so silence proves nothing. The capture was taken on another interface or with a filter that excludes RoCE, or
    the adapter hides RDMA traffic from the host. RoCE inside tunnels is read (VXLAN, GENEVE, GRE, ERSPAN, MPLS, IP in IP), but not if the
    tunnel's packets are IP fragments, nor inside VXLAN with other UDP ports than 4789 and 8472, MPLS in UDP, or VN-tags.

    Capture with a tool that sees RDMA traffic: `ibdump`, a sniffer rule of the adapter (`tcpdump -i mlx5_0`), or a mirror port.

    All frames. Silent if any frame could not be decoded or was cut before the headers, by a snap length or a mirror, since it may have
    been RoCE, and if a plugin declares what a frame holds.
    """

    code, name, severity = "CAP018", "no-infiniband", WARNING
    about_capture = True
    reference = "headers of InfiniBand (LRH, GRH, BTH) and RoCE"
    message = "no InfiniBand or RoCE was found in this capture{instead}: nothing was checked"
    example = "a capture of ARP and ICMP"

    def __init__(self) -> None:
        self.found = False
        self.frames = self.pauses = 0
        self.first_ns = 0

    @on_chunk
    def look(self, table: ChunkTable, _: Context) -> None:
        self.pauses += sum(len(table.occurrences(kind)) for kind in (Pause, PriorityPause))
        if self.found or not len(table):
            return
        located = table.located
        sizes = table.once(frame_sizes)
        unseen = table.chunk.caplen < np.where(located.in_tunnel, sizes, np.minimum(sizes, DEEPEST))
        self.found = bool((~located.without_infiniband | (located.malformed != 0) | unseen).any() or table.once(of_plugins).any())
        self.first_ns = self.first_ns or int(table.chunk.time_ns[0])
        self.frames += len(table)

    @on_end
    def end(self, _: Context) -> Iterator[Hit]:
        if self.frames and not self.found:
            instead = f", but {counted(self.pauses, 'pause frame', ',')} (`ibdissect stats` tells whose)" if self.pauses else ""
            yield fault(Moment(1, self.first_ns), {"instead": instead}, count=self.frames)


class StateWasEvicted(Rule):
    """The capture holds more nodes or conversations than ibdissect remembers, and some were forgotten.

    Rules that need the forgotten state say nothing about its packets. Findings are still true, but some are missing.

    Split the capture (`editcap -c`), or limit it to the nodes of interest.

    More entries than the bound of some state.
    """

    code, name, severity = "CAP016", "state-evicted", INFO
    about_capture = True
    reference = "bounds of the state kept while reading"
    message = "too many {what} to remember, some were forgotten"
    example = "a capture with more open requests than are remembered"

    @on_event(StateEvicted)
    def evicted(self, event: StateEvicted, _: Context) -> Iterator[Hit]:
        yield fault(event, {"what": event.what}, count=event.count, key=event.what)

    @on_end
    def end(self, context: Context) -> Iterator[Hit]:
        for one in context.dropped():
            yield fault(one, {"what": one.what}, count=one.count, key=one.what)


class SubnetsAreMixed(Rule):
    """The capture holds packets of two subnets, or of two managers that cannot be told apart.

    LIDs and directed routes mean different things in each subnet. If capture interfaces, the origins of directed routes or GID prefixes
    distinguish the subnets, each is checked alone, and packets that could belong to several are checked only by rules that need one
    packet. Otherwise the rules that rely on the subnet's state report nothing.

    Capture each subnet alone, two managers at the port of one; or name the addresses of each subnet in `[[site.subnets]]` of the
    configuration.

    Two senders of directed routes found ports with the same LIDs, and no node in common. Or four facts of at least two kinds contradict
    earlier packets, although a subnet does not change them by itself: the port with a LID, the node at the end of a directed route, the
    size of a node. One of them, not a LID, must return to its earlier value. Or a manager's own node changes, and an adapter answers as a
    switch. Two managers of one subnet with the same transaction ids look like two subnets; that is an `info` if the routes of one led to
    the other. `lint` and `fabric` read the capture again to separate its subnets; a pipe cannot be read again, and the screen does not.
    Files of `--subnet` describe the subnet whose ports they list, or the first of `[[site.subnets]]`. An `info` if the site's policy names
    the subnets, or capture interfaces or ports of a capture card tell them apart.
    """

    code, name, severity = "CAP017", "subnets-mixed", WARNING
    about_capture = True
    reference = "IBA 4.1.3, 14.2.2: LIDs and directed routes are unique within a subnet only"
    message = "{mixed} ({what}); {then}"
    example = "two captures of different subnets, merged into one file"

    needs = (FabricFollower,)

    @on_end
    def mixed(self, context: Context) -> Iterator[Hit]:
        found = context.get(FabricFollower).subnet.contradictions
        if not found.mixed:
            return
        what = ", ".join(f"{kind} changes" for kind, _ in found.examples())
        proof = [(frame, f"{kind} differs from before") for kind, frame in found.examples()]
        division = context.get(SubnetMap)
        then = f"{division.how} tell them apart, and each is checked alone" if division.how else "rules that know the subnet report nothing"
        if division.once:
            then += "; save it as a file, which can be read again to tell them apart: this could be read only once"
        mixed = "two managers of the subnet have transaction ids that begin alike" if found.related else "packets of two subnets are mixed"
        severity = INFO if division.expected or found.related or division.how in BY_CAPTURE else None
        arguments = {"mixed": mixed, "what": what, "then": then}
        yield fault(Moment(found.frame, found.times.get(found.frame, 0)), arguments, proof=proof, severity=severity)

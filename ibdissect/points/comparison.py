"""`Comparison` of capture points: reads all captures, compares their clocks, matches packets and judges where they were lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct as Record

from ibdissect.decode import Bool, Int
from ibdissect.decode.equal_rows import common, is_in, mix
from ibdissect.errors import CaptureError

from .acknowledged import PlaceFinder, Places, Proofs, ProvenArrivals
from .capturing_times import Coverage, CoverageGaps, FlowTimes, open_holes
from .clock_anchors import FEW
from .clocks import Clocks
from .directions import Directions
from .matching_in_windows import WINDOW, MatchingWindows
from .packet_identity import HOP
from .read_captures import SAMPLE, Point, read_points
from .temporary_files import Spool
from .transmissions import Repeats, Transmissions
from .verdicts import Classes, PacketClass, PacketPath, PointRoutes, judge


class TransmissionBlock(Record):
    """Some of the transmissions, which follow each other in time, and what became of each."""

    first: int
    """Number of the first one, from 0."""
    packets: Transmissions
    repeats: Repeats
    """Their repeated sightings; `id` is the index in the block."""
    journey: PacketPath

    @property
    def seen(self) -> Bool:
        """bool[n, points]"""
        found: Bool = self.packets.frame > 0
        return found

    def lost_between(self, number: int) -> tuple[int, int, int]:
        """Of a lost packet: the last point that has it, the one that it likely did not reach, the one that it certainly did not reach.

        -1: only its receiver.
        """
        journey = self.journey
        return int(journey.after[number]), int(journey.likely_before[number]), int(journey.surely_before[number])

    def hop(self, number: int, point: int) -> int:
        """On which link of its directed route a point saw a packet, from 1; 0: it has no directed route."""
        return int(self.packets.fields[number, point, HOP]) + 1


class Comparison:
    """Several captures of the same traffic. Raises CaptureError for a capture that cannot be read or shares no packet with the others.

    `sample` and `window` bound what is held in memory: packets from which clocks are learnt, and sightings matched at once.
    """

    def __init__(self, paths: Sequence[str], *, sample: int = SAMPLE, window: int = WINDOW) -> None:
        self.points, self.flows = read_points(paths, sample)
        self.directions = Directions(self.points, self.flows)
        self.clocks = Clocks(self.points, self.directions)
        for point, segments in zip(self.points, self.clocks.segments, strict=True):
            if not segments:
                raise self._unrelated(point)
        self.coverage = Coverage(self.clocks)
        self.flow_times = FlowTimes(len(self.points), len(self.flows.known))
        self.transmissions = 0
        """How many packets were sent and seen."""
        self._packets, self._repeats, self._proofs = Spool(Transmissions), Spool(Repeats), Spool(Proofs)
        self._match(window)
        self._judge()

    def _match(self, window: int) -> None:
        """Find the transmissions, and what answers prove of them."""
        windows = MatchingWindows(self.points, self.flows, self.directions, self.clocks, window)
        self.windows, self.matcher = windows, windows.matcher
        self.directions.anchors.clear()  # like the samples, no longer needed
        for point in self.points:
            point.sample = None
        self.clocks.times.clear()
        finder, places = PlaceFinder(self.flows), Spool(Places)
        for packets, repeats in windows:
            self.transmissions += len(packets)
            self.coverage.feed(packets, repeats)
            self.flow_times.feed(packets)
            self._packets.append(packets)
            self._repeats.append(repeats)
            places.append(finder.places(packets))
        for point in self.points:
            point.every = Spool(type(point.every[0]))
        answers = ProvenArrivals(self.flows, finder.late)
        for number in reversed(range(len(places))):
            packets = self._packets[number]
            proofs = answers.proofs(packets, places[number])
            proofs.answered &= ~packets.ambiguous
            self._proofs.append(proofs)

    def _judge(self) -> None:
        classes = self._classes()
        routes = PointRoutes(classes.alike(), classes.count, self.directions)
        if routes.missing.any():
            holes = [CoverageGaps() for _ in self.points]
            for number, packets in enumerate(self._packets):
                alike, repeats = self._alike(number, packets), self._repeats[number]
                missing = routes.missing[classes.number(alike)] & ~alike.ambiguous[:, None]  # an equal packet there may be this one
                for i, one in enumerate(holes):
                    sightings = packets.at[packets.frame[:, i] > 0, i], repeats.time[repeats.point == i]
                    one.feed(np.concatenate(sightings), packets.time[missing[:, i]], int(packets.time[-1]))
            if self.coverage.leave_out(holes):
                classes = self._classes()
        self.classes = classes
        self.verdicts = judge(classes, self.directions, self.flows, self.coverage.paused())

    def _classes(self) -> Classes:
        found = Classes()
        for number, packets in enumerate(self._packets):
            found.add(self._alike(number, packets))
        return found

    def _alike(self, number: int, packets: Transmissions) -> PacketClass:
        """What the verdicts on a block depend on."""
        proofs = self._proofs[len(self._proofs) - 1 - number]  # found from the last block on
        covered, perhaps = self.coverage.of(packets)
        return PacketClass(
            packets.flow, packets.port, packets.frame > 0, covered, perhaps, proofs.answered, proofs.refused, proofs.resent,
            self.coverage.ambiguous(packets), packets.by_order, self.flow_times.between(packets),
            open_holes(packets),
        )  # fmt: skip

    def blocks(self) -> Iterator[TransmissionBlock]:
        """All transmissions in order of time, and what became of them."""
        first = 0
        for number, packets in enumerate(self._packets):
            journey = self.verdicts.journey.take(self.classes.number(self._alike(number, packets)))
            yield TransmissionBlock(first, packets, self._repeats[number], journey)
            first += len(packets)

    def of_flows(self) -> tuple[Int, Int, Int]:
        """For each class its flow's number (that of all paths to the same port), how many packets it has, and how many were lost."""
        alike = self.classes.alike()
        count: Int = self.classes.count
        return self.flows.merged()[alike.flow], count, count * self.verdicts.journey.lost

    def _unrelated(self, point: Point) -> CaptureError:
        """Why a point cannot be compared: it saw packets several times, other traffic, at another time, or packets rewritten on the way."""
        first = self.points[0]
        for one, beside in ((point, first), (first, point)):
            keys, times = np.unique(one.seen.key, return_counts=True)
            again = int(np.count_nonzero((times > 1) & is_in(keys, beside.seen.key)))
            if 2 * again > len(keys):
                reason = f"has {again} of {len(keys)} packets several times, too far apart to be a mirror's copies for sure"
                return CaptureError(one.path, reason, hint="let the mirror record one direction of each port only")
        packets = np.unique(first.seen.key), np.unique(point.seen.key)
        same = len(common(*packets)[0])
        if same >= FEW and 2 * same > len(packets[1]):
            reason = f"{same} packets have the bytes of one in {first.path}, but at times that do not agree"
            return CaptureError(point.path, reason, hint="capture both at the same time, and more than packets that are all alike")
        dest_qp = np.array([flow.dest_qp for flow in self.flows.known])
        names = [np.unique(mix([dest_qp[one.seen.flow], one.seen.psn, one.seen.opcode])) for one in (first, point)]
        alike = len(common(*names)[0])
        if alike >= FEW and 2 * alike > len(names[1]):
            reason = f"{alike} packets have the PSN, OpCode and queue pair of one in {first.path}, but none the same bytes"
            return CaptureError(point.path, reason, hint="if it is the same traffic, something between both points rewrites all of it")
        mine, other = point.seen.time, first.seen.time
        apart = mine.min() > other.max() or mine.max() < other.min()
        reason = f"shares no packet with {first.path}" + (", and their times do not overlap" if apart else "")
        hint = "name captures of the same traffic" + ("" if apart else "; what one host sent and received belongs into one file (mergecap)")
        return CaptureError(point.path, reason, hint=hint)

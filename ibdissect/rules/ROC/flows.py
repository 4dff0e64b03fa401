"""Faults that flows of RoCE packets show over time: one source port for all, congestion that nobody notifies of."""

from __future__ import annotations

from collections.abc import Iterator

from ibdissect.decode import ChunkTable
from ibdissect.lint.rule import INFERRED, INFO, LEARNT, Context, Hit, Moment, Rule, fault, on_chunk, on_end
from ibdissect.transport.congestion import Congestion
from ibdissect.wire.encapsulation import UDP, IPv4

ENOUGH = 8
"""With this many connections to one peer, at least two should have different hashes."""


class _PairRule(Rule):
    """Base of rules that judge pairs of RoCE ports at the end of the capture."""

    @on_chunk
    def look(self, table: ChunkTable, context: Context) -> None:
        if "udp" in table.located.start:
            table.once(context.get(Congestion).feed)


class OneSourcePort(_PairRule):
    """All connections from one host to another have the same UDP source port.

    Switches spread flows over parallel links by a hash of addresses and ports. With one port for all connections everything takes
    one link, while others are idle. With a single path between the hosts nothing is lost.

    Update the driver, or set a flow label for each connection: Linux derives the port from it or from the queue pair numbers, older drivers
    do not.

    Packets to at least eight queue pairs of one host, all from one port.
    """

    code, name, severity = "ROC002", "roce-srcport-same", INFO
    reference = "RoCE Annex A17.9.2; Linux rdma_get_udp_sport, rdma-core mlx5dv_modify_qp_udp_sport"
    message = "{count} connections from {source} to {destination}, all from UDP port {port}"
    example = "packets to eight queue pairs of one host, all from UDP port 49152"

    @on_end
    def end(self, context: Context) -> Iterator[Hit]:
        for pair in context.get(Congestion).pairs.values():
            if len(pair.ports) == 1 and len(pair.queue_pairs) >= ENOUGH:
                source, destination = pair.texts
                port = next(iter(pair.ports))
                yield fault(
                    Moment(pair.first_frame, pair.first_ns),
                    {"count": len(pair.queue_pairs), "source": source, "destination": destination, "port": port}, UDP.source_port, port,
                    evidence=LEARNT,
                )  # fmt: skip


class CongestionNotNotified(_PairRule):
    """Switches marked packets, and the receiver did not notify the sender.

    Congestion control of RoCE (DCQCN) works by notification packets (CNP). Without them senders go on until buffers overflow or priority
    flow control stops the link.

    Enable ECN for RoCE at the receiver (notification point), and check that CNPs are not dropped: they often have a priority of
    their own. Nothing, if the senders rely on round-trip times, or if CNPs take another link of a bond than the captured one.

    A marked packet and a second without a CNP, in a capture that shows both directions between the hosts. Silent if the capture shows any
    CNP of the receiver to the sender: it does notify, if not at each mark.
    """

    code, name, severity = "ROC008", "roce-ecn-without-cnp", INFO
    reference = "RoCE Annex A17; DCQCN (Zhu et al., SIGCOMM 2015); RFC 3168"
    message = "ECN marks (CE) from {source} to {destination}, and no CNP came back within a second (packets marked: {count})"
    example = "a RoCE v2 packet with ECN 3, and a second without a CNP of the other side"

    @on_end
    def end(self, context: Context) -> Iterator[Hit]:
        congestion = context.get(Congestion)
        congestion.finish()
        for pair in congestion.pairs.values():
            back = congestion.pairs.get((pair.destination, pair.source))  # without it, one direction is not in the capture
            if pair.ignored_frame and back is not None and not back.notifications:
                source, destination = pair.texts
                yield fault(
                    Moment(pair.ignored_frame, pair.ignored_ns), {"count": pair.ce, "source": source, "destination": destination}, IPv4.ecn,
                    3, evidence=INFERRED,
                )  # fmt: skip

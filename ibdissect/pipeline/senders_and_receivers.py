"""The ends of the frames of findings, for sentences that name nobody, and for the line below each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from ibdissect.decode import ChunkTable, Int
from ibdissect.decode.mads import DirectedRoutes, Mads
from ibdissect.dissect.info_line import Summaries, summaries
from ibdissect.dissect.info_line_mad import action
from ibdissect.lint.finding import Finding
from ibdissect.lint.rule import Rule
from ibdissect.lint.sender_and_receiver import Route, Who
from ibdissect.subnet import FabricFollower
from ibdissect.wire import numbers
from ibdissect.wire.headers import BTH, DETH, LRH
from ibdissect.wire.sm import SMPDirected

NOWHERE = ("LID 65535", "LID 0")
"""What the LRH of a directed-route SMP shows instead of its ends."""


def describe(table: ChunkTable, rows: Int) -> dict[int, tuple[Who, str]]:
    """Both ends of the frames at `rows`, and what each is, by row."""
    lines = summaries(table, rows)
    about = [f"{protocol}  {info}" for protocol, info in zip(lines.protocol, lines.info, strict=True)]
    return dict(zip(rows.tolist(), zip(_ends(table, rows, lines), about, strict=True), strict=True))


def _ends(table: ChunkTable, rows: Int, lines: Summaries) -> list[Who]:
    located = table.located
    mad, bth, deth = located.at("mad")[rows] >= 0, located.at("bth")[rows] >= 0, table.first(DETH)[rows] >= 0
    qp, source_qp = table.values_at(BTH.destqp, rows).tolist(), table.values_at(DETH.srcqp, rows).tolist()
    native, lids = located.at("lrh")[rows] >= 0, [table.values_at(field, rows).tolist() for field in (LRH.slid, LRH.dlid)]
    routes, found = _routes(table, rows), list[Who]()
    for i, (source, destination) in enumerate(zip(lines.source, lines.destination, strict=True)):
        title, selection = action(table, int(rows[i])) if mad[i] else ("", "")
        packet, route = bool(bth[i] and not mad[i]), routes.get(i)
        if native[i]:
            source, destination = (f"LID {lid[i]}" if text == "::" else text for text, lid in zip((source, destination), lids, strict=True))
        if route is not None:
            source, destination = ("" if text in NOWHERE else text for text in (source, destination))
        found.append(
            Who(
                source, destination, lines.protocol[i] if packet and lines.protocol[i] != "BTH" else "",
                source_qp[i] if packet and deth[i] else None, qp[i] if packet else None, title, selection, route,
            )
        )  # fmt: skip
    return found


def _routes(table: ChunkTable, rows: Int) -> dict[int, Route]:
    """The directed routes of the SMPs among `rows`, by index."""
    mads, routes, found = table.once(Mads), table.once(DirectedRoutes), dict[int, Route]()
    place = {row: k for k, row in enumerate(mads.rows[routes.index].tolist())}
    for i, row in enumerate(rows.tolist()):
        if (k := place.get(row)) is None:
            continue
        smp, path, one = routes.index[k], routes.paths[k].tobytes(), rows[i : i + 1]
        method = int(mads.method[smp])
        pure = all(table.values_at(field, one)[0] == numbers.PERMISSIVE for field in (SMPDirected.dr_slid, SMPDirected.dr_dlid))
        found[i] = Route(
            int(mads.transaction[smp]) >> 32, path[1 : path[0] + 1], method & numbers.RESPONSE_BIT > 0,
            pure and bool(routes.complete[k]) and method != numbers.TRAP,
        )  # fmt: skip
    return found


def name_ends(findings: Iterable[Finding], rules: Mapping[str, type[Rule]], follower: FabricFollower | None) -> None:
    """Give sentences that name nobody the ends of their frame, and the line below it the ends of directed routes.

    `rules` by code. `follower`: what the whole capture showed, so that the result does not depend on how it was read; None: routes lead to
    unknown ports.
    """
    for finding in findings:
        who, finding.who = finding.who, None
        if who is None:
            continue
        if who.route is not None:
            who = _led(who, who.route, finding.frame, follower)
        if not rules[finding.code].about_capture:
            finding.message = who.name_in(finding.message)
        if finding.context:
            source, destination = who.source, who.destination
            if who.route is not None:
                source, destination = source or "an unknown port", destination or "an unknown port"
            finding.context = f"{source} → {destination}  {finding.context}"


def _led(who: Who, route: Route, frame: int, follower: FabricFollower | None) -> Who:
    """With the ports at the ends of its route, as far as known; otherwise the route itself stands for the far one."""
    near, far = "", who.way
    if route.whole and follower is not None and not follower.unreliable:
        sender, reached = follower.routes.ends(route.sender, route.hops, frame)
        near = sender.name_at(frame) if sender is not None and sender.node.guid else near
        far = reached.name_at(frame) if reached is not None and reached.node.guid else far
    source, destination = (far, near) if route.returns else (near, far)
    return replace(who, source=who.source or source, destination=who.destination or destination)

"""Differences between the traffic and the findings of two captures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from msgspec import Struct as Record

from ibdissect.lint.finding import Finding
from ibdissect.subnet import Subnet
from ibdissect.subnet.describe import name_of
from ibdissect.subnet.files.lines import port_guid
from ibdissect.traffic.packet_counts import WIDTHS, Traffic
from ibdissect.wire.text import counted, lid_of

from .check import CheckOptions, check_reading
from .reading import Selection, open_reading

LEAST, TIMES = 100, 2
"""A conversation changed if its rate is at least TIMES higher or lower than before, and if it has at least LEAST frames on both sides."""
SHOWN = 20
"""Conversations of a kind that are printed; the screen has all."""
KINDS = ("traffic_new", "traffic_gone", "traffic_changed", "findings_new", "findings_gone")
Change = dict[str, Any]


class Contents(Record):
    """What a capture holds besides the subnet."""

    talks: dict[tuple[str, str], tuple[int, int]]
    """(source, destination) -> frames and bytes."""
    seconds: float
    findings: dict[tuple[str, str], list[Finding]]
    """By code, and sentence without what another recording changes."""
    error: str | None
    """What was not read or not checked."""


def contents_of(path: str, options: CheckOptions, subnet: Subnet, selection: Selection | None = None) -> Contents:
    """Read a capture: the traffic of the frames of `selection`, and the findings of those of the options.

    Ports are named by GUID where the subnet knows their LID, as LIDs change. CaptureError if it cannot be read.
    """
    traffic, findings = Traffic(), dict[tuple[str, str], list[Finding]]()
    with open_reading(path, catalog=options.catalog, show_keys=options.show_keys) as reading:
        for table in reading.tables(keys=False):
            traffic.feed(table, np.arange(len(table)) if selection is None else np.flatnonzero(selection.rows(table)))
        report = check_reading(reading, options)
    for finding in report.findings:
        findings.setdefault((finding.code, finding.stable), []).append(finding)
    guids, talks = {port.guid: port for port in subnet.ports() if port.guid}, dict[tuple[str, str], tuple[int, int]]()

    def end(text: str) -> str:
        lid = lid_of(text)
        found = subnet.by_lid(lid) if lid is not None else guids.get(port_guid(text))
        return f"{name_of(found.node)} port {found.number} (0x{found.guid:016x})".lstrip() if found is not None and found.guid else text

    for kind in WIDTHS:
        for source, destination, frames, size in traffic.pairs(kind):
            if source == destination == "LID 65535":  # directed routes name no ports
                continue
            ends = end(source), end(destination)
            before = talks.get(ends, (0, 0))
            talks[ends] = before[0] + frames, before[1] + size
    return Contents(talks, max(traffic.last_ns - traffic.first_ns, 1) / 1e9, findings, report.error)


def changes(before: Contents, after: Contents) -> dict[str, list[Change]]:
    """Changes by kind, each a list of JSON objects, the busiest conversations first."""
    return {
        "traffic_new": [_talk(after, one) for one in _ordered(after, after.talks.keys() - before.talks.keys())],
        "traffic_gone": [_talk(before, one) for one in _ordered(before, before.talks.keys() - after.talks.keys())],
        "traffic_changed": [
            {**_ends(one), "before": _rate(before, one), "after": _rate(after, one)}
            for one in _ordered(after, before.talks.keys() & after.talks.keys())
            if _changed(before, after, one)
        ],
        "findings_new": [_fault(after, one) for one in sorted(after.findings.keys() - before.findings.keys())],
        "findings_gone": [_fault(before, one) for one in sorted(before.findings.keys() - after.findings.keys())],
    }


def _ordered(of: Contents, some: set[tuple[str, str]]) -> list[tuple[str, str]]:
    return sorted(some, key=lambda one: (-of.talks[one][1], one))


def _ends(one: tuple[str, str]) -> Change:
    return {"source": one[0], "destination": one[1]}


def _talk(of: Contents, one: tuple[str, str]) -> Change:
    return {**_ends(one), "frames": of.talks[one][0], "bytes": of.talks[one][1]}


def _rate(of: Contents, one: tuple[str, str]) -> Change:
    """Frames, bytes, and bytes per second of the whole capture."""
    frames, size = of.talks[one]
    return {"frames": frames, "bytes": size, "bytes_per_second": round(size / of.seconds)}


def _changed(before: Contents, after: Contents, one: tuple[str, str]) -> bool:
    enough = min(before.talks[one][0], after.talks[one][0]) >= LEAST
    was, now = (of.talks[one][1] / of.seconds for of in (before, after))
    return enough and not 1 / TIMES < now / was < TIMES


def _fault(of: Contents, key: tuple[str, str]) -> Change:
    first = of.findings[key][0]
    return {
        "code": first.code, "name": first.name, "severity": first.severity.value, "message": first.message, "frame": first.frame,
        "findings": len(of.findings[key]),
    }  # fmt: skip


def texts(found: dict[str, list[Change]], limit: int | None = SHOWN) -> Iterator[str]:
    """The changes as lines: `+` came, `-` went, `~` changed. Of conversations, so many of each kind."""
    for kind in KINDS:
        sign = {"new": "+", "gone": "-"}.get(kind.partition("_")[2], "~")
        some = found.get(kind, [])
        shown = some if kind.startswith("findings") else some[:limit]
        for one in shown:
            if "code" in one:
                yield f"{sign} finding  {one['code']} {one['name']}: {one['message']}"
            elif "before" in one:
                rates = [f"{one[side]['bytes_per_second']} bytes/s" for side in ("before", "after")]
                yield f"~ traffic  {one['source']} → {one['destination']}: was {rates[0]}, is {rates[1]}"
            else:
                yield f"{sign} traffic  {one['source']} → {one['destination']}: {counted(one['frames'], 'frame')}, {one['bytes']} bytes"
        if more := len(some) - len(shown):
            yield f"{sign} traffic  {counted(more, 'more conversation')}"

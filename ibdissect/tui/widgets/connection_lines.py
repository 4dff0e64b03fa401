"""Connections as lines: a bar of the time by cause, and what is said of each, with lines that lead to frames."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator

from msgspec import Struct as Record

from ibdissect.diagnosis.connection import HEALTHY, Connection
from ibdissect.diagnosis.text import dated, label, proofs, since_until, troubled
from ibdissect.diagnosis.time_bars import TimeSlice, episodes_in, slices, widths
from ibdissect.screen_model.number_text import duration, number, octets
from ibdissect.wire.text import counted, printable

from .cells import width_of

LOOKS = {
    "transferring": ("█", "plot"), "ack_wait": ("▒", "dim"), "rnr_wait": ("R", "warning"), "loss_recovery": ("L", "again"),
    "timeout": ("T", "nak"), "idle_by_application": ("·", "dim"),
}  # fmt: skip
"""Sign and ink of each part of the time: the signs tell them apart without colours."""
LEGEND = "█ sends ▒ ACK R RNR L loss T time-out · idle"
SHORT_LEGEND = "R RNR L loss T time-out"
MARKS = {"error": "✖", "warning": "⚠", "info": "ℹ", "none": "✔"}
INKS = {"error": "error", "warning": "warning", "info": "info", "none": "good"}
BAR, LEFT = 24, 2
"""Cells of the bar of one part, and in front of each line."""
BEHIND = 64
"""Cells of what stands beside that bar."""


def bar(one: Connection, room: int) -> Iterator[tuple[str, str, str]]:
    """The time of a connection as a bar of `room` cells: for each part its key, text and ink."""
    found = slices(one)
    for part, width in zip(found, widths(found, room), strict=True):
        sign, ink = LOOKS[part.part]
        if width:
            yield part.part, sign * width, ink


class ConnectionLine(Record):
    """A line about a connection."""

    parts: tuple[tuple[str, str], ...]
    """Texts with their inks."""
    frame: int | None = None
    """It leads to this frame."""
    part: str | None = None
    """It leads to the frames of this part of the time."""

    @property
    def leads(self) -> bool:
        """Whether it leads to frames."""
        return self.frame is not None or self.part is not None


def verdict(one: Connection) -> tuple[str, str, str]:
    """Mark, cause and ink. One that is healthy, but of whose time trouble took much, has no mark of a sound one."""
    if one.verdict == HEALTHY and troubled(one) and one.shown_severity == "none":
        return MARKS["info"], "lost time", INKS["info"]
    return MARKS[one.shown_severity], label(one), INKS[one.shown_severity]


def told(one: Connection, width: int, start_ns: int, name: Callable[[str], str] = str) -> list[ConnectionLine]:
    """What is said of a connection, for a width; `start_ns`: when the capture begins."""
    ends = (end.said(name) for end in one.ends)
    sign, cause, ink = verdict(one)
    mark, of_whom = f"{sign} {cause}", f"{one.transport} {printable(' → '.join(ends))}"
    frames = f"frames {number(one.first_frame)} to {number(one.last_frame)}"
    titles = ((mark, ink), (of_whom, "strong"), (frames, "dim"))
    room = width - LEFT
    found = [ConnectionLine(())]
    for text, ink in titles:  # on as few lines as hold them whole
        before = sum(width_of(part) for part, _ in found[-1].parts)
        if before and before + 2 + width_of(text) > room:
            found.append(ConnectionLine(()))
            before = 0
        found[-1].parts += (("  " * bool(before) + text, ink),)
    found += [ConnectionLine(((line, ""),)) for line in wrapped(dated(since_until(one, start_ns), one.why), width)]
    if one.advice:
        found += [ConnectionLine(((line, "accent"),)) for line in wrapped(f"To do: {one.advice}", width)]
    for frame, what in proofs(one):
        begun = frame == one.evidence[0] and one.since_ns is not None
        since = f", {duration(max((one.since_ns or 0) - start_ns, 0))} after the start" if begun else ""
        found.append(ConnectionLine((("▸ ", "accent"), (f"frame {number(frame)}", "strong"), (f"  {what}{since}", "dim")), frame=frame))
    found += [_slice(one, part, width - LEFT) for part in sorted(slices(one), key=lambda part: -part.ns)]
    found += [ConnectionLine(((line, "dim"),)) for line in wrapped(_numbers(one), width)]
    return found


def _slice(one: Connection, part: TimeSlice, room: int) -> ConnectionLine:
    """`room`: cells there are; the bar is shorter where they are few."""
    sign, ink = LOOKS[part.part]
    times = len(episodes_in(one, part.part))
    often = f"  {counted(times, 'episode')}" if times else ""
    cells = max(min(BAR, room - BEHIND), 4)
    drawn = (sign * max(round(part.share * cells), 1)).ljust(cells)
    return ConnectionLine(
        (
            ("▸ ", "accent"),
            (f"{part.said:<29}", ""),
            (f"{part.share:>6.1%} ", "strong"),
            (f"{duration(part.ns):>8} ", ""),
            (drawn, ink),
            (often, "dim"),
        ),
        part=part.part,
    )


def _numbers(one: Connection) -> str:
    """What it carried, how it was set up, how it ended."""
    counts, up = one.counts, one.set_up
    found = [f"{counted(counts.messages, 'message', ',')}, {octets(counts.payload_bytes)}"]
    if one.times is not None and one.times.span and counts.payload_bytes:
        found[-1] += f", {octets(1e9 * counts.payload_bytes / one.times.span)}/s"
    if one.round_trip_ns is not None:
        found.append(f"round trip {duration(one.round_trip_ns)}")
    for count, what in (
        (counts.packets_sent_again, "packet"), (counts.naks, "NAK"), (counts.rnr_naks, "RNR NAK"), (counts.cnps, "CNP"),
    ):  # fmt: skip
        if count:
            found.append(counted(count, what, ",") + (" sent again" if what == "packet" else ""))
    state = up.state.replace("-", " ")
    if up.start_ns is not None and up.established_ns is not None:
        state += f" in {duration(up.established_ns - up.start_ns)}"
    found.append(f"set-up {state}" + (f", {counted(up.tries, 'REQ')}" if up.tries > 1 else ""))
    return "; ".join([*found, f"end: {one.end_state.replace('-', ' ')}"])


def wrapped(text: str, width: int, further: str = "") -> list[str]:
    """A text in lines for a width; `further` stands in front of all but the first."""
    return textwrap.wrap(printable(text), max(width - LEFT - 1, 20), subsequent_indent=further)

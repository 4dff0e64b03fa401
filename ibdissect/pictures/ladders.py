"""Ladders of the worst conversations, packet by packet: an upright line for each end, an arrow for each packet."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec import Struct as Record

from ibdissect.dfilter.compile import compile_filter
from ibdissect.diagnosis.connection import Connection
from ibdissect.lint.finding import Finding
from ibdissect.screen_model.connections import connection_of, points_of
from ibdissect.screen_model.conversations import conversation_filter
from ibdissect.screen_model.ladder import AGAIN, Ladder, shorter
from ibdissect.screen_model.number_text import duration
from ibdissect.screen_model.related_frames import filter_for_frame
from ibdissect.screen_model.stalls import stalls

from .conversation_rows import troubled
from .portrait import Portrait

SHOWN = 4
"""Ladders of a capture."""
BEFORE, ALL = 6, 20
"""Packets drawn before the one that matters, and in all."""
FED = 200
"""Earlier packets that are read to recognise repetitions among the packets drawn."""
REACH = 1 << 14
"""Frames before and after it that are searched for packets of its conversation."""
LEFT, RIGHT, STEP, TOP = 150, 790, 26, 44
"""Where the first and the last end stand, the distance of packets, and the first packet, in pixels."""
STILL = 14
"""Pixels of a line of a stall."""
TEXT = 92
"""Characters of a packet's line."""


class Arrow(Record):
    frame: int
    when: str
    x1: float
    x2: float
    y: float
    text: str
    level: str
    """Severity of its worst finding; empty without one."""
    title: str
    """What is wrong, and the rules that say so."""
    again: bool


class Still(Record):
    """Time in which nothing was sent, to scale."""

    y: float
    height: float
    text: str


class Drawn(Record):
    """The packets around the one that matters."""

    title: str
    filter: str
    ends: list[tuple[float, str]]
    arrows: list[Arrow]
    stills: list[Still]
    height: float


def ladders(portrait: Portrait) -> list[Drawn]:
    """The conversations of the worst findings, then those in which most went wrong."""
    made: dict[str, Drawn] = {}
    for title, text, frame in _wanted(portrait):
        if text not in made and (ladder := _ladder(portrait, text, frame)).steps:
            made[text] = _drawn(portrait, title, text, ladder, _owner(portrait, frame))
        if len(made) == SHOWN:
            break
    return list(made.values())


def _wanted(portrait: Portrait) -> Iterator[tuple[str, str, int]]:
    """Title, display filter, and the frame to show."""
    talks, connections = portrait.shot.conversations, portrait.study.connections.all
    worst: dict[str, Finding] = {}
    for finding in sorted(portrait.report.findings, key=lambda one: -one.severity.rank):
        if finding.frame and finding.severity.rank > 1:
            worst.setdefault(finding.code, finding)
    for finding in list(worst.values())[:SHOWN]:
        text = filter_for_frame(portrait.model, finding.frame, talks, connections)
        if text is not None:
            yield f"{finding.code} {finding.name}, frame {finding.frame}", text, finding.frame
    bad = portrait.study.repeated
    for one in troubled(talks)[:SHOWN]:
        parts = ((one.repeated, "repeated"), (one.missing, "missing"), (one.naks, "NAK"), (one.not_ready, "RNR NAK"))
        troubles = ", ".join(f"{count} {what}" for count, what in parts if count)
        frames = [frame for frame in bad if frame >= one.first_frame]
        yield f"{one.service} {one.near} and {one.far}: {troubles}", conversation_filter(one), min(frames, default=one.first_frame)


def _ladder(portrait: Portrait, text: str, frame: int) -> Ladder:
    """The packets that a filter selects around a frame."""
    model = portrait.model
    found = compile_filter(text, model.catalog, first_ns=model.first_ns)
    frames, done = list[int](), max(frame - REACH, 0)
    while len(chunk := model.index.after(done, REACH)) and done < frame + REACH:
        done = chunk.first + len(chunk) - 1
        frames += (np.flatnonzero(model.matches(found, chunk)) + chunk.first).tolist()
        if sum(one > frame for one in frames) >= ALL:
            break
    place = int(np.searchsorted(frames, frame))
    start = max(min(place - BEFORE, len(frames) - ALL), 0)
    fed = frames[max(start - FED, 0) : start + ALL]
    ladder = Ladder(model.presenter(fed[-1] if fed else 0), portrait.study.repeated)
    ladder.feed(model.table(fed), np.arange(len(fed)), fed)
    ladder.steps = ladder.steps[-len(frames[start : start + ALL]) :]
    return ladder


def _owner(portrait: Portrait, frame: int) -> Connection | None:
    """The connection of a frame, which says what its stalls waited for."""
    diagnosis, model = portrait.study.stories.diagnosis, portrait.model
    if diagnosis is None:
        return None
    return connection_of(diagnosis.connections, model.table([frame]), frame, points_of(diagnosis.connections, model.table))


def _drawn(portrait: Portrait, title: str, text: str, ladder: Ladder, one: Connection | None) -> Drawn:
    ends, steps = ladder.ends, ladder.steps
    width = (RIGHT - LEFT) / max(len(ends) - 1, 1)
    at = {name: LEFT + i * width for i, name in enumerate(ends)}
    arrows, stills, findings = [], list[Still](), portrait.model.findings
    found, y = stalls(steps, one), float(TOP)
    for i, step in enumerate(steps):
        if (stall := found.get(i)) is not None:
            stills.append(Still(y - STEP / 2, stall.lines * STILL, f"{duration(stall.ns)} {stall.what}"))
            y += stall.lines * STILL
        x1, x2 = at.get(step.source, LEFT), at.get(step.destination, RIGHT)
        worst, codes = findings.worst(step.frame), dict.fromkeys(findings.codes(step.frame, 1).get(step.frame, ()))
        arrows.append(Arrow(
            step.frame, f"+{duration(step.time_ns - steps[i - 1].time_ns)}" if i else "", x1, x2, y, shorter(step.label, TEXT),
            worst.value if worst is not None else "", ", ".join([*[step.note] * bool(step.note), *codes]), step.mark == AGAIN,
        ))  # fmt: skip
        y += STEP
    return Drawn(title, text, [(x, portrait.name(name)) for name, x in at.items()], arrows, stills, y)

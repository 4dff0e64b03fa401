"""The diagnosis of connections that several points captured: the story of the point that knows most, with what the others add."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ibdissect.diagnosis.common_causes import one_sided, shared_causes
from ibdissect.diagnosis.connection import AtOtherPoint, CapturePoint, Connection, Diagnosis
from ibdissect.wire.text import counted, printable

from .comparison import Comparison
from .fates import Fate, Tries, fates
from .same_connections import LOSS, TIMEOUT, Same, same_connections

ANSWERED = ("complete", "partly", "refused")
"""States of a set-up in which a REQ was answered."""


def diagnosed(comparison: Comparison, diagnoses: Sequence[Diagnosis]) -> Diagnosis:
    """One diagnosis of several captures of the same traffic, of which each has its own; times are those of the first point's clock."""
    same = same_connections(diagnoses, comparison.clocks)
    names = [printable(point.name) for point in comparison.points]
    found = [_told(one, fate, names) for one, fate in zip(same, fates(comparison, same), strict=True)]
    found.sort(key=lambda one: (one.start_ns, one.capture or 0, one.first_frame))
    points = tuple(_point(comparison, i, diagnosis) for i, diagnosis in enumerate(diagnoses))
    start, end = (pick(each - point.clock_ns for point in points for each in (point.start_ns, point.end_ns) if each) for pick in (min, max))
    notes = [*one_sided(found), *(f"{name}: {note}" for name, point in zip(names, points, strict=True) for note in point.notes)]
    frames = sum(diagnosis.frames for diagnosis in diagnoses)
    return Diagnosis(" + ".join(names), frames, found, shared_causes(found), notes, start, end, points)


def _point(comparison: Comparison, number: int, diagnosis: Diagnosis) -> CapturePoint:
    point, clock = comparison.points[number], comparison.clocks.segments[number][0]
    alone = one_sided(diagnosis.connections)
    notes = (*one_sided(diagnosis.connections, elsewhere=True), *(note for note in diagnosis.notes if note not in alone))
    return CapturePoint(
        point.name, diagnosis.path, diagnosis.frames, diagnosis.start_ns, diagnosis.end_ns, clock.offset_ns, clock.uncertainty_ns, notes
    )


def _told(same: Same, fate: Fate, names: list[str]) -> Connection:
    """A connection as the point tells it that knows most, with what the others add."""
    some = next(iter(same.at.values()))
    point = same.teller(fate.places, lost=any(each.to != some.requester for each in fate.lost))
    one = same.at[point]
    elsewhere = tuple(
        AtOtherPoint(i, other.first_frame, other.last_frame, other.cause) for i, other in sorted(same.at.items()) if i != point
    )
    one = replace(one, capture=point, point=names[point], elsewhere=elsewhere, lost=tuple(fate.lost), hosts=None)
    one = _later(one, same.spans[point][0] - one.start_ns)
    tries = fate.tries.get(point)
    if tries is not None and tries.sent:
        return _silent(one, same, fate, tries, names)
    said = _losses(one, fate, names)
    return replace(one, why=f"{one.why}; {said}", advice=_look(one, names) or one.advice) if said else one


def _later(one: Connection, by: int) -> Connection:
    """The same with other times."""

    def moved(time: int | None) -> int | None:
        return time + by if time is not None else None

    up = replace(one.set_up, start_ns=moved(one.set_up.start_ns), established_ns=moved(one.set_up.established_ns))
    return replace(
        one, start_ns=one.start_ns + by, last_ns=one.last_ns + by, since_ns=moved(one.since_ns), until_ns=moved(one.until_ns),
        end_ns=moved(one.end_ns), set_up=up,
        episodes=tuple(replace(each, start_ns=each.start_ns + by, end_ns=each.end_ns + by) for each in one.episodes),
    )  # fmt: skip


def _silent(one: Connection, same: Same, fate: Fate, tries: Tries, names: list[str]) -> Connection:
    """A connection whose requests nobody answered: where they were lost, or that they arrived."""
    side = 0 if tries.transaction else one.requester
    asks, answers, here = one.ends[side].address, one.ends[1 - side].address, names[tries.point]
    later = [i for i in fate.passed if fate.places[i] > fate.places[tries.point]]
    places = [(after, before) for (after, before), _ in tries.lost.most_common() if before >= 0]
    if later and not tries.arrived[later[-1]] and tries.missing[later[-1]]:
        if not places:
            said = f"{names[later[-1]]} shows none of them: lost on the way, or not captured there"
            return replace(one, why=f"{_certain(one)}; {said}")
        after, before = places[0]
        advice = (
            f"Look between {names[after]} and {names[before]} for what drops packets from {asks} to {answers}: MTU, error counters and "
            "buffers of the ports, filters, routes."
        )
        return _located(one, _where_lost(tries, places, names), advice, [names[after], names[before]])
    far = max((i for i in tries.arrived if tries.arrived[i]), key=lambda i: fate.places[i], default=-1)
    if far < 0:
        return one
    reached = f"{_of(tries.arrived[far], tries.sent)} reached {names[far]}{_unseen(tries, far, names)}"
    replied = [(i, frames) for i, frames in tries.replies.items() if i in later]
    if replied:
        there, frames = min(replied, key=lambda each: fate.places[each[0]])  # the last point on their way back
        answered = counted(len(frames), "answer")
        said = f"{reached}; {answered} of {answers}, from frame {frames[0]} of {names[there]} on, did not come to {here}"
        advice = f"Look between {names[there]} and {here} for what drops packets from {answers} to {asks}."
        return _located(one, f"{said}: lost on the way back", advice, [names[there], here])
    if tries.transaction and any(other.set_up.state in ANSWERED for i, other in same.at.items() if i in later):
        said = f"{reached}, which shows an answer of {answers} that did not come to {here}: lost on the way back"
        advice = f"Look between {names[far]} and {here} for what drops packets from {answers} to {asks}."
        return _located(one, said, advice, [names[far], here])
    said = f"{reached}, which shows no answer either: {answers} is silent, or packets are lost behind {names[far]}"
    if places:
        said += f"; {_where_lost(tries, places, names)}"
    return replace(one, why=f"{one.why}; {said}", detail={**one.detail, "reached": names[far]})


def _where_lost(tries: Tries, places: list[tuple[int, int]], names: list[str]) -> str:
    """Between which points its sendings were lost, as far as these show: `all 8 sendings were lost between tap and server`."""
    (after, before), likely = places[0], "most likely " if tries.likely else ""
    number, where = tries.lost[places[0]], f"{likely}lost between {names[after]} and {names[before]}"
    if len(places) == 1 and not tries.arrived[before]:
        number = max(number, tries.missing[before])
        return f"{_of(number, tries.sent)} {_was(number)} {where}{_unseen(tries, before, names)}"
    more = "".join(f", {tries.lost[one, two]} between {names[one]} and {names[two]}" for one, two in places[1:])
    return f"{_of(number, tries.sent)} {_was(number)} {where}{more}"


def _unseen(tries: Tries, point: int, names: list[str]) -> str:
    """How many of its sendings a point cannot tell of; empty if it can of all."""
    number = tries.sent - tries.arrived[point] - tries.missing[point]
    which = "the other one was" if number == 1 else f"the other {number} were"
    return f" ({names[point]} was not capturing while {which} sent)" if number > 0 else ""


def _of(number: int, of: int) -> str:
    """`all 8 sendings`, `3 of 8 sendings`."""
    if number < of:
        return f"{number} of {of} sendings"
    return "its only sending" if of == 1 else f"all {of} sendings"


def _was(number: int) -> str:
    return "was" if number == 1 else "were"


def _certain(one: Connection) -> str:
    """What is said of it without what only follows from silence."""
    return one.why.removesuffix(one.guess)


def _located(one: Connection, said: str, advice: str, between: list[str]) -> Connection:
    """A connection with the place where its packets are lost: that is nobody's fault at its ends."""
    return replace(one, why=f"{_certain(one)}; {said}", advice=advice, detail={**one.detail, "lost_between": between}, blamed=None)


def _look(one: Connection, names: list[str]) -> str:
    """What to do about losses that took much time: where most packets were lost; empty if that is not between two points."""
    most = max(one.lost, key=lambda each: each.packets, default=None)
    if most is None or most.before is None or one.cause not in (LOSS, TIMEOUT):
        return ""
    where = f"Look between {names[most.after]} and {names[most.before]}"
    return f"{where} for what drops packets: error counters, buffers, PFC and ECN settings."


def _losses(one: Connection, fate: Fate, names: list[str]) -> str:
    """Where packets of a connection were lost; empty if none was, and nothing is known."""
    parts = []
    for each in fate.lost:
        where = f"between {names[each.after]} and {names[each.before]}" if each.before is not None else f"behind {names[each.after]}"
        was = "was" if each.packets == 1 else "were"
        parts.append(
            f"{counted(each.packets, 'packet', ',')} to {one.ends[each.to].address} {was} lost {where} (the first is frame "
            f"{each.first_frame} of {names[each.after]})"
        )
    if not parts and one.cause == LOSS and len(fate.passed) > 1 and not fate.unknown:
        first, last = names[fate.passed[0]], names[fate.passed[-1]]
        parts.append(f"none of them between {first} and {last}: before {first}, or behind {last}")
    return ", ".join(parts)

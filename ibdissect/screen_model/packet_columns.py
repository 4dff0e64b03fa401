"""Columns of the packet list: those that it can show, their widths and their contents."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from types import MappingProxyType

from ibdissect.dissect.named_values import MESSAGE
from ibdissect.wire.catalog import Catalog
from ibdissect.wire.text import printable

from .capture_model import INTERFACE, PacketLine


class TimeFormat(StrEnum):
    """How the time column reads; `t` goes through them."""

    RELATIVE = "since the first frame"
    DELTA = "since the frame shown before"
    CAPTURED = "since the frame captured before"
    ABSOLUTE = "time of day, UTC"
    DATE = "date and time, UTC"
    LOCAL = "date and time of this machine"


@dataclass(frozen=True, slots=True)
class ListColumn:
    """A column; `field` is a filter name for one that the user added."""

    key: str
    title: str
    align: str = "left"
    least: int = 0
    """Cells it needs at least."""
    most: int = 0
    """Cells it is given at most; 0: what is left."""
    drop: int = 0
    """Columns with a higher number go first when space is short; 0 stays. Those that the user added (OWN) go last."""
    field: str = ""


OWN = 1
COLUMNS = (
    ListColumn("number", "No.", "right", 5, 10),
    ListColumn("time", "Time", "right", 11, 27, 2),
    ListColumn("source", "Source", "left", 9, 39),
    ListColumn("destination", "Destination", "left", 9, 39),
    ListColumn("protocol", "Proto", "left", 5, 9),
    ListColumn("p_key", "P_Key", "left", 5, 5, 3),
    ListColumn("length", "Len", "right", 5, 6, 4),
    ListColumn("info", "Info"),
)
BY_KEY = {column.key: column for column in COLUMNS}
DEFAULT = tuple(column.key for column in COLUMNS)
DELTA_CAPTURED = ListColumn("frame.time_delta", "Δ captured", "right", 9, 12, OWN, "frame.time_delta")
DELTA_SHOWN = ListColumn("delta_shown", "Δ shown", "right", 9, 12, OWN)
DELTA_CONVERSATION = ListColumn("delta_conversation", "Δ conv.", "right", 9, 12, OWN)
"""Time since the frame before: the one captured, the one shown, the one of the same conversation."""
MORE_COLUMNS = (
    DELTA_CAPTURED,
    DELTA_SHOWN,
    DELTA_CONVERSATION,
    ListColumn("ibdissect.request_frame", "Answers", "right", 7, 10, OWN, "ibdissect.request_frame"),
    ListColumn("ibdissect.response_frame", "Answered in", "right", 11, 11, OWN, "ibdissect.response_frame"),
    ListColumn("ibdissect.response_time", "Response", "right", 8, 8, OWN, "ibdissect.response_time"),
    ListColumn(f"{MESSAGE}kind", "Message", "left", 6, 13, OWN, f"{MESSAGE}kind"),
    *(ListColumn(MESSAGE + name, title, "right", 8, 10, OWN, MESSAGE + name) for name, title in (
        ("first_frame", "Msg first"), ("last_frame", "Msg last"), ("bytes", "Msg bytes"), ("latency", "Msg time"), ("retries", "Msg again"),
        ("naks", "Msg NAKs"))),
    ListColumn(INTERFACE, "Interface", "left", 6, 16, OWN, INTERFACE),
)  # fmt: skip
"""Columns that `v` offers besides; `field` is the filter name of their values."""
POINT = ListColumn(INTERFACE, "Point", "left", 6, 12, field=INTERFACE)
"""Of the merged capture of several points."""
LEAST_INFO, GOOD_INFO = 14, 30
"""Cells of the last column, which distinguishes rows: for the first, other columns are dropped; for the second, addresses are cut."""
TIME_OF_DAY = len("22:13:20.214 031")
"""Cells of a time without its date."""
DATED = (TimeFormat.DATE, TimeFormat.LOCAL)
"""Times that begin with a date."""
LONGEST_TITLE = 14
"""Cells of a field's label that heads a column: values are often shorter."""
OFFERED = 6
"""Names of fields that are offered at once."""
NARROWEST = 3
"""Cells of a column that the user makes narrower."""
GUTTER = 4
"""Mark and finding, in front of the first column."""


def added(field: str, catalog: Catalog | None = None) -> ListColumn:
    """The column of a field, headed by its label as in the tree; without one, or if it is long, by the end of the field's name."""
    if field == DELTA_CAPTURED.field:
        return DELTA_CAPTURED
    known = catalog.names.get(field) if catalog is not None else None
    label = printable(known[0].label) if known else ""
    title = label if 0 < len(label) <= LONGEST_TITLE else field.rpartition(".")[2]
    return ListColumn(field, title, "left", 8, 24, OWN, field)


def typed(text: str, catalog: Catalog) -> str:
    """The name of the field that a user typed; empty if no column can have its values."""
    from ibdissect.dfilter.names import names_of  # not needed for the first rows

    source = names_of(catalog).find(text.strip())
    return source.name if source is not None and source.kind != "none" and not source.structs else ""


def common_start(names: Sequence[str]) -> str:
    """What all of some names, one at least, begin with."""
    low, high = min(names), max(names)  # in between all begin as these two do
    return low[: next((i for i, pair in enumerate(zip(low, high, strict=False)) if pair[0] != pair[1]), min(len(low), len(high)))]


def completed(text: str, catalog: Catalog) -> tuple[str, str]:
    """The name of a field as far as only one way leads on, and some names that begin so."""
    from ibdissect.dfilter.complete import complete  # not needed for the first rows

    text = text.strip()
    found = [one.text for one in complete(text, len(text), catalog) if not one.start]
    names = [name for name in found if typed(name, catalog)] or found
    if not names:
        return text, "no field begins so"
    more = common_start(names)
    more = more if more.startswith(text) or len(names) == 1 else text
    known = text.rfind(".") + 1 if all(name.startswith(text) for name in names) else 0
    said = ", ".join(name[known:] for name in names[:OFFERED]) if len(names) > 1 else ""
    return more, said + (" …" if len(names) > OFFERED else "")


def with_fields(shown: Sequence[ListColumn], fields: Sequence[str], catalog: Catalog | None = None) -> list[ListColumn]:
    """The columns with those of fields (a plugin's) in front of the last one; each once."""
    known, more = {column.key for column in shown}, {column.key: column for column in MORE_COLUMNS}
    return [*shown[:-1], *(more.get(field) or added(field, catalog) for field in fields if field not in known), *shown[-1:]]


def recalled(keys: Sequence[str], catalog: Catalog) -> tuple[list[ListColumn], list[str]]:
    """The columns of remembered keys, and the keys that mean nothing."""
    known = BY_KEY | {column.key: column for column in MORE_COLUMNS}
    found, unknown = [], []
    for key in keys:
        if key in known:
            found.append(known[key])
        elif catalog.names.get(key) or typed(key, catalog):
            found.append(added(key, catalog))
        else:
            unknown.append(key)
    return found, unknown


def time_text(line: PacketLine, how: TimeFormat, first_ns: int, shift_ns: int = 0) -> str:
    """The time column, to the microsecond; groups of three after the point. The list knows the frame before.

    `shift_ns` is added to times of day.
    """
    if how is TimeFormat.RELATIVE:
        return seconds_text(line.time_ns - first_ns)
    time_ns = line.time_ns + shift_ns
    moment = datetime.fromtimestamp(time_ns // 1_000_000_000, None if how is TimeFormat.LOCAL else UTC)
    day = moment.strftime("%Y-%m-%d ") if how in DATED else ""
    micro = time_ns // 1000 % 1_000_000
    return f"{day}{moment:%H:%M:%S}.{micro // 1000:03} {micro % 1000:03}"


LATEST = datetime(9999, 1, 1, tzinfo=UTC)
"""Times of day end before it."""


def shift_of(text: str, time_ns: int) -> int:
    """Nanoseconds by which times of day are shifted: `+1.5` or `-3600` (seconds), or the date and time (UTC unless it says more) of a frame
    captured at `time_ns`. Raises ValueError.
    """
    text = text.strip()
    if re.fullmatch(r"[+-]\d{1,12}(\.\d{1,9})?", text):
        whole, _, part = text[1:].partition(".")
        shift = (int(whole) * 1_000_000_000 + int(part.ljust(9, "0") or 0)) * (-1 if text[0] == "-" else 1)
    else:
        moment = datetime.fromisoformat(text)
        moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        wanted = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000
        shift = wanted - time_ns
    if not 0 <= time_ns + shift < int(LATEST.timestamp()) * 1_000_000_000:
        raise ValueError("outside the years 1970 to 9998")
    return shift


def seconds_text(ns: int) -> str:
    """`0.214 031`"""
    sign, micro = "-" if ns < 0 else "", abs(ns) // 1000
    return f"{sign}{micro // 1_000_000}.{micro // 1000 % 1000:03} {micro % 1000:03}"


def widths(
    columns: Sequence[ListColumn], wanted: Mapping[str, int], width: int, chosen: Mapping[str, int] = MappingProxyType({})
) -> dict[str, int]:  # fmt: skip
    """Cells of each column shown; what has no room is not in it. `wanted`: widest text seen in each column; `chosen`: by the user."""
    shown = list(columns)
    while True:
        given = {
            column.key: chosen.get(column.key) or min(max(column.least, wanted.get(column.key, 0), len(column.title)), column.most)
            for column in shown
            if column.key != "info"
        }
        left = width - GUTTER - sum(given.values()) - 2 * len(shown)
        has_info = any(column.key == "info" for column in shown)
        least = LEAST_INFO if has_info else 0
        good = GOOD_INFO if has_info else 0
        if left < good:
            # Addresses give way before anything is dropped: GIDs and names are long.
            for key in ("source", "destination"):
                if key in given and left < good:
                    less = min(given[key] - min(given[key], BY_KEY[key].least + 3), good - left) if key not in chosen else 0
                    given[key] -= less
                    left += less
        droppable = [column for column in shown if column.drop]
        if left < least and droppable and all(column.key == "time" or column.drop == OWN for column in droppable):
            # Without a time and what was asked for rows say little: dates go first, then long titles, then addresses and
            # at last values are as short as can be.
            own = {column.key: max(column.least, wanted.get(column.key, 0)) for column in droppable if column.drop == OWN}
            ends = {key: BY_KEY[key].least for key in ("source", "destination")}
            values = {column.key: column.least for column in droppable if column.drop == OWN}
            for key, enough in (("time", TIME_OF_DAY), *own.items(), *ends.items(), *values.items()):
                less = min(max(given.get(key, 0) - enough, 0), least - left) if key == "time" or key not in chosen else 0
                if less:
                    given[key] -= less
                    left += less
        if left >= least or not droppable:
            if has_info:
                given["info"] = max(left, 1)
            return given
        shown.remove(max(droppable, key=lambda column: (column.drop, given[column.key])))

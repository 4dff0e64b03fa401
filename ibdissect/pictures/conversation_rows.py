"""Conversations and management requests as rows of the page: their speed and their losses, those with trouble first."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct as Record

from ibdissect.mad.response_times import Exchange, ResponseTimes
from ibdissect.report.charts import polyline
from ibdissect.screen_model.conversations import Conversation, trouble
from ibdissect.screen_model.number_text import duration

from .portrait import Portrait

SHOWN = 100
"""Lines of each table."""
SPARK = (96, 16)
"""Width and height of a conversation's line over time."""


class ConversationRow(Record):
    """A conversation between two queue pairs, or requests of management between two ends."""

    one: Conversation | Exchange
    near: str
    far: str
    times: list[str]
    """Median, 99 % and longest time to the acknowledgement; empty where none was matched."""
    nanoseconds: list[int]
    """The same to sort by; 0 where none was matched."""
    spark: str = ""


def conversations(portrait: Portrait) -> tuple[list[ConversationRow], int]:
    """Conversations, and the number of further ones."""
    found = portrait.shot.conversations
    shown = sorted(found, key=lambda one: (-trouble(one), -one.total))[:SHOWN]
    name = portrait.name
    made = [
        ConversationRow(
            one, _end(name(str(one.near)), one.near_qp), _end(name(str(one.far)), one.far_qp), *_times(one.times),
            polyline(one.spark, *SPARK),
        )
        for one in shown
    ]  # fmt: skip
    return made, len(found) - len(shown)


def requests(portrait: Portrait) -> tuple[list[ConversationRow], int]:
    """Management requests by pair of ends, and the number of further pairs."""
    found = portrait.shot.exchanges
    shown = sorted(found, key=lambda one: (-one.unanswered, -one.retries, -one.requests))[:SHOWN]
    name = portrait.name
    made = [ConversationRow(one, name(str(one.requester)), name(str(one.responder)), *_times(one.times)) for one in shown]
    return made, len(found) - len(shown)


def troubled(conversations: Sequence[Conversation]) -> list[Conversation]:
    """Conversations in which something went wrong, the worst first."""
    return sorted((one for one in conversations if trouble(one)), key=lambda one: (-trouble(one), -one.total))


def _end(name: str, qp: int) -> str:
    return f"{name} QP 0x{qp:06x}" if qp >= 0 else name


def _times(times: ResponseTimes | None) -> tuple[list[str], list[int]]:
    if times is None or not times.count:
        return ["", "", ""], [0, 0, 0]
    found = [times.percentile(0.5), times.percentile(0.99), times.most]
    return [duration(ns) for ns in found], found

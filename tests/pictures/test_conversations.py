"""The tables of conversations hold latency and loss, the worst first."""

from __future__ import annotations

from pathlib import Path

from ibdissect.pictures.conversations import conversations, requests, troubled
from ibdissect.screen_model.conversations import trouble
from tests.screen_model import made

from .looks import portrait


def test_latency_of_a_clean_conversation(repo: Path) -> None:
    with portrait(repo / "captures/rxe-rping.pcap") as found:
        (talk,), more = conversations(found)
    assert more == 0 and not trouble(talk.one) and talk.one.counted
    assert talk.near.endswith("QP 0x000011") or talk.far.endswith("QP 0x000011")
    assert all(talk.times) and talk.nanoseconds == sorted(talk.nanoseconds) and talk.nanoseconds[0] > 0
    assert len(talk.spark.split()) == 64
    messages = found.model.answers.messages
    assert messages is not None
    columns = messages.columns()
    known = columns.latency_ns[(columns.place >= 0) & (columns.latency_ns >= 0)]
    times = talk.one.times
    assert times is not None and (times.count, times.least, times.most) == (len(known), known.min(), known.max())


def test_the_worst_comes_first(tmp_path: Path) -> None:
    with portrait(made.capture(tmp_path)) as found:
        numbers = [trouble(talk.one) for talk in conversations(found)[0]]
        worst = troubled(found.shot.conversations)
    assert numbers == sorted(numbers, reverse=True) and numbers[0] > numbers[-1] == 0
    assert [trouble(one) for one in worst] == [number for number in numbers if number]


def test_requests_of_management(repo: Path) -> None:
    with portrait(repo / "captures/opensm-first-sweep.pcap") as found:
        (sweep,), more = requests(found)
    assert more == 0 and sweep.one.answered and not sweep.one.unanswered
    assert (sweep.near, sweep.far) == ("LID 65535", "directed routes") and all(sweep.times)

"""The page tells of connections that failed or were slow, the worst first, with bars that add up."""

from __future__ import annotations

import pytest

from ibdissect.report.stories import stories
from tests.diagnosis.lab import MS, SEC, START, TIMEOUT, Lab, joined


def lost(host: int = 2) -> Lab:
    lab = Lab(b=bytes([10, 0, 0, host]), qb=0x200 + host)
    lab.good(MS, 100, 5)
    for n in range(8):
        lab.ask(SEC + n * TIMEOUT + host, 105)
    return lab


def whole() -> Lab:
    late = Lab(b=bytes([10, 0, 0, 9]))
    late.good(0, 100, 3)
    late.good(5 * SEC, 103, 3)
    return joined(lost(2), lost(3), late)


def test_the_worst_are_told_with_their_time() -> None:
    found = stories(whole().diagnosis(), START, lambda address: {"10.0.0.2": "node2"}.get(address, address))
    assert found.counts == "3 connections: 2 failed, 1 healthy" and found.trouble and not found.more
    one, two = found.told
    assert one.who.startswith("RC ") and "node2 QP 0x000202" in one.who and "10.0.0.3" in two.who
    assert one.cause == "retries-exhausted" and one.severity == "error" and one.when == "1.000 s (22:13:21.000 UTC) to 1.140 s"
    assert [proof.what for proof in one.proofs] == ["where it began", "what decides it"]
    assert one.numbers == "6 messages, 384 bytes, 7 packets sent again" and "waiting for time-outs" in one.time
    assert sum(part.width for part in one.parts) == pytest.approx(420) and one.parts[0].x == 0
    assert [part.x for part in one.parts[1:]] == pytest.approx([one.parts[0].width, one.parts[0].width + one.parts[1].width])
    assert one.life == "its first frame is 7, its last 41 (0.001 s to 1.140 s); its set-up is not captured"
    assert found.begins.startswith("It begins on 2023-11-14")
    assert len(found.where) == 4 and "waiting for time-outs" in found.where[1] and "node2 QP 0x000202 140 ms" in found.where[2]


def test_connections_of_a_culprit_stand_with_it() -> None:
    labs = []
    for i in range(3):
        labs.append(Lab(b=bytes([10, 0, 0, 9]), qa=0x100 + i, qb=0x200 + i))
        labs[-1].good(0, 1000 * i + 100, 5)
        for n in range(8):
            labs[-1].ask(SEC + n * TIMEOUT, 1000 * i + 105)
    found = stories(joined(*labs, whole()).diagnosis(), START)
    (culprit,) = [one for one in found.shared if "10.0.0.9" in one.why]
    assert culprit.severity == "error" and culprit.when == "since 1.000 s (22:13:21.000 UTC) at the latest, until at least 1.140 s"
    assert culprit.advice and len(culprit.told) == 3
    assert not any(one.advice for one in culprit.told) and not any("10.0.0.9 QP 0x000200" in one.who for one in found.told)
    assert found.every[: len(culprit.told)] == found.shared[0].told


@pytest.mark.slow
def test_of_many_some_are_told() -> None:
    found = stories(joined(*map(lost, range(2, 24))).diagnosis(), START)
    assert (len(found.told), found.more, found.hidden) == (20, 2, "2 failed")


def test_without_trouble() -> None:
    lab = Lab()
    lab.good(0, 100, 3)
    found = stories(lab.diagnosis(), START)
    assert not found.trouble and found.counts == "1 connection: 1 healthy"


def test_every_severity_of_a_connection_has_a_badge_or_none() -> None:
    """A connection that is told without being at fault has none; the page of such a capture ended in an error of its template."""
    from ibdissect.report.html import environment

    draw = environment().get_template("macros.html").module
    badges = {level: str(draw.badge(level)) for level in ("error", "warning", "info", "none")}  # type: ignore[attr-defined]
    assert badges.pop("none") == "" and all(f'class="badge {level}"' in badge and level in badge for level, badge in badges.items())

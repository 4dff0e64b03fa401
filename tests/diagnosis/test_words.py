"""Do the sentences say who, since when and what proves it?"""

from __future__ import annotations

import pytest

from ibdissect.diagnosis.words import SAID, duration, often, share
from tests.diagnosis.lab import Lab
from tests.diagnosis.test_causes import CAUSES


@pytest.mark.parametrize(("ns", "text"), [
    (0, "0 ns"), (999, "999 ns"), (1000, "1 us"), (61_530_000, "61.5 ms"), (3_820_000_000, "3.82 s"), (5_000_000_000_000, "5,000 s"),
])  # fmt: skip
def test_durations(ns: int, text: str) -> None:
    assert duration(ns) == text


def test_numbers() -> None:
    assert (often(1), often(8), often(12)) == ("once", "eight times", "12 times")
    assert (share(41, 100), share(0, 100), share(1, 1000), share(1, 0)) == ("41 %", "0 %", "0.1 %", "0 %")


WORDS = {
    "exhausted": "10.0.0.1 sent PSN 105 eight times in 140 ms, it was never acknowledged, and 10.0.0.1 gave up; "
    "10.0.0.2 sends afterwards (frame 24), so only this queue pair is dead",
    "path MTU": "it holds 4096 bytes, nothing above 64 bytes was acknowledged on this path, a smaller one passed just before: "
    "larger packets vanish",
    "refused": "10.0.0.2 refused the connection that 10.0.0.1 asked for: reason 12, primary remote port GID rejected",
    "unanswered": "10.0.0.1 sent its REQ four times in 300 ms and got no answer from 10.0.0.2, and gave up",
    "RNR exhausted": "10.0.0.2 had no receive buffer for PSN 103 twice, and 10.0.0.1, whose RNR retry count is 1, gave up",
    "parts of a READ": "10.0.0.2 began its answer to a READ of 1000 bytes with a later part",
    "READ": "10.0.0.2 answered a READ of 1000 bytes with 500 bytes",
    "ICRC": "10.0.0.1 writes the ICRC as a constant, in all 6 packets that can be checked",
    "partition": "10.0.0.1 sends with P_Key 0x8002, agreed was 0x8001: 10.0.0.2 drops its packets silently",
    "MTU mismatch": "10.0.0.1 sent 4096 bytes in a packet, the path MTU is 1024: 10.0.0.2 refused it (NAK invalid request)",
}  # fmt: skip


@pytest.mark.parametrize("name", WORDS)
def test_what_is_said(name: str) -> None:
    lab = Lab()
    CAUSES[name][2](lab)
    (found,) = [one for one in lab.diagnosis().connections if one.ends[0].address == "10.0.0.1"]
    assert WORDS[name] in found.why


def test_every_cause_has_a_sentence() -> None:
    causes = {cause for cause, _, _ in CAUSES.values()} | {"duplicate-qp-after-restart"}
    assert causes <= SAID.keys() and SAID.keys() - causes == {"healthy", "cannot-tell"}


def test_what_is_not_captured_is_not_told() -> None:
    lab = Lab()
    CAUSES["PSN"][2](lab)
    assert "10.0.0.2 takes it for a repetition, acknowledges it" in lab.only().why
    lab.frames = [(time, frame) for time, frame in lab.frames if frame[26:30] == lab.a]
    assert [one.why for one in lab.diagnosis().connections if "acknowledges" in one.why] == []

"""A lane knows who sends to which queue pair."""

from __future__ import annotations

from tests.diagnosis.lab import MS, US, B, C, Lab, joined


def test_equal_numbers_of_queue_pairs_are_lanes_of_their_own() -> None:
    """Of two hosts that ask one, and of one that is asked by a host and asks it."""
    labs = Lab(), Lab(a=C), Lab(a=B, b=C)
    for number, lab in enumerate(labs):
        lab.good(number * 10 * US, 100 + 1000 * number, 3 + number)
    found = joined(*labs).diagnosis().connections
    told = {(one.ends[0].address, one.ends[1].address, one.counts.messages) for one in found}
    assert told == {("10.0.0.1", "10.0.0.2", 3), ("10.0.0.3", "10.0.0.2", 4), ("10.0.0.2", "10.0.0.3", 5)}
    assert {(end.qpn or 0) for one in found for end in one.ends} == {0x111, 0x222}


def test_a_new_lane_has_sent_nothing() -> None:
    """Of a connection that was only set up."""
    lab = Lab()
    lab.down(lab.up() + MS)
    found = lab.only()
    assert (found.counts.messages, found.counts.payload_bytes, found.times, found.end_state) == (0, 0, None, "closed")

"""Does the JSON have the keys that docs/contract.md promises?"""

from __future__ import annotations

import json

from ibdissect.diagnosis.objects import diagnosis_object, json_text
from tests.diagnosis.lab import Lab

KEYS = {
    "ends", "transport", "requester", "first_frame", "last_frame", "verdict", "cause", "severity", "why", "advice", "detail", "frames",
    "set_up", "end", "times_ns", "counts", "episodes", "directions", "blamed", "start_ns", "last_ns", "since_ns",
    "round_trip_ns",
}  # fmt: skip


def test_keys() -> None:
    lab = Lab()
    lab.down(lab.good(lab.up(), 100, 5))
    found = diagnosis_object([lab.diagnosis()])
    assert found.keys() == {"schema", "captures", "connections", "summary"} and json.dumps(found)
    (one,) = found["connections"]
    assert one.keys() == KEYS and one["counts"]["messages"] == 5 and one["end"]["state"] == "closed"
    assert found["captures"] == [{"path": "lab", "frames": 15}] and found["summary"] == {"connections": 1, "causes": []}


def test_the_text_is_that_of_the_object() -> None:
    lab = Lab()
    lab.down(lab.good(lab.up(), 100, 5))
    for some in ([lab.diagnosis()], [lab.diagnosis(), lab.diagnosis()], []):
        assert json.loads("".join(json_text(some))) == diagnosis_object(some)


def test_of_several_captures_each_connection_says_which() -> None:
    lab = Lab()
    lab.good(0, 100, 5)
    found = diagnosis_object([lab.diagnosis(), lab.diagnosis()])
    assert [one["capture"] for one in found["connections"]] == [0, 1]

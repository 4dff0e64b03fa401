"""The JSON of a diagnosis has the keys that docs/contract.md promises."""

from __future__ import annotations

from tests.diagnosis.lab import MS, Lab, as_json, joined
from tests.diagnosis.test_causes import repeated

KEYS = {
    "ends", "transport", "requester", "first_frame", "last_frame", "verdict", "cause", "severity", "why", "advice", "detail", "frames",
    "set_up", "end", "times_ns", "counts", "episodes", "directions", "blamed", "start_ns", "last_ns", "since_ns", "until_ns",
    "round_trip_ns",
}  # fmt: skip


def test_keys() -> None:
    lab = Lab()
    lab.down(lab.good(lab.up(), 100, 5))
    found = as_json([lab.diagnosis()])
    assert found.keys() == {"schema", "captures", "connections", "summary"}
    (one,) = found["connections"]
    assert one.keys() == KEYS and one["counts"]["messages"] == 5 and one["end"]["state"] == "closed"
    assert found["captures"] == [{"path": "lab", "frames": 15, "start_ns": one["start_ns"], "end_ns": one["last_ns"]}]
    assert found["summary"] == {"connections": 1, "causes": []}


def test_shared_causes_of_one_capture_name_none() -> None:
    one = as_json([joined(*(with_dead_host(n) for n in range(2))).diagnosis()])
    assert [("capture" in each, each["connections"]) for each in one["summary"]["causes"]] == [(False, 2)]


def with_dead_host(number: int) -> Lab:
    lab = Lab(qa=0x100 + number, qb=0x200 + number)
    repeated(lab, lab.good(0, 100 + 5000 * number, 5), 105 + 5000 * number)
    return lab


def test_of_no_capture_and_of_two_the_text_is_json() -> None:
    lab = Lab()
    lab.down(lab.good(lab.up(), 100, 5))
    assert as_json([])["connections"] == [] and len(as_json([lab.diagnosis()] * 2)["connections"]) == 2


def test_of_several_captures_each_connection_says_which() -> None:
    lab = Lab()
    lab.good(0, 100, 5)
    found = as_json([lab.diagnosis(), lab.diagnosis()])
    assert [one["capture"] for one in found["connections"]] == [0, 1]


def test_members_of_a_common_cause_count_through_all_captures() -> None:
    labs = []
    for i in range(3):
        labs.append(Lab(b=bytes([10, 0, 0, 9]), qa=0x100 + i, qb=0x200 + i))
        labs[-1].good(0, 1000 * i + 100, 5)
        repeated(labs[-1], MS, 1000 * i + 105)
    both = [joined(*labs).diagnosis(), joined(*labs).diagnosis()]
    found = as_json(both)
    first, second = found["summary"]["causes"]
    assert [found["connections"][i]["cause"] for one in (first, second) for i in one["members"]] == ["retries-exhausted"] * 6
    assert {found["connections"][i]["capture"] for i in second["members"]} == {1} and first["since_ns"] == second["since_ns"]

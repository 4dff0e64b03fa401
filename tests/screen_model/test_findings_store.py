"""Every occurrence of a finding is kept, found by frame and rule, and counted alike everywhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ibdissect.lint.finding import Finding, Severity
from ibdissect.lint.rule import REGISTRY
from ibdissect.rules import load
from ibdissect.screen_model import findings_store
from ibdissect.screen_model.findings_store import FindingsStore
from tests import craft
from tests.screen_model.made import filtered, opened, selected, studied

load()
ROUTE, REPEAT = REGISTRY["PKY003"], REGISTRY["RC002"]


def finding(frame: int, code: str = "RC002", count: int = 1) -> Finding:
    severity = REGISTRY[code].severity
    return Finding(code=code, name=code, severity=severity, frame=frame, time_ns=0, template="", message=f"in {frame}", count=count)


def filled() -> tuple[FindingsStore, Finding]:
    store, first = FindingsStore(), finding(3, count=4)
    store.add(first)
    store.take(REPEAT, Severity.INFO, first, np.array([3, 9, 9, 40]), 0, 0)
    store.take(ROUTE, Severity.ERROR, None, [9], 54, 2)
    store.settle()
    store.set_counts({"RC002": 1, "PKY003": 1}, {Severity.ERROR: 1})
    return store, first


def test_what_is_foreseen_is_replaced_and_taken_back() -> None:
    """It is in frame order among what was found, and no finding of its own in the end."""
    store, first = filled()
    there, late = [store.frame(place) for place in range(len(store))], finding(20)
    store.foresee([(REPEAT, Severity.INFO, late, [20], 0, 0)])
    assert store.of_frame(20) == [late] and store.frames().tolist() == [3, 9, 20, 40] and store.first() == [first]
    again = finding(20)
    store.foresee([(REPEAT, Severity.INFO, again, [20], 0, 0), (REPEAT, Severity.INFO, finding(3), [5], 0, 0)])
    assert store.of_frame(20)[0] is late and store.frames().tolist() == [3, 5, 9, 20, 40]
    assert [store.frame(place) for place in store.alike(0).tolist()] == [3, 5, 9, 9, 40]
    generation = store.generation
    store.foresee(())
    assert [store.frame(place) for place in range(len(store))] == there and store.generation > generation
    store.take(REPEAT, Severity.INFO, again, [20], 0, 0)
    store.settle()
    store.foresee(())
    assert store.frames().tolist() == [3, 9, 20, 40]


def test_occurrences_by_frame_and_rule() -> None:
    store, first = filled()
    assert [store.frame(place) for place in range(len(store))] == [3, 9, 9, 9, 40] and store.frames().tolist() == [3, 9, 40]
    assert store.worst(9) is Severity.ERROR and store.worst(40) is Severity.INFO and store.worst(4) is None
    assert store.codes(4, 36) == {9: ("RC002", "RC002", "PKY003")}
    assert store.of_frame(3) == [first]
    again, beyond = store.of_frame(9)
    assert again.message == "as frame 3: in 3" and again.related[0].frame == 3 and again.frame == 9
    assert (beyond.code, beyond.spans[0].offset) == ("PKY003", 54)
    assert [(group.code, len(group.places), group.frames, group.first.frame) for group in store.rules()] == [
        ("PKY003", 1, 1, 9), ("RC002", 4, 3, 3),
    ]  # fmt: skip
    assert [store.frame(place) for place in store.heads().tolist()] == [3, 9]
    assert [store.frame(place) for place in store.alike(0).tolist()] == [3, 9, 9, 40]
    assert [part.tolist() for part in store.ranks()] == [[3, 9, 9, 9, 40], [1, 1, 1, 3, 1]]


def test_a_place_in_the_erf_header_is_before_the_frame() -> None:
    store = FindingsStore()
    store.take(REPEAT, Severity.INFO, None, [2], -4, 2)
    store.take(REPEAT, Severity.INFO, None, np.array([5, 6]), np.array([-4, 8]), 2)
    store.settle()
    assert [store.key(place)[2] for place in range(3)] == [-4, -4, 8]


def test_late_occurrences_find_their_place_and_withdrawn_rules_go() -> None:
    store, first = filled()
    assert not store.late
    store.take(REPEAT, Severity.INFO, first, np.array([1, 50]), 0, 0)
    store.settle()
    assert store.late == 1 and store.frames().tolist() == [1, 3, 9, 40, 50]
    store.set_counts({"PKY003": 1}, {Severity.ERROR: 1})
    assert store.frames().tolist() == [9] and [group.code for group in store.rules()] == ["PKY003"] and store.late == 2


def test_what_is_beyond_the_bound_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings_store, "MAX_OCCURRENCES", 1500)
    store = FindingsStore()
    for start in (1, 1001, 2001):
        store.take(ROUTE, Severity.ERROR, None, np.arange(start, start + 1000), 54, 2)
        store.settle()
    assert len(store) == 1500 and store.dropped == 1500 and "1,500 further occurrences" in store.limits


@pytest.mark.slow
def test_every_view_counts_alike(tmp_path: Path) -> None:
    """Rows of the store, the filter, distinct frames and the count of a repeated finding; beyond the sentences kept, too."""
    path = tmp_path / "again.pcap"
    packets = [craft.native(0x04, bytes(8), slid=3, dlid=5, bth={"p_key": 0xFFFF, "destqp": 0x12, "psn": psn // 2}) for psn in range(40)]
    bad = [craft.smp(1, 0x10, modifier=7, lrh={"vl": 0}, slid=3, dlid=5) for _ in range(5)]
    path.write_bytes(craft.erf_pcap([*packets, *bad]))
    model = opened(path)
    other = opened(path)
    studied(other, kept=2)
    store = model.findings = other.findings
    model.studied, model.studied_to = True, model.index.frames
    groups = {group.code: group for group in store.rules()}
    assert len(groups["RC002"].places) == groups["RC002"].first.count == 20
    for code, group in groups.items():
        assert len(selected(model, f'ibdissect.code == "{code}"')) == group.frames, code
    beyond = [group for group in groups.values() if any(store.finding(place).message.endswith("only") for place in group.places.tolist())]
    assert beyond and all(store.by_rule[group.code] == len(group.places) for group in beyond)
    model.close()


def test_a_finding_known_only_at_the_end_is_filtered_too(tmp_path: Path) -> None:
    """Its filter ran while the capture was studied: what came late is looked for again."""
    path = tmp_path / "few.pcap"
    path.write_bytes(craft.erf_pcap([craft.native(0x04, bytes(8), slid=3, dlid=5) for _ in range(9)]))
    model = opened(path)
    store = model.findings
    store.take(ROUTE, Severity.ERROR, None, [7], 54, 2)
    store.settle()
    model.studied_to = 9

    def grew() -> None:
        if not model.studied:
            store.take(ROUTE, Severity.ERROR, None, [2], 54, 2)
            store.settle()
            model.studied = True

    assert filtered(model, 'ibdissect.code == "PKY003"', grew=grew).frames(0, 9) == [2, 7]
    model.close()

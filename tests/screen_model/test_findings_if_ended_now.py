"""A capture that grows shows what only its end would."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from ibdissect.lint.rule import REGISTRY
from ibdissect.pipeline.check import CheckOptions, check
from ibdissect.rules import load
from ibdissect.screen_model.background_analysis import BackgroundAnalysis
from ibdissect.screen_model.capture_model import CaptureModel
from ibdissect.screen_model.findings_if_ended_now import foresee
from tests.screen_model.made import all_of, capture, opened

load()
OPTIONS = CheckOptions(rules=[REGISTRY[code] for code in ("PKY003", "PM001", "RC002")], max_findings=None)


def test_what_a_check_finds_at_the_end_only(tmp_path: Path) -> None:
    """The findings of the middle are not foreseen, as they are known; all others are those of `lint`."""
    path = capture(tmp_path)
    model = opened(path)
    found = foresee(model, OPTIONS, model.index.frames, lambda: True)
    linted = check(str(path), OPTIONS)
    assert found is not None and found.by_rule == {"PM001": 1, "PKY003": 1}
    at_end = {(one.code, one.frame) for one in linted.findings if one.code in found.by_rule}
    assert {(one.code, one.frame) for _, _, one, *_ in found.occurrences if one is not None} == at_end
    assert sum(found.by_rule.values()) == sum(found.counts.values())
    assert foresee(model, OPTIONS, model.index.frames, lambda: False) is None
    model.close()


def waited(model: CaptureModel, done: Callable[[], object]) -> None:
    """Wait for what threads do, for a minute at most: a machine may be busy."""
    until = time.monotonic() + 60
    while not done() and time.monotonic() < until:
        model.wait(0.02)


@pytest.mark.slow
def test_findings_of_a_growing_capture_come_before_its_end(tmp_path: Path) -> None:
    path = capture(tmp_path)
    model = CaptureModel(str(path), follow=True)
    study = BackgroundAnalysis(model, lambda: OPTIONS)
    threads = [threading.Thread(target=run, args=(lambda: None,), daemon=True) for run in (model.scan, study.run)]
    for thread in threads:
        thread.start()
    store, linted = model.findings, check(str(path), OPTIONS)
    wanted = Counter(one.code for one in linted.findings)
    known = {(one.code, one.frame) for one in linted.findings}
    waited(model, lambda: dict(store.by_rule) == wanted and known <= {(one.code, one.frame) for one in all_of(store)})
    now = {(one.code, one.frame) for one in all_of(store)}
    assert not study.finished and known <= now and dict(store.by_rule) == wanted
    model.stop_reading()
    waited(model, lambda: study.finished)
    assert {(one.code, one.frame) for one in all_of(store)} == now
    assert len(store.first()) == len({(one.code, one.frame, one.message) for one in store.first()}) == len(linted.findings)
    model.close()
    study.close()

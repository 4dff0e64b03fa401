"""The study finds what lint finds, and a filter for findings waits for it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from ibdissect.lint.finding import Severity
from ibdissect.lint.path_ignores import PathIgnores
from ibdissect.lint.site_policy import SitePolicy
from ibdissect.pipeline.check import CheckOptions, check
from ibdissect.rules import load
from ibdissect.screen_model.background_analysis import BackgroundAnalysis
from tests.screen_model import made
from tests.screen_model.made import TOTAL, all_of, opened, selected, studied


def test_filter_for_findings_follows_the_study(tmp_path: Path) -> None:
    model = opened(made.capture(tmp_path))
    frames = list[int]()
    thread = threading.Thread(target=lambda: frames.extend(selected(model, 'ibdissect.code == "PKY003"')))
    thread.start()
    study = BackgroundAnalysis(model, lambda: CheckOptions(rules=load()))
    threading.Thread(target=study.run, args=(lambda: None,), daemon=True).start()
    thread.join(10)
    assert frames == [3]
    model.close()


@pytest.mark.slow
def test_study(tmp_path: Path) -> None:
    model = opened(made.capture(tmp_path))
    study, shot = studied(model)
    store = model.findings
    assert "PKY003" in store.codes(3, 1)[3] and store.worst(3) is not None and store.worst(22) is None
    assert [finding.frame for finding in all_of(store)] == sorted(finding.frame for finding in all_of(store))
    assert all(finding.message for finding in all_of(store))
    assert 0 < sum(store.by_rule.values()) == sum(store.counts.values()) == len(store.heads())
    assert shot.frames == TOTAL == shot.traffic.frames
    one = next(one for one in shot.conversations if one.far_qp == 0x50)
    assert (str(one.near), str(one.far), one.service, one.packets, one.near_qp) == ("LID 3", "LID 5", "RC", (12, 1), 0x60)
    assert sum(one.spark) == 13 and (one.repeated, one.naks) == (1, 1)
    assert study.repeated == {20}
    datagrams = next(one for one in shot.conversations if one.service == "UD")
    assert (datagrams.near_qp, datagrams.far_qp, datagrams.known_by) == (0x41, 0x40, "DETH")
    assert 0 < datagrams.messages == sum(datagrams.packets) and (one.messages, sum(one.packets)) == (11, 13)
    assert [(one.kind, one.answered, one.unanswered) for one in shot.exchanges] == [("PM", 0, 1)]
    assert dict(shot.traffic.p_keys)["0x9999"] == 1
    assert shot.fabric.nodes == 1 and shot.fabric.partitions == 2
    assert sum(shot.traffic.line.packets) == TOTAL and sum(count for _, count in shot.traffic.opcodes) == TOTAL
    assert dict(shot.traffic.talkers)["LID 3", "LID 5"] > 10
    assert study.names is not None and "host" in study.names.node_by_address[5] and model.ends.names is study.names


@pytest.mark.slow
def test_the_study_uses_the_project_configuration(tmp_path: Path) -> None:
    """Rules that are chosen, severities, site policy, ignored paths: the findings of `lint` with the same options."""
    path = made.capture(tmp_path)

    def found(**options: Any) -> list[tuple[str, int, Severity]]:
        given = CheckOptions(rules=load(), **options)
        model = opened(path)
        study, _ = studied(model, given)
        heads = map(model.findings.finding, model.findings.heads().tolist())
        shown = [(finding.code, finding.frame, finding.severity) for finding in heads]
        linted = check(str(path), given)
        assert sorted(shown) == sorted((finding.code, finding.frame, finding.severity) for finding in linted.findings)
        assert model.findings.counts == {Severity(name): count for name, count in linted.counts.items()}
        assert set(study.rules) == {rule.code for rule in given.rules_for(str(path))}
        return shown

    plain = found()
    code = plain[0][0]
    assert {severity for one, _, severity in found(severities={code: Severity.INFO}) if one == code} == {Severity.INFO}
    assert {one for one, _, _ in plain} - {one for one, _, _ in found(ignored=PathIgnores(str(tmp_path), (("*.pcap", (code,)),)))} == {code}
    assert len(found(policy=SitePolicy(lids=((1000, 1001),)))) > len(plain)

"""Every rule proves itself: documentation, a capture that triggers it, a twin that stays silent, both the same when scrubbed."""

from __future__ import annotations

import csv
import importlib
import io
import re
import string
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ibdissect.capture.chunk import Damage
from ibdissect.capture.opening import open_capture
from ibdissect.decode.chunk_table import ChunkTable
from ibdissect.lint.finding import Finding
from ibdissect.lint.linter import Linter
from ibdissect.lint.point_faults import PointFaults
from ibdissect.lint.site_policy import SitePolicy
from ibdissect.rules import load
from ibdissect.subnet.files import SubnetFile
from ibdissect.words import Rule
from tests.conftest import REFERENCE
from tests.rules.cases import CASES, Case, inform
from tests.rules.pages import pages
from tests.scrub.made import scrubbed

WINDOW = 12 << 20

RULES = load()
BY_CODE = {rule.code: rule for rule in RULES}
with open(REFERENCE / "rules.csv", newline="", encoding="utf-8") as _file:
    CATALOGUE = {row["code"]: row for row in csv.DictReader(_file)}
    """Rows by code."""
PCAPNG = b"\x0a\x0d\x0d\x0a"
for path in sorted(Path(__file__).parent.glob("*/cases.py")):
    importlib.import_module(f"tests.rules.{path.parent.name}.cases")


def lint(
    capture: bytes,
    policy: SitePolicy | PointFaults | None = None,
    known: Sequence[SubnetFile] = (),
    damage: Sequence[Damage] = (),
    rules: Sequence[type[Rule]] = RULES,
    window: int = WINDOW,
) -> list[Finding]:
    """Every finding of every rule (or of some) on a capture held in memory."""
    reader = open_capture(io.BytesIO(capture), window=window)
    linter = Linter(rules)
    inform(linter, policy, known)
    for chunk in reader.chunks():
        linter.feed(ChunkTable(chunk))
    linter.context.damage = [*reader.damage, *damage]
    found = linter.finish()
    linter.close()
    return found


def test_the_fast_lane_has_a_proof_of_each_rule() -> None:
    proven = {one.values[0].code for one in proofs() if not one.marks}
    assert [f"write a case of {code} in tests/rules/{code[:-3]}/cases.py" for code in sorted(BY_CODE.keys() ^ proven)] == []


@pytest.fixture(scope="module")
def documented() -> dict[str, dict[str, Any]]:
    """What `ibdissect rules` says of each rule."""
    return pages()


def assert_documented(rule: type[Rule], told: dict[str, Any]) -> None:
    assert len(told["summary"]) > 15, "the first line says what the fault is"
    assert all(told["page"].get(heading) for heading in ("Why it matters", "What to do"))
    assert "Evidence" in told["page"], "what it must see, and what silences it"
    assert told["reference"] and "seed" not in told["reference"] and rule.message and rule.name == rule.name.lower()
    assert told["example"], "how a capture looks that triggers it"
    assert rule.when is None or rule.on is not None
    assert CATALOGUE.get(rule.code, {}).get("name") == rule.name, "write its row in tests/reference/rules.csv"


def assert_times(capture: bytes, found: Sequence[Finding]) -> None:
    """Each finding has the time of the frame that it names, not that of the end of a wait, or of another frame."""
    times = dict[int, int]()
    for chunk in open_capture(io.BytesIO(capture)).chunks():
        times.update(enumerate(chunk.time_ns.tolist(), chunk.first))
    for finding in found:
        if finding.frame in times and finding.code[:3] != "CAP":  # the report gives those of a damaged file their time
            assert finding.time_ns == times[finding.frame], (finding.code, finding.frame)


def facts(findings: Sequence[Finding]) -> list[tuple[str, int, int]]:
    return sorted((finding.code, finding.frame, finding.count) for finding in findings)


def proofs() -> list[Any]:
    """All proofs for parametrize; the first one of each rule is in the fast lane."""
    return [pytest.param(one, marks=[pytest.mark.slow] * (one is not cases[0])) for cases in CASES.values() for one in cases]


def by_all(proof: Case) -> bool:
    """Whether all rules judge it in the fast lane: the first proof of every sixth rule."""
    return proof is CASES[proof.code][0] and int(proof.code[-3:]) % 6 == 0


def rules_of(proof: Case, *others: str) -> list[type[Rule]]:
    return [BY_CODE[code] for code in (proof.code, *sorted(others))]


@pytest.mark.parametrize("proof", proofs(), ids=lambda case: case.code)
def test_proof(proof: Case, documented: dict[str, dict[str, Any]]) -> None:
    """Its own rule judges it, and those that it triggers, too; some are judged `by_all`.

    The first one of a rule also stands for its documentation.
    """
    rule, first = BY_CODE[proof.code], proof is CASES[proof.code][0]
    if first:
        assert_documented(rule, documented[rule.code])
    judges = RULES if by_all(proof) else rules_of(proof, *proof.also)
    found = lint(proof.bad, proof.policy, proof.known, proof.damage, judges)
    mine = [finding for finding in found if finding.code == proof.code]
    assert mine, f"silent; found {[f.code for f in found]}"
    if proof.frames:
        assert tuple(f.frame for f in mine) == proof.frames
    if proof.severity:
        assert {str(f.severity) for f in mine} == {proof.severity}
    assert {f.code for f in found} - {proof.code} == proof.also
    silent = {f.code for f in lint(proof.twin, proof.policy, proof.known, rules=rules_of(proof, *proof.twin_also))}
    assert silent == proof.twin_also, "the near-miss twin is not silent"
    for finding in found:  # a message uses only what it is given, lacks no value, and names no key twice
        names = {name.split(".")[0] for _, name, _, _ in string.Formatter().parse(finding.template) if name}
        assert names <= finding.arguments.keys()
        finding.finish(lambda secret: f"{secret.kind}#1")
        assert not re.search(r"None|True|False|\?|(\w+_Key) \1|\bunknown \(\d+\) \(", finding.message), finding.message
    if not proof.known:  # what a file says of a port may have no frame
        assert_times(proof.bad, found)
    if first:
        known = CATALOGUE.get(proof.code, {}).get("message")
        assert mine[0].message == known, "baselines hold it; write the new one in tests/reference/rules.csv"


@pytest.mark.slow
@pytest.mark.parametrize("proof", [one for cases in CASES.values() for one in cases], ids=lambda case: case.code)
def test_what_all_rules_say(proof: Case, request: pytest.FixtureRequest) -> None:
    """Of the first proof of each rule and its twin, and of those that concern others; with --thorough, of all."""
    chosen = proof is CASES[proof.code][0] or proof.also or proof.twin_also or request.config.getoption("--thorough")
    rules = RULES if chosen else rules_of(proof)
    assert {f.code for f in lint(proof.bad, proof.policy, proof.known, proof.damage, rules)} == {proof.code, *proof.also}
    assert {f.code for f in lint(proof.twin, proof.policy, proof.known, rules=rules)} == proof.twin_also


def scrubbable() -> list[Any]:
    """The first proof of each rule that rests on nothing but the capture, and with --thorough the others; some are in the fast lane."""
    plain = [one for cases in CASES.values() for one in cases if one.policy is None and not one.known]
    firsts = {id(cases[0]) for cases in CASES.values()}
    slow, thorough = [pytest.mark.slow], [pytest.mark.thorough]
    return [pytest.param(one, marks=thorough if id(one) not in firsts else slow * (int(one.code[-3:]) % 40 > 0)) for one in plain]


@pytest.mark.parametrize("proof", scrubbable(), ids=lambda case: case.code)
def test_scrubbing_changes_no_finding(proof: Case, request: pytest.FixtureRequest) -> None:
    for blob in (proof.bad, proof.twin)[: 1 + request.config.getoption("--thorough")]:
        # What is wrong with a file is not copied into the scrubbed one.
        kept = [told for told in facts(lint(blob)) if told[0] not in ("CAP013", "CAP014", "CAP019")]
        assert kept == facts(lint(scrubbed(blob, "pcapng" if blob[:4] == PCAPNG else "pcap")))

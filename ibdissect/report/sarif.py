"""Findings in code-scanning views: SARIF 2.1.0 with rule help, byte regions and stable fingerprints."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from ibdissect.lint.baseline import fingerprint, name_from
from ibdissect.lint.finding import CaptureReport, Finding
from ibdissect.lint.rule import Rule
from ibdissect.lint.rule_page import WHY, markdown, sections, summary, unmarked
from ibdissect.shown_urls import public_name
from ibdissect.version import VERSION, addresses
from ibdissect.wire.text import visible_json

from . import Run, repository_path

LEVELS = {"error": "error", "warning": "warning", "info": "note"}
LEFT_OUT = "left-out"
"""What a notification is called that says how many findings a report does not list."""
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def rule_object(rule: type[Rule], pages: str | None = None) -> dict[str, Any]:
    """A rule's entry, with its documentation as help. `pages`: the address of ours, which have all rules of the package."""
    texts = sections(rule)
    text, marked, own = markdown(texts), markdown(texts, plain=not rule.of_code), rule.__module__.startswith("ibdissect.rules.")
    reference = rule.reference if rule.of_code else unmarked(rule.reference)
    return {
        "id": rule.code,
        "name": "".join(word.capitalize() for word in re.split(r"[^a-z0-9]+", rule.name)),
        "shortDescription": {"text": summary(rule)},
        "fullDescription": {"text": f"{summary(rule)} {' '.join(texts.get(WHY, '').split())}".strip()},
        **({"helpUri": f"{pages}/rules.md#{rule.code.lower()}-{rule.name}"} if pages and own else {}),
        "help": {"text": f"{text}\n\nReference: {rule.reference}", "markdown": f"{marked}\n\n**Reference**: {reference}"},
        "defaultConfiguration": {"level": LEVELS[rule.severity.value]},
        "properties": {"tags": [rule.code.rstrip("0123456789")]},
    }


def _uri(path: str) -> str:
    if "://" in path:
        return quote(path, safe="/:?=&@")
    pure = PurePath(repository_path(path))
    return pure.as_uri() if pure.is_absolute() else quote(os.fsencode(pure.as_posix()))


def _region(finding: Finding, frame: int) -> dict[str, Any]:
    """The first marked bytes, counted from the start of the file. GitHub demands a line, which for a binary file is the first."""
    region: dict[str, Any] = {"startLine": 1}
    first = next(iter(finding.spans), None)
    if first is not None and first.frame == finding.frame and finding.starts is not None:
        region |= {"byteOffset": finding.starts + first.offset, "byteLength": first.length}
    where = frame if first is None or first.frame == finding.frame else first.frame
    return {**region, "message": {"text": f"in frame {where}"}}


def semantic_version(version: str) -> str:
    """A version of Python packages as semver.org writes it: 1.2.0.dev3+g0 is 1.2.0-dev.3+g0."""
    found = re.fullmatch(r"(\d+\.\d+\.\d+)(?:\.?([a-z]+)(\d+))?(?:\+(.*))?", version)
    if found is None:
        return "0.0.0"
    return found[1] + (f"-{found[2]}.{found[3]}" if found[2] else "") + (f"+{found[4]}" if found[4] else "")


def _result(finding: Finding, index: dict[str, int], seen: Counter[str]) -> dict[str, Any]:
    file, frame = finding.place
    location = {"physicalLocation": {"artifactLocation": {"uri": _uri(file)}, "region": _region(finding, frame)}}
    location["logicalLocations"] = [{"name": f"frame {frame}", "kind": "element"}]  # type: ignore[assignment]
    identity = fingerprint(name_from(os.curdir, finding.capture), finding)
    seen[identity] += 1
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": index[finding.code],
        "level": LEVELS[finding.severity.value],
        "message": {"text": f"frame {frame}: {finding.message}"},
        "locations": [location],
        # GitHub tells results apart by the second, which its upload would compute from the line: all are on line 1. Equal findings
        # are counted, as its own tools count equal lines.
        "partialFingerprints": {"ibdissect/v2": identity, "primaryLocationLineHash": f"{identity}:{seen[identity]}"},
        "occurrenceCount": finding.count,
        "properties": {"frame": finding.frame, "evidence": finding.evidence.value, "context": finding.context},
    }
    if finding.related:
        result["relatedLocations"] = [
            {
                "id": i,
                "message": {"text": f"{r.place}: {r.why}"},
                "physicalLocation": {
                    "artifactLocation": {"uri": _uri(r.file or finding.capture)},
                    "region": {"startLine": r.line or 1},
                },
            }
            for i, r in enumerate(finding.related)
        ]
    return result


def _notification(level: str, kind: str, path: str, text: str) -> dict[str, Any]:
    where = {"physicalLocation": {"artifactLocation": {"uri": _uri(path)}, "region": {"startLine": 1}}}
    return {"descriptor": {"id": kind}, "level": level, "message": {"text": text}, "locations": [where]}


def _notifications(reports: Iterable[CaptureReport]) -> Iterator[dict[str, Any]]:
    """What was not checked or is not listed."""
    for report in reports:
        if report.incomplete is not None:
            yield _notification("error", report.status, report.path, report.incomplete)
        for doubt in report.doubts:
            yield _notification("warning", "doubt", report.path, f"{report.path}: {doubt}")
        if report.left_out:
            yield _notification("warning", LEFT_OUT, report.path, f"{report.path}: {report.left_out_text}")


def _artifacts(reports: Iterable[CaptureReport], run: Run) -> list[dict[str, Any]]:
    """The files that were checked; sizes and hashes of those on this machine."""
    found = []
    for report in reports:
        for path in [member.path for member in report.members] or [report.path]:
            digest = run.digests.get(path)
            known = {} if digest is None else {"length": digest.size, "hashes": {"sha-256": digest.sha256}}
            found.append({"location": {"uri": _uri(public_name(path))}, "roles": ["analysisTarget"], **known})
    return found


def _category(reports: Iterable[CaptureReport]) -> str:
    """What tells this analysis from others of the same commit: the job, and the folder that holds all captures."""
    paths = [repository_path(report.path) for report in reports]
    folders = [os.path.dirname(path) for path in paths if "://" not in path and path != "-"]
    common = os.path.commonpath(folders) if folders and len({os.path.isabs(one) for one in folders}) == 1 else ""
    return "/".join(filter(None, ("ibdissect", os.environ.get("GITHUB_JOB"), common.strip("/")))) + "/"


def sarif_text(reports: list[CaptureReport], run: Run) -> str:
    used = {finding.code for report in reports for finding in report.findings}
    listed = [rule for rule in run.rules if rule.code in used]
    index = {rule.code: i for i, rule in enumerate(listed)}
    places, seen = addresses(), Counter[str]()
    pages = places.get("Documentation")
    driver = {
        "name": "ibdissect",
        "version": VERSION,
        "semanticVersion": semantic_version(VERSION),
        **({"informationUri": places["Source"]} if "Source" in places else {}),
        "rules": [rule_object(rule, pages) for rule in listed],
    }
    log: dict[str, Any] = {
        "tool": {"driver": driver},
        "automationDetails": {"id": _category(reports)},
        "columnKind": "unicodeCodePoints",
        "invocations": [
            {
                "executionSuccessful": all(report.incomplete is None for report in reports),
                "toolExecutionNotifications": [*_notifications(reports)],
                **({"properties": {"configuration": run.configuration.object()}} if run.configuration is not None else {}),
            }
        ],
        "artifacts": _artifacts(reports, run),
        "results": [_result(finding, index, seen) for report in reports for finding in report.findings],
    }
    return visible_json(json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [log]}, indent=2, ensure_ascii=False)) + "\n"

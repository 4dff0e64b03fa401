"""How do findings appear in code-scanning views? SARIF 2.1.0 with rule help, byte regions and stable fingerprints."""

from __future__ import annotations

import json
import os
import re
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from ibdissect.lint.baseline import fingerprint, name_from
from ibdissect.lint.finding import CaptureReport, Finding
from ibdissect.lint.rule import Rule
from ibdissect.lint.rule_page import markdown, sections, summary
from ibdissect.version import VERSION
from ibdissect.wire.text import visible_json

from . import Run, repository_path

LEVELS = {"error": "error", "warning": "warning", "info": "note"}
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def rule_object(rule: type[Rule]) -> dict[str, Any]:
    """A rule's entry, with its documentation as help."""
    text = markdown(sections(rule))
    return {
        "id": rule.code,
        "name": "".join(word.capitalize() for word in re.split(r"[^a-z0-9]+", rule.name)),
        "shortDescription": {"text": summary(rule)},
        "fullDescription": {"text": summary(rule)},
        "help": {"text": f"{text}\n\nReference: {rule.reference}", "markdown": f"{text}\n\n**Reference**: {rule.reference}"},
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


def _result(finding: Finding, index: dict[str, int]) -> dict[str, Any]:
    file, frame = finding.place
    location = {"physicalLocation": {"artifactLocation": {"uri": _uri(file)}, "region": _region(finding, frame)}}
    location["logicalLocations"] = [{"name": f"frame {frame}", "kind": "element"}]  # type: ignore[assignment]
    identity = fingerprint(name_from(os.curdir, finding.capture), finding)
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": index[finding.code],
        "level": LEVELS[finding.severity.value],
        "message": {"text": f"frame {frame}: {finding.message}"},
        "locations": [location],
        # GitHub tells results apart by the second, which its upload would compute from the line: all are on line 1.
        "partialFingerprints": {"ibdissect/v2": identity, "primaryLocationLineHash": f"{identity}:1"},
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


def sarif_text(reports: list[CaptureReport], run: Run) -> str:
    used = {finding.code for report in reports for finding in report.findings}
    listed = [rule for rule in run.rules if rule.code in used]
    index = {rule.code: i for i, rule in enumerate(listed)}
    failed = [(report.path, report.incomplete) for report in reports if report.incomplete is not None]
    log: dict[str, Any] = {
        "tool": {"driver": {"name": "ibdissect", "version": VERSION, "rules": [rule_object(rule) for rule in listed]}},
        "columnKind": "unicodeCodePoints",
        "invocations": [
            {
                "executionSuccessful": not failed,
                "toolExecutionNotifications": [
                    {
                        "level": "error",
                        "message": {"text": reason},
                        "locations": [{"physicalLocation": {"artifactLocation": {"uri": _uri(path)}, "region": {"startLine": 1}}}],
                    }
                    for path, reason in failed
                ],
            }
        ],
        "results": [_result(finding, index) for report in reports for finding in report.findings],
    }
    return visible_json(json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [log]}, indent=2, ensure_ascii=False)) + "\n"

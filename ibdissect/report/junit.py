"""How does CI show findings as failed tests? JUnit XML: one suite per capture, one test case per rule with findings."""

from __future__ import annotations

from itertools import groupby
from xml.sax.saxutils import escape, quoteattr

from ibdissect.lint.finding import CaptureReport, Finding
from ibdissect.wire.text import printable

from . import Run


def _clean(text: str) -> str:
    """Escape control characters except line breaks, as XML 1.0 forbids most of them."""
    return "\n".join(map(printable, text.split("\n")))


def _attribute(text: object) -> str:
    return quoteattr(printable(str(text)))


def _frame(finding: Finding) -> str:
    return f"{finding.file}:{finding.file_frame}" if finding.file else f"frame {finding.frame}"


def _case(path: str, code: str, findings: list[Finding], limit: int) -> str:
    name = f"{code} {findings[0].name}"
    text = "\n".join(f"{_frame(f)}: {f.severity.value}: {f.message}" for f in findings)
    worst = max(finding.severity.rank for finding in findings)
    head = f"    <testcase classname={_attribute(path)} name={_attribute(name)}"
    if worst < limit:
        return f"{head}><system-out>{escape(_clean(text))}</system-out></testcase>\n"
    message = _attribute(f"{len(findings)} x {findings[0].name}")
    return f"{head}><failure message={message} type={_attribute(code)}>{escape(_clean(text))}</failure></testcase>\n"


def junit_text(reports: list[CaptureReport], run: Run) -> str:
    """The whole run: findings below the failing severity are output of passed test cases, the others are failures."""
    limit = run.fail_rank
    suites = []
    failures = errors = tests = 0
    for report in reports:
        ordered = sorted(report.findings, key=lambda f: (f.code, f.frame))
        cases = [(code, list(found)) for code, found in groupby(ordered, key=lambda f: f.code)]
        body = "".join(_case(report.path, code, found, limit) for code, found in cases)
        failed = sum(max(f.severity.rank for f in found) >= limit for _, found in cases)
        number = max(1, len(cases))
        if report.incomplete is not None:
            error = f"<error message={_attribute(report.incomplete)}/>"
            name = "readable" if report.status == "unreadable" else "complete"
            body += f'    <testcase classname={_attribute(report.path)} name="{name}">{error}</testcase>\n'
            number = len(cases) + 1
        elif not cases:
            body = f'    <testcase classname={_attribute(report.path)} name="no findings"/>\n'
        broken = int(report.incomplete is not None)
        suites.append(
            f'  <testsuite name={_attribute(report.path)} tests="{number}" failures="{failed}" errors="{broken}">\n{body}  </testsuite>\n'
        )
        failures, errors, tests = failures + failed, errors + broken, tests + number
    head = f'<testsuites name="ibdissect" tests="{tests}" failures="{failures}" errors="{errors}">\n'
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + head + "".join(suites) + "</testsuites>\n"

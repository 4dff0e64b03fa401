"""Captures as tests in CI. JUnit XML: a suite a capture, in it a test for reading it and one for each family of rules.

The tests are the same each time, so that a fault that was mended is a test that passes, and none that has vanished.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from xml.sax.saxutils import escape, quoteattr

from ibdissect.lint.finding import CaptureReport, Finding
from ibdissect.lint.rule import family
from ibdissect.wire.text import printable

from . import Run, repository_path

CHECKED = "checked"
"""The test that a capture could be read and checked to its end."""
OUTCOMES = ("failure", "error", "skipped")


def _clean(text: str) -> str:
    """Escape control characters except line breaks, as XML 1.0 forbids most of them."""
    return "\n".join(map(printable, text.split("\n")))


def _attribute(text: object) -> str:
    return quoteattr(printable(str(text)))


def _frame(finding: Finding) -> str:
    return f"{finding.file}:{finding.file_frame}" if finding.file else f"frame {finding.frame}"


def _line(finding: Finding) -> str:
    return f"{finding.code} {finding.name}, {_frame(finding)}: {finding.severity.value}: {finding.message}"


def class_name(path: str) -> str:
    """A capture's name without dots, at the last of which readers cut the name of a class from that of its package."""
    return path.replace(".", "_")


def _case(path: str, name: str, seconds: float, body: str = "") -> str:
    """A test; `body` is what became of it if it did not simply pass."""
    where = f"classname={_attribute(class_name(path))} name={_attribute(name)} file={_attribute(repository_path(path))}"
    return f'    <testcase {where} time="{seconds:.3f}"{f">{body}</testcase>" if body else "/>"}\n'


def _checked(report: CaptureReport) -> str:
    """What became of the test that the capture can be read and checked."""
    if report.incomplete is not None:
        return f"<error message={_attribute(report.incomplete)} type={_attribute(report.status)}/>"
    if report.status == "empty":
        return f"<skipped message={_attribute(report.doubts[0])}/>"
    said = "\n".join(filter(None, (*report.doubts, report.left_out_text)))
    return f"<system-out>{escape(_clean(said))}</system-out>" if said else ""


def _judged(findings: list[Finding], limit: int) -> str:
    """What became of the test of a family: findings at or above the severity fail it, the others are its output."""
    if not findings:
        return ""
    text = escape(_clean("\n".join(map(_line, findings))))
    bad = [finding for finding in findings if finding.severity.rank >= limit]
    if not bad:
        return f"<system-out>{text}</system-out>"
    first = min(bad, key=lambda finding: (-finding.severity.rank, finding.frame))
    more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
    return f"<failure message={_attribute(_line(first) + more)} type={_attribute(first.code)}>{text}</failure>"


def _cases(report: CaptureReport, run: Run) -> Iterator[str]:
    yield _case(report.path, CHECKED, report.elapsed_s, _checked(report))
    of = {code: family(code) for code in (*(rule.code for rule in run.rules_for(report.path)), *(f.code for f in report.findings))}
    nothing = report.status in ("unreadable", "empty")
    for name in sorted(set(of.values())):
        findings = [finding for finding in report.findings if family(finding.code) == name]
        seconds = sum(report.seconds.get(code, 0.0) for code in of if of[code] == name)
        yield _case(report.path, name, seconds, _judged(findings, run.fail_rank) or ("<skipped/>" if nothing else ""))


def _numbers(cases: Iterable[str]) -> str:
    """How many tests there are, and what became of them, as attributes."""
    cases = list(cases)
    failed, broken, skipped = (sum(f"<{outcome}" in case for case in cases) for outcome in OUTCOMES)
    return f'tests="{len(cases)}" failures="{failed}" errors="{broken}" skipped="{skipped}"'


def junit_text(reports: list[CaptureReport], run: Run) -> str:
    """The whole run. With --timing the tests of families have the time that their rules took."""
    suites, every = [], []
    properties = ""
    if run.configuration is not None:
        facts = ("path", run.configuration.path), ("keys", ", ".join(run.configuration.keys))
        lines = (f"      <property name=\"configuration.{name}\" value={_attribute(value)}/>\n" for name, value in facts)
        properties = f"    <properties>\n{''.join(lines)}    </properties>\n"
    began = f' timestamp="{datetime.fromtimestamp(run.began_s, UTC):%Y-%m-%dT%H:%M:%S}"' if run.began_s else ""
    for report in reports:
        cases = [*_cases(report, run)]
        every += cases
        head = f'name={_attribute(report.path)} {_numbers(cases)} time="{report.elapsed_s:.3f}"{began}'
        suites.append(f"  <testsuite {head}>\n{properties}{''.join(cases)}  </testsuite>\n")
    seconds = sum(report.elapsed_s for report in reports)
    head = f'<testsuites name="ibdissect" {_numbers(every)} time="{seconds:.3f}">\n'
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + head + "".join(suites) + "</testsuites>\n"

"""Findings as a page for people: one HTML file that asks nothing of any network, complete without its script."""

from __future__ import annotations

import re
from base64 import b64encode
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from importlib import resources
from typing import TYPE_CHECKING, Any

from msgspec import Struct as Record

from ibdissect.capture.digest import Digest
from ibdissect.diagnosis.time_bars import PARTS
from ibdissect.errors import missing_extra
from ibdissect.lint.finding import CaptureReport, Finding, Severity
from ibdissect.lint.rule_page import TO_DO, page, summary
from ibdissect.shown_urls import public_name
from ibdissect.version import VERSION
from ibdissect.wire.text import counted, printable

from . import Run, first_of_each, totals
from .charts import FindingsTimeLine, steps, time_line
from .new_and_fixed import CheckDifference
from .stories import WIDTH, StoriesOnPage

if TYPE_CHECKING:
    import jinja2

MAX_EXPLAINED = 3
"""Rules explained at the top."""
MAX_LISTED = 4000
"""Findings listed; beyond, each rule lists its first ones."""
HEADLINE_SHARE, HEADLINE_LEAST = 0.05, 10
"""An info is worth a headline above this share of the frames, unless there are only a few."""
MAX_TIME_LINES = 24
"""Captures without pictures that have a time line of their own."""


class Row(Record):
    finding: Finding
    path: str
    anchor: str
    seconds: float
    """Since the start of its capture."""
    detail: str
    """Its decoded frame as HTML; empty where the page has none."""
    new: bool


class FindingGroup(Record):
    code: str
    name: str
    severity: str
    """The worst of its findings."""
    summary: str
    sections: dict[str, str]
    """The rule's page."""
    to_do: str
    total: int
    captures: int
    first: Row


class Section(Record):
    anchor: str
    report: CaptureReport
    line: FindingsTimeLine | None
    pictures: str
    """HTML."""
    stories: StoriesOnPage | None
    number: int


class About(Record, frozen=True):
    """What a page says of itself."""

    title: str = ""
    note: str = ""
    """Paragraphs are separated by line breaks."""
    command: str = ""
    """The command line that made it."""


NOTHING = About()


class Pictures(Record):
    """What a page shows of one capture besides its findings."""

    html: str = ""
    packets: Sequence[int] = ()
    """Packets over time, for equal parts of the capture's time."""
    steps: Sequence[Mapping[str, int]] = ()
    """Packets with findings by severity, for each of `charts.STEPS` parts of that time; empty: each finding counts once."""
    details: Mapping[int, str] = {}
    """Decoded frames as HTML, by `id` of the finding."""
    stories: StoriesOnPage | None = None
    """Of its connections; None: they were not followed."""


def page_text(
    reports: Sequence[CaptureReport], run: Run, pictures: Sequence[Pictures] = (), compared: CheckDifference | None = None,
    notes: Sequence[str] = (), limit: int | None = None, about: About = NOTHING,
) -> str:  # fmt: skip
    """The page; without `pictures` the findings alone, as `lint --format html` prints them.

    `pictures` has one entry for each report; `notes` say what was left out. At most `limit` findings of a rule and capture are listed.
    """
    seen = list(pictures) or [Pictures() for _ in reports]
    rows = _rows(reports, seen, compared, limit)
    groups = _groups(reports, rows, run)
    paths = {report.path: i for i, report in enumerate(reports)}
    anchors = {(paths[row.path], row.finding.frame): row.anchor for row in reversed(rows) if row.finding.frame}
    counts, by_rule = totals(reports)
    listed = Counter(row.finding.code for row in rows)
    followed = [run.configuration.text] if run.configuration is not None else []
    style, script = (resources.files(__package__).joinpath(f"templates/{name}").read_text("utf-8") for name in ("page.css", "page.js"))
    markup = environment().get_template("page.html").render(
        reports=reports, rows=rows, groups=groups, worst=groups[:MAX_EXPLAINED], counts=counts, total=sum(by_rule.values()),
        verdict=verdict(reports), hidden={code: count - listed[code] for code, count in by_rule.items() if count > listed[code]},
        sections=[_section(i, report, one) for i, (report, one) in enumerate(zip(reports, seen, strict=True))],
        compared=compared, notes=[*notes, *followed], detailed=sum(bool(row.detail) for row in rows), rules=len(run.rules), version=VERSION,
        parts=PARTS, width=WIDTH, anchors=anchors,
        about=about, files=[_files(one, run) for one in reports], style=style, script=script, policy=_policy(style, script),
    )  # fmt: skip
    return markup + "\n"


@cache
def environment() -> jinja2.Environment:
    """Templates of this room and of `pictures`; all text is escaped, and made visible where it is not. ConfigError without Jinja2."""
    try:
        import jinja2
        from markupsafe import Markup, escape
    except ModuleNotFoundError as error:
        raise missing_extra("report", "jinja2") from error

    def harmless(value: Any) -> Any:
        return printable(value) if type(value) is str else value

    loader = jinja2.PackageLoader("ibdissect.report")
    made = jinja2.Environment(
        loader=loader, autoescape=True, finalize=harmless, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    made.filters["coded"] = lambda text: Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(printable(text)))))
    made.filters["number"] = lambda value: f"{value:,}"
    made.filters["plural"] = lambda count, word: counted(count, word, ",")
    return made


def _policy(*inline: str) -> str:
    """A content security policy that allows the page's own style and script and nothing else, no request either."""
    style, script = (b64encode(sha256(text.encode()).digest()).decode() for text in inline)
    parts = ("default-src 'none'", f"style-src 'sha256-{style}'", f"script-src 'sha256-{script}'", "img-src data:")
    return "; ".join((*parts, "base-uri 'none'", "form-action 'none'"))


def verdict(reports: Sequence[CaptureReport]) -> tuple[str, str, list[str]]:
    """How healthy it is: severity or `good`, a headline, and reasons to doubt it."""
    counts, _ = totals(reports)
    doubts = [f"{one.path}: {why.removeprefix(f'{one.path}: ')}" for one in reports for why in [one.incomplete, *one.doubts] if why]
    doubts += [f"{one.path}: the file is {one.status}" for one in reports if one.status in ("truncated", "damaged")]
    if counts["error"]:
        return "error", f"Not healthy: {counted(counts['error'], 'error', ',')} found", doubts
    if counts["warning"]:
        return "warning", f"No errors, but {counted(counts['warning'], 'warning', ',')} to look at", doubts
    if counts["info"]:
        often, frames = Counter[str](), sum(one.checked for one in reports)
        for one in (finding for report in reports for finding in report.findings):
            often[f"{one.code} {one.name}"] += one.count
        name, count = often.most_common(1)[0]
        if count > max(frames * HEADLINE_SHARE, HEADLINE_LEAST):
            return "warning", f"No errors or warnings, but {name} {count:,} times in {frames:,} frames", doubts
        return "info", f"No errors or warnings, {counted(counts['info'], 'info', ',')}", doubts
    if all(one.status == "unreadable" or not one.infiniband for one in reports) and doubts:
        return "warning", "Nothing can be said: no InfiniBand or RoCE was read", doubts
    if any(one.incomplete for one in reports):
        return "warning", "Nothing was found in what was read", doubts
    return "good", "Healthy: nothing was found", doubts


def _rows(reports: Sequence[CaptureReport], pictures: Sequence[Pictures], compared: CheckDifference | None, limit: int | None) -> list[Row]:
    found = list[Row]()
    for i, (report, one) in enumerate(zip(reports, pictures, strict=True)):
        for j, finding in enumerate(first_of_each(report.findings, limit)):
            seconds = (finding.time_ns - report.first_ns) / 1e9 if finding.frame else 0.0
            new = compared is not None and id(finding) in compared.new
            found.append(Row(finding, report.path, f"f{i}-{j}", seconds, one.details.get(id(finding), ""), new))
    found.sort(key=lambda row: -row.finding.severity.rank)
    if len(found) <= MAX_LISTED:
        return found
    of_each = max(MAX_LISTED // len({row.finding.code for row in found}), 1)
    kept = {id(one) for one in first_of_each((row.finding for row in found), of_each)}
    return [row for row in found if id(row.finding) in kept]


def _groups(reports: Sequence[CaptureReport], rows: Sequence[Row], run: Run) -> list[FindingGroup]:
    """Rules with findings: the most severe first, then those with the most findings."""
    rules = {rule.code: rule for rule in run.rules}
    _, by_rule = totals(reports)
    groups: dict[str, FindingGroup] = {}
    for row in rows:
        code, severity = row.finding.code, row.finding.severity.value
        if code not in groups:
            rule = rules.get(code)
            texts = page(rule) if rule is not None else {}
            captures = sum(code in report.by_rule for report in reports)
            fault = summary(rule) if rule is not None else row.finding.name
            groups[code] = FindingGroup(
                code, row.finding.name, severity, fault, texts, texts.get(TO_DO, ""), by_rule.get(code, 1), captures, row
            )  # fmt: skip
    return sorted(groups.values(), key=lambda group: (-Severity(group.severity).rank, -group.total, group.code))


def span_text(first_ns: int, last_ns: int) -> str:
    """When a capture was recorded, in UTC, and for how long; empty if it holds no times."""
    if not first_ns:
        return ""
    try:
        first, last = (datetime.fromtimestamp(at // 1_000_000_000, UTC) for at in (first_ns, max(first_ns, last_ns)))
    except (ValueError, OverflowError, OSError):
        return ""
    until = f"{last:%H:%M:%S}" if first.date() == last.date() else f"{last:%Y-%m-%d %H:%M:%S}"
    seconds = max(0, last_ns - first_ns) / 1e9
    return f"{first:%Y-%m-%d %H:%M:%S} to {until} UTC ({seconds:,.3f} s)"


class Files(Record):
    """When a capture was recorded, and what identifies its files."""

    span: str
    digests: list[tuple[str, Digest]]
    """Name, size and SHA-256 of each file of this machine."""


def _files(report: CaptureReport, run: Run) -> Files:
    names = [member.path for member in report.members] or [report.path]
    digests = [(public_name(name), run.digests[name]) for name in names if name in run.digests]
    return Files(span_text(report.first_ns, report.last_ns), digests)


def _section(number: int, report: CaptureReport, pictures: Pictures) -> Section:
    line = None
    if report.findings and (number < MAX_TIME_LINES or pictures.html):
        first, last = report.first_ns, report.last_ns
        line = time_line(pictures.steps or steps(report.findings, first, last), first, last, pictures.packets)
    return Section(f"capture-{number}", report, line, pictures.html, pictures.stories, number)

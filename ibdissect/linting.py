"""How a capture is checked, from opening it to finished findings: what `lint`, the Python API and the screen all call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from ibdissect.capture.chunk import LINK_NAMES
from ibdissect.capture.opening import Source, open_capture
from ibdissect.capture.reader import CaptureReader
from ibdissect.capture.stream import calm
from ibdissect.errors import CaptureError, IbdissectError
from ibdissect.lint.engine import Linter
from ibdissect.lint.finding import Finding, Secret, Severity
from ibdissect.lint.result import CaptureReport
from ibdissect.lint.rule import REGISTRY, Rule
from ibdissect.record import record
from ibdissect.rules import load
from ibdissect.table.secrets import Masker
from ibdissect.table.services import Services
from ibdissect.table.table import ChunkTable
from ibdissect.wire.catalog import Catalog

if TYPE_CHECKING:
    from ibdissect.lint.paths import PathIgnores
    from ibdissect.lint.policy import SitePolicy

Progress = Callable[[int, int], None]
"""Called with (frames so far, bytes so far)."""
Stop = Callable[[], bool]
"""Asked after every window: True ends the check there, with what was found so far."""


class Shown(Protocol):
    """What limits the report: a compiled display filter, a choice of frames, or both."""

    def rows(self, table: ChunkTable) -> npt.NDArray[np.bool_]: ...


@record(eq=True)
class Declared:
    """Rules as a configuration file declares them, to be made again in every process."""

    tables: tuple[dict[str, Any], ...]
    where: str
    """The file, as errors name it."""


@record(eq=True, frozen=False, kw_only=True)
class Options:
    """What a check may be told. It goes to worker processes as names: they import rules and plugins themselves."""

    rules: list[type[Rule]]
    plugins: tuple[str, ...] = ()
    """Names of the plugins that `rules` and `catalog` come from."""
    catalog: Catalog | None = None
    declared: Declared | None = None
    """What those of `rules` come from that a configuration file declares."""
    max_findings: int | None = 100
    show_keys: bool = False
    timing: bool = False
    shown: Shown | None = None
    severities: dict[str, Severity] = field(default_factory=dict)
    """By rule code, where they differ from the rule's own."""
    policy: SitePolicy | None = None
    """What the site allows; None: nothing is said."""
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Values that rules are told, by code and attribute (`lint.setting`)."""
    ignored: PathIgnores | None = None
    """Which rules do not judge captures of certain paths."""

    def __reduce__(self) -> tuple[Any, ...]:
        rest = {name: getattr(self, name) for name in self.__dataclass_fields__ if name not in ("rules", "catalog")}
        return _options, ([rule.code for rule in self.rules], rest)

    def rules_for(self, path: str) -> list[type[Rule]]:
        """The rules that judge the capture at a path."""
        return self.rules if self.ignored is None else self.ignored.left(path, self.rules)

    def severity_of(self, rule: Rule | type[Rule]) -> Severity:
        """How bad the findings of a rule are."""
        return self.severities.get(rule.code, rule.severity)


def _options(codes: list[str], rest: dict[str, Any]) -> Options:
    """The options again, in a worker process."""
    from ibdissect.plugins import load as load_plugins

    load()
    catalog = load_plugins(rest["plugins"]).catalog if rest["plugins"] else None
    if rest["declared"] is not None:
        from ibdissect.lint.declared import rules_of

        rules_of(rest["declared"].tables, rest["declared"].where, catalog)
    return Options(rules=[REGISTRY[code] for code in codes], catalog=catalog, **rest)


def check(source: Source, options: Options, *, progress: Progress | None = None, stop: Stop | None = None) -> CaptureReport:
    """Check one capture. Never raises on what a capture holds: an unreadable one is a report with an error."""
    try:
        reader = open_capture(source)
    except CaptureError as error:
        if stop is not None and stop():
            return CaptureReport(path=error.path, status="interrupted")
        return CaptureReport(path=error.path, status="unreadable", error=str(error))
    try:
        return check_opened(reader, options, progress=progress, stop=stop)
    finally:
        reader.close()


def check_opened(reader: CaptureReader, options: Options, *, progress: Progress | None = None, stop: Stop | None = None) -> CaptureReport:
    """The same for a capture that is open: read from its beginning, and left open."""
    try:
        return _check(reader, reader.path, options, progress, stop)
    except IbdissectError as error:
        return CaptureReport(path=reader.path, status="unreadable", error=str(error))


def linter_of(options: Options, path: str, *, on_finding: Callable[[Finding], None]) -> Linter:
    """What judges the capture at a path as the options say."""
    linter = Linter(options.rules_for(path), max_findings=options.max_findings, timing=options.timing, on_finding=on_finding)
    for rule in linter.rules if options.settings else ():
        vars(rule).update(options.settings.get(rule.code, {}))
    if options.policy is not None:
        linter.context.sources[type(options.policy)] = options.policy
    return linter


def _check(reader: CaptureReader, path: str, options: Options, progress: Progress | None, stop: Stop | None) -> CaptureReport:
    report = CaptureReport(path=path, phases=None if reader.again else 1)
    fresh: list[Finding] = []
    linter = linter_of(options, path, on_finding=fresh.append)
    if not reader.again:
        from ibdissect.fabric.later import Later

        linter.context.get(Later).enabled = False
    masker = None if options.show_keys or reader.again else Masker()
    services = linter.context.get(Services)
    table = None
    for chunk in reader.chunks():
        table = ChunkTable(chunk, options.catalog, services)
        services.feed(table)
        shown = options.shown.rows(table) if options.shown is not None else None
        if masker is not None:
            masker.feed(table)
        linter.feed(table, shown)
        _describe(fresh, table)
        fresh.clear()
        if len(chunk):
            report.first_ns = report.first_ns or int(chunk.time_ns[0])
            report.last_ns = int(chunk.time_ns[-1])
        report.frames += len(chunk)
        report.checked += len(chunk) if shown is None else int(np.count_nonzero(shown))
        if progress is not None:
            progress(report.frames, chunk.base + chunk.data.size)
        if stop is not None and stop():
            break
    linter.context.damage = reader.damage
    if stop is not None and stop():
        report.status = "interrupted"
        calm()  # keys are numbered as if the whole capture had been checked
        # A read that was ended looks like the end of the file.
        linter.context.damage = [damage for damage in reader.damage if damage.kind != "cut-off"]
    report.findings = linter.finish()
    if table is not None:
        _describe(fresh, table)  # what was found at the end, as far as its frame is in the last chunk
    if not options.show_keys:
        masker = masker or _numbered(reader, report.findings)
    severity = {rule.code: options.severity_of(rule) for rule in linter.rules if rule.code in linter.tally}
    for finding in report.findings:
        finding.capture = path
        finding.severity = severity[finding.code]
        finding.finish(None if options.show_keys else _mask(masker))
    report.link_types = [LINK_NAMES.get(link, f"link type {link}") for link in reader.link_types]
    report.by_rule = {code: tally.count for code, tally in sorted(linter.tally.items()) if tally.count}
    totals = Counter[str]()
    for code, count in report.by_rule.items():
        totals[severity[code].value] += count
    report.counts = {name: totals[name] for name in ("error", "warning", "info")}
    report.seconds = {code: tally.seconds for code, tally in linter.tally.items()} if options.timing else {}
    if reader.damage and report.status == "ok":
        report.status = "truncated" if all(d.kind == "cut-off" for d in reader.damage) else "damaged"
    return report


def _describe(findings: list[Finding], table: ChunkTable) -> None:
    """Give findings the summary line of their frame while its bytes are at hand."""
    if not findings:
        return
    from ibdissect.dissect.summary import summaries  # a clean capture need not load it

    rows = sorted({row for finding in findings if 0 <= (row := finding.frame - table.chunk.first) < len(table)})
    lines = dict(zip(rows, summaries(table, np.array(rows, np.int64)), strict=True))
    for finding in findings:
        line = lines.get(finding.frame - table.chunk.first)
        if line is not None:
            finding.context = f"{line.source} → {line.destination}  {line.protocol}  {line.info}"


def _numbered(reader: CaptureReader, findings: list[Finding]) -> Masker:
    """Keys are numbered by first appearance in the whole capture: read it again, only when a finding shows one."""
    masker, services = Masker(), Services()
    if any(secret.value for finding in findings for secret in finding.secrets()):
        for chunk in reader.chunks():
            table = ChunkTable(chunk, None, services)
            services.feed(table)
            masker.feed(table)
    return masker


def _mask(masker: Masker | None) -> Callable[[Secret], str]:
    def name(secret: Secret) -> str:
        return masker.name(secret.kind, secret.value) if masker is not None else f"{secret.kind}#?"

    return name


def check_many(
    paths: list[str], options: Options, *, jobs: int = 1, progress: Progress | None = None, stop: Stop | None = None
) -> Iterable[CaptureReport]:
    """Reports of several captures in the order of `paths`; `jobs` processes work, a crashed one costs its own capture only.

    `stop` ends the one that is being checked and leaves out those behind it; with several processes it is not asked.
    """
    if jobs <= 1 or len(paths) <= 1:
        for path in paths:
            if stop is not None and stop():
                return
            yield check(path, options, progress=progress, stop=stop)
        return
    from ibdissect.workers import in_processes

    yield from in_processes(paths, partial(check, options=options), jobs)

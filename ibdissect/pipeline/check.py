"""How is a capture checked, from opening it to finished findings? Used by `lint`, the Python interface and the terminal UI."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct as Record
from msgspec import field
from msgspec.structs import replace

from ibdissect.capture.chunk import LINK_NAMES, Reader
from ibdissect.capture.opening import Source
from ibdissect.capture.remote import public_name
from ibdissect.capture.sets import CaptureSet, Unit
from ibdissect.capture.stream import Unpacking, allow_reads
from ibdissect.decode import Bool, ChunkTable, Int
from ibdissect.decode.conversation_values import depended
from ibdissect.decode.hidden.unreadable_fields import of_plugins
from ibdissect.decode.networks import Networks
from ibdissect.decode.reassembled import JoinedRecords
from ibdissect.decode.rows import is_in
from ibdissect.decode.services import Services
from ibdissect.errors import CaptureError, IbdissectError
from ibdissect.failures import Failures, collected
from ibdissect.lint.finding import CaptureReport, Finding, Severity
from ibdissect.lint.grouping import OnOccurrence
from ibdissect.lint.linter import Linter
from ibdissect.lint.rule import REGISTRY, Rule, family
from ibdissect.lint.sequence import is_stateless
from ibdissect.rules import load
from ibdissect.subnet import FabricFollower
from ibdissect.subnet.separate_subnets import SubnetMap, SubnetSeparator
from ibdissect.wire.catalog import Catalog, builtin

from .passed_frames import PassedFrames
from .reading import Progress, Reading, Selection, division_of, open_reading, tables_before, tables_with

if TYPE_CHECKING:
    from ibdissect.lint.path_ignores import PathIgnores
    from ibdissect.lint.point_faults import PointFaults
    from ibdissect.lint.policy import SitePolicy
    from ibdissect.subnet.files import SubnetFiles
    from ibdissect.subnet.node_names import NodeNames

Stop = Callable[[], bool]
"""Called after every window; True ends the check and keeps the findings so far."""


class CheckOptions(Record, kw_only=True, dict=True):
    """The options of a check. They are pickled as names; worker processes import rules and plugins themselves.

    ConfigError if a user's rule compares keys that are hidden.
    """

    rules: list[type[Rule]]
    causes: list[type[Rule]] = field(default_factory=list)
    """Rules that run beside them and report nothing: they explain what these find (`lint.rule_selection.causes_of`)."""
    plugins: tuple[str, ...] = ()
    """Names of the plugins that contributed to `rules` and `catalog`."""
    catalog: Catalog | None = None
    roce_ports: tuple[int, ...] = ()
    """UDP ports of RoCE v2 in `catalog`, beside the usual one."""
    declared: tuple[tuple[dict[str, Any], ...], str] = (), ""
    """Those `rules` that a configuration file declares, and its name; every worker process makes them again."""
    max_findings: int | None = 100
    show_keys: bool = False
    timing: bool = False
    max_unpacked: int | None = None
    """Most bytes that a compressed capture may unpack to; None: `Unpacking.usual`."""
    threads: int = 1
    """If more than one, a second thread reads ahead."""
    selection: Selection | None = None
    """Which frames are reported; None: all."""
    severities: dict[str, Severity] = field(default_factory=dict)
    """By rule code, where they differ from the rule's own."""
    policy: SitePolicy | PointFaults | None = None
    """What the site allows, or what captures of other points say of this one's packets; None: neither."""
    division: SubnetMap = SubnetMap()
    """Which addresses belong to which subnet, if captures may hold packets of several."""
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Values of rule settings, by code and attribute (`lint.setting`)."""
    subnet: SubnetFiles | None = None
    """What files say about the subnet; None: no files."""
    names: bool = True
    """Whether messages name nodes by their NodeDescription, as far as capture and files show it; False: LIDs and GUIDs only."""
    ignored: PathIgnores | None = None
    """Which rules do not check captures at certain paths."""

    def __post_init__(self) -> None:
        for rule in (*self.rules, *self.causes):
            rule.use_keys(self.show_keys)

    def __reduce__(self) -> tuple[Any, ...]:
        rest = {name: getattr(self, name) for name in self.__struct_fields__ if name not in ("rules", "causes", "catalog")}
        return _options, ([rule.code for rule in self.rules], [rule.code for rule in self.causes], rest)

    @cached_property
    def by_code(self) -> dict[str, type[Rule]]:
        """All rules by code."""
        return {rule.code: rule for rule in self.rules}

    def rules_for(self, path: str) -> list[type[Rule]]:
        return self.rules if self.ignored is None else self.ignored.rules_for(path, self.rules)

    def severity_of(self, rule: Rule | type[Rule], own: Severity | None = None) -> Severity:
        """The severity of a rule's findings; `own` is the severity the rule gave one finding, which may be lower."""
        given = self.severities.get(rule.code, rule.severity)
        lowered = own is not None and own.rank < min(rule.severity.rank, given.rank)
        return own if own is not None and lowered else given

    def totals(self, linter: Linter) -> Counter[Severity]:
        """Exact number of findings so far, by severity."""
        totals, rules = Counter[Severity](), self.by_code
        for code, tally in ((code, tally) for code, tally in linter.tally.items() if code in rules):
            totals[self.severity_of(rules[code])] += tally.count - tally.lowered.total()
            for own, count in tally.lowered.items():
                totals[self.severity_of(rules[code], own)] += count
        return totals


def _options(codes: list[str], causes: list[str], rest: dict[str, Any]) -> CheckOptions:
    """Rebuild the options in a worker process."""
    from ibdissect.plugins import load as load_plugins

    load()
    catalog = load_plugins(rest["plugins"]).catalog if rest["plugins"] else None
    if rest["roce_ports"]:
        catalog = (catalog or builtin()).with_roce(rest["roce_ports"])
    tables, where = rest["declared"]
    if tables:
        from ibdissect.lint.toml_rules import rules_of

        rules_of(tables, where, catalog)
    rules, beside = ([REGISTRY[code] for code in some] for some in (codes, causes))
    return CheckOptions(rules=rules, causes=beside, catalog=catalog, **rest)


def check(source: Source, options: CheckOptions, *, progress: Progress | None = None, stop: Stop | None = None) -> CaptureReport:
    """Check one capture. Never raises because of its contents: an unreadable capture gives a report with an error."""
    try:
        Unpacking.most = options.max_unpacked or Unpacking.usual
        reading = open_reading(source, catalog=options.catalog, show_keys=options.show_keys)
    except CaptureError as error:
        if stop is not None and stop():
            return CaptureReport(path=error.path, status="interrupted")
        return CaptureReport(path=str(source) if isinstance(source, CaptureSet) else error.path, status="unreadable", error=str(error))
    with reading:
        return check_reading(reading, options, progress=progress, stop=stop)


def check_reading(reading: Reading, options: CheckOptions, *, progress: Progress | None = None, stop: Stop | None = None) -> CaptureReport:
    """Check an open capture from its beginning; it stays open."""
    try:
        with collected(Failures(show_keys=options.show_keys)) as failures:
            if options.selection is not None and (only := options.selection.filter) is not None and only.nodes:
                from .capture_nodes import ends_in

                only.know(ends_in(reading, options.subnet))
            if options.division.numbers:
                options = replace(options, division=division_of(reading, options.division, _listed_ports(options)))
            return _check(reading, options, failures, progress, stop or (lambda: False))
    except IbdissectError as error:
        return CaptureReport(path=reading.path, status="unreadable", error=str(error))


def linter_of(
    options: CheckOptions, reading: Reading, failures: Failures, *, on_finding: Callable[[Finding], None],
    on_occurrence: OnOccurrence | None = None,
) -> Linter:  # fmt: skip
    """The linter for a capture with the given options; with one part for each subnet, if the options tell several apart."""

    def make_linter(rules: Iterable[type[Rule]], causes: Sequence[type[Rule]] = ()) -> Linter:
        linter = Linter(
            rules, max_findings=options.max_findings, timing=options.timing, on_finding=on_finding, on_occurrence=on_occurrence,
            failures=failures, causes=causes,
        )  # fmt: skip
        for rule in linter.rules if options.settings else ():
            vars(rule).update(options.settings.get(rule.code, {}))
        linter.context.sources.update({Services: reading.services, Networks: reading.networks, SubnetMap: options.division})
        linter.context.sources[JoinedRecords] = reading.joined_messages
        linter.context.states = (*linter.context.states, reading.services.kept)
        if options.policy is not None:
            linter.context.sources[type(options.policy)] = options.policy
        return linter

    rules, subnets = options.rules_for(reading.path), options.division.subnets
    if not subnets:
        linter = make_linter(rules, options.causes)
        if any(family(rule.code) != "CAP" for rule in rules):
            linter.follow(FabricFollower)  # whichever rules are selected, it notices that subnets are mixed
    else:
        linter = make_linter([rule for rule in rules if family(rule.code) == "CAP"])
        others = [rule for rule in rules if family(rule.code) != "CAP"]
        stateless, causes = ([rule for rule in some if is_stateless(rule)] for some in (others, options.causes))
        linter.parts = {0: make_linter(stateless, causes), **{number: make_linter(others, options.causes) for number in subnets}}
    if options.subnet is not None:
        from ibdissect.subnet.files import learn

        known = linter.parts.get(1, linter)
        known.know(options.subnet.known)
        learn(known.context.get(FabricFollower).subnet, options.subnet.files)
    return linter


def _listed_ports(options: CheckOptions) -> Collection[int]:
    """GUIDs of the ports that files list."""
    return options.subnet.ports if options.subnet is not None else ()


def _mixed(linter: Linter) -> bool:
    """Whether the packets so far are those of two subnets."""
    return getattr(linter.context.sources.get(FabricFollower), "unreliable", False)


def _check(reading: Reading, options: CheckOptions, failures: Failures, progress: Progress | None, stop: Stop) -> CaptureReport:
    reader = reading.reader
    once = not reader.rereadable or reader.far  # keys are numbered in the same pass
    report = CaptureReport(path=reading.path, phases=None if reader.rereadable else 1)
    fresh: list[Finding] = []
    if once and not options.division.numbers:
        options = replace(options, division=replace(options.division, once=True))
    linter, table = linter_of(options, reading, failures, on_finding=fresh.append), None
    divider, since = None, 1
    ahead = options.threads > 1 and reader.rereadable and not options.timing
    reading.joins = once or options.selection is not None or bool(reading.catalog.streams or depended(reading.catalog))
    passed = PassedFrames() if once else None
    try:
        edges = options.selection.edges if options.selection is not None else ()
        prepare = linter.prepare if ahead else None
        without_copies = partial(ChunkTable.once, derive=linter.copies.leave_out)
        for table in reading.tables(keys=once, progress=progress, prepare=prepare, edges=edges, first=without_copies):
            selected = options.selection.rows(table) if options.selection is not None else None
            linter.context.damage = reading.damage
            linter.feed(table, selected)
            _describe(fresh, table, reading, linter)
            fresh[:] = _undescribed(fresh)
            if passed is not None:
                passed.feed(table, linter.awaited())
            _count(report, table, selected, linter.rules)
            if divider is None and _mixed(linter) and not options.division.numbers and not once:
                divider, since = SubnetSeparator(options.division, _listed_ports(options)), table.chunk.first
            if divider is not None:
                divider.feed(reading.table_of(table.chunk) if linter.left_out(table) else table)
            if stop():
                break
    except IbdissectError:
        raise
    except Exception as error:  # keep the findings so far
        failures.add("the check", error)
    if divider is not None and _mixed(linter) and not stop():
        for before in tables_before(reading, since):
            divider.feed(before)
            if stop():
                break
        division = divider.division()
        if division.numbers and not stop():
            linter.close()
            return _check(reading, replace(options, division=division), failures, progress, stop)
    linter.context.damage = reading.damage
    if stop():
        report.status = "interrupted"
        allow_reads()  # a second pass still numbers the keys of the whole capture
        # An interrupted read looks like the end of the file.
        linter.context.damage = [damage for damage in reading.damage if damage.kind != "cut-off"]
    report.findings = linter.finish()
    if table is not None:
        _describe(fresh, table, reading, linter)  # findings made at the end whose frame is in the last chunk
    rest = _undescribed(fresh)  # in earlier chunks
    frames = sorted(one.frame for one in rest)
    if passed is not None and rest:
        chunk, numbers = passed.chunk(frames)
        _describe(rest, reading.table_of(chunk, numbers.tolist()), reading, linter, numbers)
        for one in rest:
            one.starts = None
    for before in tables_with(reading, frames) if rest and not once and not stop() else ():
        _describe(rest, before, reading, linter, before.chunk.first + np.arange(len(before)))
    _word_findings(report, reading, options, failures, linter, numbered=once)
    reading.joins = True
    report.by_rule = {code: tally.count for code, tally in sorted(linter.tally.items()) if tally.count}
    totals = options.totals(linter)
    report.counts = {level.value: totals[level] for level in Severity}
    report.seconds = {code: tally.seconds for code, tally in linter.tally.items()} if options.timing else {}
    judge_reading(report, reader, failures.text() if failures else "")
    linter.close()
    return report


def _word_findings(
    report: CaptureReport, reading: Reading, options: CheckOptions, failures: Failures, linter: Linter, *, numbered: bool
) -> None:  # fmt: skip
    """Give all findings their severity and sentence. `numbered`: the keys have their numbers."""
    if not numbered and not reading.show_keys and any(secret.value for finding in report.findings for secret in finding.secrets()):
        reading.number_keys()  # a second pass, needed only if a finding shows a key
    report.unnumbered = reading.masker.dropped.count
    if not report.findings:
        return
    from .finding_ends import name_ends  # a clean capture needs none of it

    follower = linter.context.sources.get(FabricFollower)
    names = names_of(linter) if options.names else None
    for finding in report.findings:
        finding.capture = report.path
        finding.severity = options.severity_of(options.by_code[finding.code], finding.severity)
        try:
            reading.finish(finding)
            name_ends([finding], options.by_code, follower)
            if names is not None:
                finding.message, finding.context = map(names.sentence, (finding.message, finding.context))
        except Exception as error:  # the message cannot be formatted
            failures.add(f"rule {finding.code}", error, finding.frame)
            finding.message = finding.stable = finding.name
            finding.value, finding.arguments = None, {}


def names_of(linter: Linter) -> NodeNames:
    """The names of nodes that a checked capture shows, with those that files give; none if it mixes subnets that were not told apart."""
    from ibdissect.subnet.node_names import sure_names

    followers = [part.context.sources.get(FabricFollower) for part in (linter, *linter.parts.values())]
    return sure_names([one.subnet for one in followers if one is not None and not one.unreliable])


def judge_reading(report: CaptureReport, reader: Reader, failed: str) -> None:
    """Say what was read, whether all of it was, and what failed."""
    report.link_types = [LINK_NAMES.get(link, f"link type {link}") for link in reader.link_types]
    report.members = tuple(reader.members)
    broken = [damage for damage in reader.damage if damage.kind != "missing"]
    if broken and report.status == "ok":
        report.status = "truncated" if all(d.kind == "cut-off" for d in broken) else "damaged"
    errors = [f"{damage.file or report.path}: {damage.reason}" for damage in broken if damage.unread]
    if (failed and report.status != "interrupted") or any(damage.kind == "unreadable" for damage in broken):
        report.status = "failed"
    if failed:
        errors.append(f"{report.path}: {failed}")
    report.error = "; ".join(errors) or None


def _judged(table: ChunkTable, rules: Iterable[Rule]) -> Bool:
    """The frames that rules judge: packets of InfiniBand or RoCE, and what plugins declare that have rules."""
    judged = ~table.located.without_infiniband
    if not judged.all() and any(not rule.of_code or not type(rule).__module__.startswith("ibdissect.") for rule in rules):
        judged |= table.once(of_plugins)
    return judged


def _count(report: CaptureReport, table: ChunkTable, selected: Bool | None, rules: Iterable[Rule]) -> None:
    """Count frames, those selected, those with InfiniBand headers, and malformed ones; from when to when they were sent."""
    located, times = table.located, table.chunk.time_ns
    known = times[times > 0]
    if len(known):
        report.first_ns = min(report.first_ns or int(known.min()), int(known.min()))
        report.last_ns = max(report.last_ns, int(known.max()))
    report.frames += len(times)
    starts = [located.start[name] >= 0 for name in ("lrh", "bth") if name in located.start]
    if starts:
        report.infiniband += int(np.count_nonzero(np.logical_or.reduce(starts)))
    report.undecoded += int(np.count_nonzero(located.malformed))
    report.checked += len(table) if selected is None else int(np.count_nonzero(selected))
    judged = _judged(table, rules)
    report.judged += int(np.count_nonzero(judged if selected is None else judged & selected))


def _describe(findings: list[Finding], table: ChunkTable, reading: Reading, linter: Linter, frames: Int | None = None) -> None:
    """Add both ends and the summary line of its frame, and where that starts in the file, to each finding, while the chunk is in memory.

    `frames`: the number of each row of a table that is whole; None: it holds its chunk, of which the linter may have left some out.
    """
    if not findings:
        return
    from .finding_ends import describe  # a clean capture does not need it

    numbers = table.chunk.first + np.arange(len(table)) if frames is None else frames
    index = np.flatnonzero(is_in(numbers, np.array(sorted({finding.frame for finding in findings}), np.int64)))
    left_out = np.empty(0, np.int64) if frames is not None else table.once(linter.copies.leave_out).rows
    lines = describe(reading.table_of(table.chunk) if is_in(index, left_out).any() else table, index)
    rows = {int(numbers[row]): row for row in index.tolist()}
    for finding in findings:
        if (row := rows.get(finding.frame)) is not None:
            finding.who, finding.context = lines[row]
            if reading.reader.members or not reading.reader.packed:
                finding.starts = table.chunk.base + int(table.chunk.offset[row])


def _undescribed(findings: list[Finding]) -> list[Finding]:
    """Those whose frame was in none of the described tables."""
    return [one for one in findings if one.frame and not one.context]


def killed(path: Unit) -> CaptureReport:
    """The report of a capture whose check ran out of memory, or was killed."""
    name = public_name(str(path))
    return CaptureReport(path=name, status="unreadable", error=f"{name}: the process that checked it died")

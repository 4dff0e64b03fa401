"""Baselines of `lint`: reads and writes their files, and keeps enough findings to compare."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from ibdissect.capture.file_names import Unit, series_of
from ibdissect.capture.named_files import NamedFiles
from ibdissect.cli.common_options import say
from ibdissect.errors import ConfigError
from ibdissect.lint.baseline import (
    MOST,
    Baseline,
    BaselineComparison,
    BaselineResult,
    KnownFault,
    baseline_text,
    entries_of,
    parse_baseline,
)
from ibdissect.lint.finding import CaptureReport
from ibdissect.pipeline.check import CheckOptions
from ibdissect.report import first_of_each
from ibdissect.shown_urls import public_name
from ibdissect.wire.text import counted

MOST_TEXT = 64 << 20
"""Most bytes in a baseline file."""
SAID = 10
"""Fixed entries that are listed individually."""


class KnownFindings:
    """Baselines of one `lint` run: hides known findings in reports, and collects the entries of a new baseline."""

    def __init__(
        self, read: str | None, written: str | None, options: CheckOptions, units: Sequence[Unit] = (), named: NamedFiles | None = None
    ) -> None:
        """Raises `options.max_findings`, because only findings that are kept can be compared. ConfigError if `read` is not a baseline.

        `units`: the captures that will be checked. `named`: how the file `read` is opened.
        """
        if written is not None and options.selection is not None:
            raise ConfigError("--write-baseline", written, "would know a part of the captures only", hint="leave out -Y and --frames")
        self.options, self.shown, self.units = options, options.max_findings, {public_name(str(unit)): unit for unit in units}
        options.max_findings = MOST
        self.written = Baseline(written) if written is not None else None
        self.entries: list[KnownFault] = []
        self.comparison: BaselineComparison | None = None
        if read is not None:
            baseline = read_baseline(read, named)
            self.known_as = known_as(baseline, self.units)
            owners = {name: path for path, name in reversed(self.known_as.items())} | {baseline.name_of(path): path for path in self.units}
            self.comparison = BaselineComparison(baseline, whole=options.selection is None, known_as=self.known_as, owners=owners)
        self.compared: BaselineResult | None = None

    def apply(self, report: CaptureReport) -> None:
        """Process the report of one capture, leaving only the findings to show."""
        if self.written is not None:
            self.entries += entries_of([report], self.written)
        if self.comparison is not None:
            self.comparison.apply(report, {rule.code for rule in self.options.rules_for(report.path)})
        if self.shown is not None:
            report.findings = first_of_each(report.findings, self.shown)

    def finish(self, *, complete: bool = True) -> BaselineResult | None:
        """Write the new baseline, if requested (CaptureError on failure); return the comparison's result, or None without one.

        `complete`: all captures were checked. The findings of others would be missing in a new baseline, which is not written then.
        """
        if self.comparison is not None:
            self.compared = self.comparison.finish()
        if self.written is not None and not complete:
            say(f"error: the baseline {self.written.path} is not written: it would lack the findings of what could not be checked")
            self.written = None
        if self.written is not None:
            from ibdissect.capture.digest import content_of
            from ibdissect.export.whole_files import replacing

            named = {self.written.name_of(path): unit for path, unit in self.units.items()}
            found = {name: content_of(named[name]) for name in sorted({entry.capture for entry in self.entries}) if name in named}
            with replacing(self.written.path) as file:
                contents = {name: sha256 for name, sha256 in found.items() if sha256 is not None}
                file.write(baseline_text(self.entries, contents).encode("ascii"))
        return self.compared

    def lines(self) -> list[str]:
        lines = []
        if self.compared is not None:
            fixed = sum(entry.count for entry in self.compared.fixed)
            text = f"baseline {self.compared.path}: {self.compared.known} known, {self.compared.new} new, {fixed} fixed"
            lines.append(text + (f", {self.compared.unchecked} not checked" if self.compared.unchecked else ""))
            others = [f"  {path} is compared with {name}" for path, name in self.known_as.items()]
            lines += [*others[:SAID], *([f"  and {len(others) - SAID} more have other names"] if len(others) > SAID else [])]
            for entry in self.compared.fixed[:SAID]:
                times = f" ×{entry.count}" if entry.count > 1 else ""
                lines.append(f"  fixed: {entry.capture}: {entry.code}{times}: {entry.message}")
            if len(self.compared.fixed) > SAID:
                lines.append(f"  and {len(self.compared.fixed) - SAID} more fixed")
            lines += _not_checked(self.compared.not_checked)
            if fixed and self.written is None:
                lines.append("  --write-baseline takes what is fixed out of it")
        if self.written is not None:
            count = sum(entry.count for entry in self.entries)
            lines.append(f"baseline {self.written.path}: {counted(count, 'finding')} written")
        return lines


def _not_checked(entries: Iterable[KnownFault]) -> list[str]:
    """Which captures and rules of a baseline were not checked."""
    counts, codes = Counter[str](), defaultdict[str, set[str]](set)
    for entry in entries:
        counts[entry.capture] += entry.count
        codes[entry.capture].add(entry.code)
    lines = []
    for capture in sorted(counts)[:SAID]:
        rules = sorted(codes[capture])
        named = ", ".join(rules[:SAID]) + (f" and {len(rules) - SAID} more rules" if len(rules) > SAID else "")
        lines.append(f"  not checked: {capture}: {counted(counts[capture], 'finding')} ({named})")
    return lines + ([f"  and {len(counts) - SAID} more captures not checked"] if len(counts) > SAID else [])


def known_as(baseline: Baseline, units: Mapping[str, Unit]) -> dict[str, str]:
    """What captures, by path, are called in a baseline that does not know their name: by what they hold, as a file that was renamed or
    compressed holds the same; else by their place in a series, as `bench-20261128.pcap` follows `bench-20261127.pcap`.
    """
    captures, here = baseline.captures, {baseline.name_of(path) for path in units}
    strange = [path for path in units if baseline.name_of(path) not in captures]
    absent = [capture for capture in captures if capture not in here]
    found: dict[str, str] = {}
    held = {baseline.contents[capture]: capture for capture in reversed(absent) if capture in baseline.contents}
    if held and strange:
        from ibdissect.capture.digest import content_of

        for path in strange:
            content = content_of(units[path])
            if content in held:
                found[path] = held[content]
    series = _series(captures, str)
    for name, paths in _series([path for path in strange if path not in found], baseline.name_of).items():
        there = series.get(name, [])
        free = [capture for capture in there if capture in absent and capture not in found.values()]
        found |= {path: (free[i] if i < len(free) else there[-1]) for i, path in enumerate(paths) if there}
    return {path: found[path] for path in units if path in found}


def _series(names: Iterable[str], name_of: Callable[[str], str]) -> dict[str, list[str]]:
    """Captures with a date or a number in their names, by what the others of their series are called, in order."""
    placed = defaultdict[str, list[tuple[str, str]]](list)
    for name in names:
        place = series_of(name_of(name))
        if place is not None:
            placed[place[0]].append((place[1], name))
    return {series: [name for _, name in sorted(ones)] for series, ones in placed.items()}


def read_baseline(path: str, named: NamedFiles | None = None) -> Baseline:
    """The baseline in a file. Raises ConfigError if the file is missing or damaged, or if `named` refuses it."""
    named = named or NamedFiles()
    by = named.named_by or "--baseline"
    try:
        with named.open(path) as file:
            text = file.read(MOST_TEXT + 1).decode()
        if len(text) > MOST_TEXT:
            raise ConfigError(by, path, f"is not a baseline: longer than {MOST_TEXT >> 20} million bytes")
        return parse_baseline(text, path)
    except FileNotFoundError as error:
        raise ConfigError(by, path, "no such file", hint=f"write it: --write-baseline {path}") from error
    except OSError as error:
        raise ConfigError(by, path, f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(path, "file", "is a damaged baseline: no text", hint="write it anew with --write-baseline") from error

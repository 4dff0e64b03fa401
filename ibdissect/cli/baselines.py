"""How does `lint` use baselines? Reads and writes their files, and keeps enough findings to compare."""

from __future__ import annotations

from ibdissect.errors import ConfigError
from ibdissect.lint.baseline import MOST, Baseline, BaselineResult, Comparison, Entry, baseline_text, entries_of, parse_baseline
from ibdissect.lint.finding import CaptureReport
from ibdissect.report import first_of_each
from ibdissect.session.check import Options
from ibdissect.wire.text import counted

MOST_TEXT = 64 << 20
"""Most characters in a baseline file."""
SAID = 10
"""Fixed entries that are listed individually."""


class KnownFindings:
    """Baselines of one `lint` run: hides known findings in reports, and collects the entries of a new baseline."""

    def __init__(self, read: str | None, written: str | None, options: Options) -> None:
        """Raises `options.max_findings`, because only findings that are kept can be compared. ConfigError if `read` is not a baseline."""
        if written is not None and options.selection is not None:
            raise ConfigError("--write-baseline", written, "would know a part of the captures only", hint="leave out -Y and --frames")
        self.options, self.shown = options, options.max_findings
        options.max_findings = MOST
        self.written = Baseline(written) if written is not None else None
        self.entries: list[Entry] = []
        self.comparison: Comparison | None = None
        if read is not None:
            self.comparison = Comparison(read_baseline(read), whole=options.selection is None)
        self.compared: BaselineResult | None = None

    def apply(self, report: CaptureReport) -> None:
        """Process the report of one capture, leaving only the findings to show."""
        if self.written is not None:
            self.entries += entries_of([report], self.written)
        if self.comparison is not None:
            self.comparison.apply(report, {rule.code for rule in self.options.rules_for(report.path)})
        if self.shown is not None:
            report.findings = first_of_each(report.findings, self.shown)

    def finish(self) -> BaselineResult | None:
        """Write the new baseline, if requested (CaptureError on failure); return the comparison's result, or None without one."""
        if self.comparison is not None:
            self.compared = self.comparison.finish()
        if self.written is not None:
            from ibdissect.export.files import replacing

            with replacing(self.written.path) as file:
                file.write(baseline_text(self.entries).encode("ascii"))
        return self.compared

    def lines(self) -> list[str]:
        lines = []
        if self.compared is not None:
            fixed = sum(entry.count for entry in self.compared.fixed)
            text = f"baseline {self.compared.path}: {self.compared.known} known, {self.compared.new} new, {fixed} fixed"
            lines.append(text + (f", {self.compared.unchecked} not checked" if self.compared.unchecked else ""))
            for entry in self.compared.fixed[:SAID]:
                times = f" ×{entry.count}" if entry.count > 1 else ""
                lines.append(f"  fixed: {entry.capture}: {entry.code}{times}: {entry.message}")
            if len(self.compared.fixed) > SAID:
                lines.append(f"  and {len(self.compared.fixed) - SAID} more fixed")
            if fixed and self.written is None:
                lines.append("  --write-baseline takes what is fixed out of it")
        if self.written is not None:
            count = sum(entry.count for entry in self.entries)
            lines.append(f"baseline {self.written.path}: {counted(count, 'finding')} written")
        return lines


def read_baseline(path: str) -> Baseline:
    """The baseline in a file. Raises ConfigError if the file is missing or damaged."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(MOST_TEXT + 1)
        if len(text) > MOST_TEXT:
            raise ConfigError("--baseline", path, f"is not a baseline: longer than {MOST_TEXT >> 20} million characters")
        return parse_baseline(text, path)
    except FileNotFoundError as error:
        raise ConfigError("--baseline", path, "no such file", hint=f"write it: --write-baseline {path}") from error
    except OSError as error:
        raise ConfigError("--baseline", path, f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(path, "file", "is a damaged baseline: no text", hint="write it anew with --write-baseline") from error

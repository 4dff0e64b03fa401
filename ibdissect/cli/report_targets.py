"""The reports that `lint` writes: their formats, their files, and how many findings each lists."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct as Record
from msgspec.structs import replace

from ibdissect import report as formats
from ibdissect.capture.file_owners import followed
from ibdissect.errors import CaptureError, ConfigError, nearest
from ibdissect.lint.finding import CaptureReport

from .output import require_extra, write_text

if TYPE_CHECKING:
    from ibdissect.capture.digest import Digest

LISTED = 100
"""Findings of a rule and a capture that formats for people list, unless --max-findings says otherwise."""
MOST_LISTED = 10_000
"""The same for formats that programs read: all, as long as that does not take all memory. What is left out, each of them says."""


class Target(Record, frozen=True):
    """A report to write."""

    form: str
    file: str | None = None
    """None: standard output."""

    @property
    def streams(self) -> bool:
        """Whether findings are printed as they come."""
        return self.file is None and self.form in formats.STREAMED

    def names_configuration(self, *, quiet: bool) -> bool:
        """Whether the report says which configuration was followed; nothing is printed as it comes if `quiet`."""
        return self.form not in formats.WITHOUT_CONFIGURATION and not (quiet and self.streams)

    def limit(self, given: int | None) -> int | None:
        """Most findings of a rule and a capture that are listed, None for all; `given`: by --max-findings, -1 for all, or None."""
        usual = LISTED if self.form in formats.FOR_PEOPLE else MOST_LISTED
        return usual if given is None else None if given < 0 else given


def targets_of(form: str | None, output: str | None, files: Iterable[str]) -> list[Target]:
    """The reports that the options ask for; `files` are those of --output-file. The first is --format's, which goes to standard output
    unless --output names a file. ConfigError.
    """
    on_github = os.environ.get("GITHUB_ACTIONS") == "true" and output is None
    found = [Target(form or ("github" if on_github else "text"), output)]
    for text in files:
        name, equals, file = text.partition("=")
        if not equals or not file:
            raise ConfigError("--output-file", text, "is not FORMAT=FILE", hint="write --output-file junit=report.xml")
        if name not in formats.FORMATS:
            raise ConfigError("--output-file", text, f"there is no format {name}", hint=nearest(name, formats.FORMATS))
        found.append(Target(name, file))
    named = [os.path.realpath(one.file) for one in found if one.file not in (None, "-", "/dev/stdout", "/dev/null")]
    if twice := [file for file in named if named.count(file) > 1]:
        raise ConfigError("--output-file", twice[0], "is named twice: one report would replace the other")
    if any(one.form == "html" for one in found):
        require_extra("jinja2", extra="report")
    return found


def most_listed(targets: Sequence[Target], given: int | None) -> int | None:
    """Most findings of a rule and a capture that any of the reports lists; None: all."""
    limits = [target.limit(given) for target in targets]
    return None if None in limits else max(limit for limit in limits if limit is not None)


def write_report(target: Target, reports: list[CaptureReport], run: formats.Run, given: int | None) -> None:
    """Write a report; in GitHub Actions, all findings also to the job's summary, as annotations are few. CaptureError."""
    limit, summary = target.limit(given), summary_file(target.form)
    write_text(formats.render(target.form, limited(reports, limit), replace(run, summarized=summary is not None)), target.file)
    if summary is not None:
        try:
            with open(followed(summary), "a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(formats.render("markdown", limited(reports, Target("markdown").limit(given)), run))
        except OSError as error:
            raise CaptureError(summary, f"the job summary cannot be written: {error.strerror}") from error


def limited(reports: Iterable[CaptureReport], limit: int | None) -> list[CaptureReport]:
    """The reports with the first findings of each rule only."""
    return [replace(report, findings=formats.first_of_each(report.findings, limit)) for report in reports]


def summary_file(form: str) -> str | None:
    """The file that GitHub shows as the job's summary; None outside GitHub and for other formats."""
    return os.environ.get("GITHUB_STEP_SUMMARY") or None if form == "github" else None


def digests_of(targets: Iterable[Target], files: Iterable[str]) -> dict[str, Digest]:
    """Size and SHA-256 of the captures that are files, if one of the formats shows them."""
    if not any(target.form in formats.WITH_DIGESTS for target in targets):
        return {}
    from ibdissect.capture.digest import digest_of

    found = {file: digest_of(file) for file in files}
    return {file: digest for file, digest in found.items() if digest is not None}

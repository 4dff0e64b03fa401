"""How is the page of `ibdissect report` made? Captures are read, drawn and closed one after the other."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ibdissect.capture.discover import discover
from ibdissect.errors import CaptureError
from ibdissect.fabric.model import Subnet
from ibdissect.lint.baseline import MOST
from ibdissect.lint.capture_report import CaptureReport
from ibdissect.report import Run
from ibdissect.report.html import Pictures, page_text
from ibdissect.report.new_and_fixed import Before, before_of_json, before_of_reports, compare
from ibdissect.session.check import Options
from ibdissect.session.reading import Progress
from ibdissect.study.background import KEPT
from ibdissect.subnet.compare import changes, texts

from .capture import pictures
from .portrait import Portrait, read

PICTURED = 3 << 20
"""Characters of pictures; captures after these have their findings only."""
DECODED = 180
"""Findings whose frames are decoded, over all captures."""
CHANGES = 500
"""Changes of the subnet that are listed."""


def earlier(path: str, options: Options, progress: Progress | None = None) -> Before:
    """What `path` says: a report or baseline as JSON, else captures (a file, directory or glob). ConfigError, CaptureError."""
    if os.path.isfile(path):
        with open(path, "rb") as file:
            if file.read(64).lstrip()[:1] in (b"[", b"{"):
                file.seek(0)
                return before_of_json(path, file.read().decode("utf-8", "replace"))
    reports, subnets = list[CaptureReport](), list[Subnet]()
    for one in discover([path]).files:
        with read(one, options, MOST, progress) as portrait:
            if not isinstance(portrait, Portrait):
                raise CaptureError(one, (portrait.error or "cannot be read").removeprefix(f"{one}: "))
            reports.append(portrait.report)
            subnets.append(portrait.subnet)
    before = before_of_reports(path, reports)
    before.subnet = _alone(subnets)
    return before


def _alone(subnets: Sequence[Subnet]) -> Subnet | None:
    """The subnet of a single capture that shows one."""
    return subnets[0] if len(subnets) == 1 and any(True for _ in subnets[0].ports()) else None


def page(
    files: Sequence[str], options: Options, before: Before | None = None, limit: int | None = 100, progress: Progress | None = None
) -> tuple[str, list[CaptureReport]]:
    """The page about captures, and what was found in each. At most `limit` findings of a rule and capture are listed."""
    kept = None if limit is None else max(limit, KEPT if before is None else MOST)
    reports, shown, subnets, room, bare = list[CaptureReport](), list[Pictures](), list[Subnet](), PICTURED, 0
    for number, path in enumerate(files, 1):
        with read(path, options, kept, progress) as portrait:
            if not isinstance(portrait, Portrait):
                reports.append(portrait)
                shown.append(Pictures())
                continue
            made = pictures(portrait, number, max(DECODED // len(files), 3))
            if len(made.html) > room:
                made.html, bare = "", bare + 1
            room -= len(made.html)
            portrait.describe(limit)
            reports.append(portrait.report)
            shown.append(made)
            subnets.append(portrait.subnet)
    lines = list[str]()
    if before is not None and before.subnet is not None and (subnet := _alone(subnets)) is not None:
        lines = list(texts(changes(before.subnet, subnet)))
        if len(lines) > CHANGES:
            lines[CHANGES:] = [f"~ and {len(lines) - CHANGES} more: ibdissect diff lists all"]
    compared = compare(before, reports, lines) if before is not None else None
    have = "1 capture has" if bare == 1 else f"{bare} captures have"
    notes = [f"{have} no pictures here, as the page would become too big: report on fewer captures to see them."] if bare else []
    return page_text(reports, Run(rules=tuple(options.rules)), shown, compared, notes, limit), reports

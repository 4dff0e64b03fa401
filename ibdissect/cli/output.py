"""What do the commands share that write files: the option `--to`, the extra they need, findings, filters on findings?"""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any

import click

from ibdissect.cli.common import damage_text, limits, say
from ibdissect.errors import CaptureError, ConfigError

max_findings_option = click.option(
    "--max-findings", type=click.IntRange(min=1), default=10_000, show_default=True, metavar="N", help="Written per rule."
)
to_option = click.option("--to", "target", required=True, metavar="FILE", help="The file to write; replaced only when all is written.")

FRAME_ENDINGS = {".pcap": "pcap", ".cap": "pcap", ".pcapng": "pcapng", ".ntar": "pcapng"}
"""Endings that stand for captures, with the container each of them means."""


def ending_of(target: str, known: Any) -> str:
    """The ending of a file to write; ConfigError when it is none of the known ones."""
    ending = os.path.splitext(target)[1].lower()
    if ending not in known:
        raise ConfigError("--to", target, f"the ending {ending or '(none)'} says no format", hint=f"known are {' '.join(known)}")
    return ending


def require_extra(*modules: str) -> None:
    """ConfigError with the command that installs what is missing."""
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        raise ConfigError(
            "ibdissect[export]", ", ".join(missing), "is not installed", hint="install it: python -m pip install 'ibdissect[export]'"
        )


def findings_of(opened: Any, common: dict[str, Any], shown: Any = None, max_findings: int | None = None) -> Any:
    """The report on a capture that is read twice. CaptureError for a pipe and for what cannot be read."""
    from .checking import check_options

    if not opened.reader.again:
        raise CaptureError(opened.path, "is read twice for its findings, which a pipe cannot give")
    report = opened.report(check_options(common, max_findings=max_findings, shown=shown))
    kept: dict[str, int] = {}
    for finding in report.findings:
        kept[finding.code] = kept.get(finding.code, 0) + 1
    left = {code: count - kept.get(code, 0) for code, count in report.by_rule.items() if count > kept.get(code, 0)}
    if left and max_findings is not None:
        say("not all findings: " + ", ".join(f"{count} more of {code}" for code, count in left.items()))
    return report


def shown_of(opened: Any, common: dict[str, Any]) -> Any:
    """What limits the frames; a filter that asks for findings or later answers gets them."""
    wanted = limits(common, opened.catalog)
    if wanted is not None and wanted.needs_findings:
        codes: dict[int, list[str]] = {}
        for finding in findings_of(opened, common).findings:
            codes.setdefault(finding.frame, []).append(finding.code)
        wanted.findings = codes
    if wanted is not None and wanted.needs_answers:
        wanted.answers = opened.answers()
    return wanted


def done(opened: Any, common: dict[str, Any], text: str) -> None:
    """Say what was written and what of the capture was broken."""
    say_damage(opened, common)
    if not common["quiet"]:
        say(text)


def say_damage(opened: Any, common: dict[str, Any]) -> None:
    """Say what of the capture was broken."""
    for damage in () if common["quiet"] else opened.damage:
        say(damage_text(opened.path, damage))

"""The page of `ibdissect report` and its pictures. Captures are read, drawn and closed one after the other."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from ibdissect.capture.digest import Digest
from ibdissect.capture.path_arguments import discover
from ibdissect.errors import CaptureError
from ibdissect.lint.baseline import MOST
from ibdissect.lint.finding import CaptureReport
from ibdissect.pipeline.check import CheckOptions
from ibdissect.pipeline.reading import Progress
from ibdissect.report import Run, charts
from ibdissect.report.html import NOTHING, About, Pictures, environment, page_text
from ibdissect.report.new_and_fixed import Before, before_of_json, before_of_reports, compare
from ibdissect.report.stories import StoriesOnPage, stories
from ibdissect.screen_model.background_analysis import KEPT
from ibdissect.subnet import Subnet
from ibdissect.subnet.compare import changes, texts

from .conversation_rows import conversations, requests
from .finding_frames import chosen, decoded
from .ladders import ladders
from .marks import marks
from .partition_matrix import matrix
from .portrait import Portrait, read
from .subnet import drawing

PICTURED = 3 << 20
"""Characters of pictures; captures after these have their findings only."""
PROVED_OF = 18
"""Connections whose proofs are decoded: one for so many findings whose frames are."""
DECODED = 180
"""Findings whose frames are decoded, over all captures."""
CHANGES = 500
"""Changes of the subnet that are listed."""


def earlier(path: str, options: CheckOptions, progress: Progress | None = None) -> Before:
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
    files: Sequence[str], options: CheckOptions, before: Before | None = None, limit: int | None = 100, progress: Progress | None = None,
    about: About = NOTHING, digests: Mapping[str, Digest] = {}, notes: Sequence[str] = (),
) -> tuple[str, list[CaptureReport]]:  # fmt: skip
    """The page about captures, and what was found in each. At most `limit` findings of a rule and capture are listed.

    `digests`: sizes and hashes of the files, by path; `notes` say what was left out.
    """
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
            portrait.name_nodes(limit)
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
    too_big = f"{have} no pictures here, as the page would become too big: report on fewer captures to see them."
    notes = [*notes, *([too_big] if bare else [])]
    return page_text(reports, Run(rules=tuple(options.rules), digests=digests), shown, compared, notes, limit, about), reports


def pictures(portrait: Portrait, number: int, frames: int) -> Pictures:
    """The pictures of capture `number` of the page, and the decoded frames of at most so many findings."""
    shot, report = portrait.shot, portrait.report
    traffic = shot.traffic
    mixes = (
        ("Management datagrams by class", traffic.classes),
        ("Packets by partition", traffic.p_keys),
        ("Packets by OpCode", traffic.opcodes),
    )
    html = environment().get_template("capture.html").render(
        number=number, path=report.path, mixes=[charts.bars(title, mix) for title, mix in mixes if mix], frames=traffic.frames,
        drawing=drawing(portrait.subnet, marks(portrait)), conversations=conversations(portrait),
        requests=requests(portrait), ladders=ladders(portrait), matrix=matrix(portrait),
    )  # fmt: skip
    line = traffic.line
    return Pictures(
        html, line.packets[: line.used].tolist(), portrait.over_time(charts.STEPS), _details(portrait, frames),
        _stories(portrait, frames // PROVED_OF),
    )  # fmt: skip


def _stories(portrait: Portrait, most: int) -> StoriesOnPage | None:
    """What became of the connections; the proofs of the first `most` are decoded."""
    diagnosis = portrait.study.stories.diagnosis
    if diagnosis is None:
        return None
    made = stories(diagnosis, portrait.report.first_ns, portrait.name)
    proofs = [proof for one in made.every[: max(most, 1)] for proof in one.proofs]
    template, trees = environment().get_template("decoded.html"), portrait.model.trees(sorted({proof.frame for proof in proofs}))
    for proof in proofs:
        proof.decoded = template.render(number=proof.frame, frame=decoded(trees[proof.frame]))
    return made


def _details(portrait: Portrait, most: int) -> dict[int, str]:
    template = environment().get_template("frame.html")
    findings = chosen(portrait.report.findings, most)
    trees = portrait.model.trees(sorted({finding.frame for finding in findings}))
    return {id(one): template.render(one=one, frame=decoded(trees[one.frame], one)) for one in findings}

"""Which pictures does the page show of a capture? All of them as HTML, made while its file is open."""

from __future__ import annotations

from ibdissect.report import charts
from ibdissect.report.html import Pictures, environment

from .conversations import conversations, requests
from .frames import chosen, decoded
from .ladders import ladders
from .marks import marks
from .partitions import matrix
from .portrait import Portrait
from .subnet import drawing


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
    return Pictures(html, line.packets[: line.used].tolist(), portrait.over_time(charts.STEPS), _details(portrait, frames))


def _details(portrait: Portrait, most: int) -> dict[int, str]:
    template = environment().get_template("frame.html")
    findings = chosen(portrait.report.findings, most)
    trees = portrait.model.trees(sorted({finding.frame for finding in findings}))
    return {id(one): template.render(one=one, frame=decoded(trees[one.frame], one)) for one in findings}

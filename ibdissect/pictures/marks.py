"""Ports that findings name, with the worst severity. For the drawing of the subnet and the P_Key matrix."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct as Record
from msgspec import field

from ibdissect.lint.finding import Finding
from ibdissect.subnet import Port, Subnet
from ibdissect.subnet.node_names import IN_TEXT
from ibdissect.wire.text import counted

from .portrait import Portrait


class Mark(Record):
    """Findings about a port."""

    level: str
    """The worst severity."""
    rank: int
    count: int = 0
    codes: dict[str, None] = field(default_factory=dict)
    """In order of appearance."""

    def add(self, finding: Finding) -> None:
        self.count += 1
        self.codes[finding.code] = None
        if finding.severity.rank > self.rank:
            self.level, self.rank = finding.severity.value, finding.severity.rank

    @property
    def text(self) -> str:
        """`3 findings: PKY001, PKY021`."""
        codes = list(self.codes)
        more = f" and {len(codes) - 6} more rules" if len(codes) > 6 else ""
        return f"{counted(self.count, 'finding')}: {', '.join(codes[:6])}{more}"


def marks(portrait: Portrait) -> dict[Port, Mark]:
    """Ports that findings name in their sentence; where it names none, the two ends of the frame."""
    found: dict[Port, Mark] = {}
    findings = portrait.report.findings
    named = [dict.fromkeys(_named(finding, portrait.subnet)) for finding in findings]  # in order, not as memory has them
    ends = portrait.ends(finding.frame for finding, ports in zip(findings, named, strict=True) if finding.frame and not ports)
    for finding, ports in zip(findings, named, strict=True):
        if not ports and finding.frame:
            lids = (end.lid for end in ends[finding.frame])
            owners = (portrait.subnet.owner(lid, finding.frame)[0] for lid in lids if lid is not None)
            ports = dict.fromkeys(port for port in owners if port is not None)
        for port in ports:
            found.setdefault(port, Mark(finding.severity.value, finding.severity.rank)).add(finding)
    return found


def _named(finding: Finding, subnet: Subnet) -> Iterator[Port]:
    for name in IN_TEXT.finditer(finding.message):
        port = None
        if name[4] is not None:
            port = subnet.owner(int(name[4]), finding.frame)[0]
        elif name[1] is not None and (node := subnet.nodes.get(int(name[1], 16))) is not None:
            port = node.ports.get(int(name[2][6:]) if name[2] else 0)
        if port is not None:
            yield port

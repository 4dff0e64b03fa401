"""OpenSM's own files: opensm.conf, guid2lid, guid2mkey, neighbors, opensm.log.

Formats: osm_subnet.c, osm_db_pack.c of opensm 3.3. Vendors' versions have no empty line after each record.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ibdissect.subnet import SWITCH

from .file_facts import FileFact, LinkFact, ManagerFact, MKeyFact, NamedPort, NodeFact, OptionFact, PortFact, WholeFact
from .lines import NODE_PORTS, UNICAST_LIDS, Lines, guid, lmc_of, number

BOUND = re.compile(r"binding to port GUID (0x[0-9a-fA-F]+)")
OPTION = re.compile(r"([a-z_0-9]+)\s+(\S.*)")
END = re.compile(r"(0x[0-9a-fA-F]+):(\d+)")


def opensm_conf(lines: Lines) -> Iterator[FileFact]:
    """`key value`; values of secret keys are not kept."""
    for text in lines.content():
        found = OPTION.fullmatch(text.split("#")[0].strip())
        if found is None:
            lines.unknown("an option and its value")
        elif not found[1].endswith("_key"):
            yield OptionFact(lines.number, found[1], found[2].strip())


def guid2lid(lines: Lines) -> Iterator[FileFact]:
    """`0x<port guid> 0x<first lid> 0x<last lid>`; the LMC is the size of the range. Lists all LIDs, also of ports that are gone."""
    for words in _records(lines, 3):
        port, first, last = guid(words[0]), number(words[1], UNICAST_LIDS, 16), number(words[2], UNICAST_LIDS, 16)
        lmc = lmc_of(range(first, last + 1)) if first is not None and last is not None else -1
        if port is None or first is None or lmc < 0:
            lines.unknown("a port GUID, its first LID and its last LID")
            continue
        yield PortFact(lines.number, NamedPort(port, lid=first), lmc)
    if not lines.strange:
        yield WholeFact(0, sure=False)


def guid2mkey(lines: Lines) -> Iterator[FileFact]:
    """`0x<port guid> 0x<M_Key>`. Keys are secret: messages never show the line."""
    for words in _records(lines, 2):
        port, key = guid(words[0]), number(words[1], range(1 << 64), 16)
        if port is None or key is None:
            lines.unknown("a port GUID and its M_Key")
            continue
        yield MKeyFact(lines.number, NamedPort(port), key)


def neighbors(lines: Lines) -> Iterator[FileFact]:
    """`0x<port guid>:<port> 0x<port guid>:<port>`, each cable from both ends. A GUID with several ports belongs to a switch."""
    first: dict[int, int] = {}
    for words in _records(lines, 2):
        ends = []
        for word in words:
            found = END.fullmatch(word)
            port, at = (guid(found[1]), number(found[2], NODE_PORTS, 10)) if found else (None, None)
            if port is not None and at is not None:
                ends.append(NamedPort(port, number=at))
        if len(ends) != 2:
            lines.unknown("GUID:port of both ends of a cable")
            continue
        for end in ends:
            if first.setdefault(end.guid, end.number) not in (end.number, -1):
                first[end.guid] = -1
                yield NodeFact(lines.number, end.guid, SWITCH)
                yield PortFact(lines.number, NamedPort(end.guid, end.guid, 0))
        yield LinkFact(lines.number, ends[0], ends[1])


def opensm_log(lines: Lines) -> Iterator[FileFact]:
    """The port that opensm runs on; nothing else is read from a log."""
    last = 0
    for text in lines:
        found = BOUND.search(text)
        port = guid(found[1]) if found else None
        if port and port != last:
            last = port
            yield ManagerFact(lines.number, port)


def _records(lines: Lines, count: int) -> Iterator[list[str]]:
    for text in lines.content():
        words = text.split()
        if len(words) == count:
            yield words
        else:
            lines.unknown(f"{count} words")

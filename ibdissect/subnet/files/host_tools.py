"""Files and outputs of a host about its own ports: /sys/class/infiniband, ibstat, ibv_devinfo, rdma link, show_gids."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ibdissect.subnet import CA
from ibdissect.subnet.p_keys import BLOCK, block_of

from .file_facts import FileFact, NamedPort, NodeFact, PortFact, TableFact
from .lines import NODE_PORTS, UNICAST_LIDS, Lines, guid, number, port_guid

SYSFS = re.compile(
    r"(?:==> )?(?:\S*?/)?(?P<device>[^/\s]+)/(?:ports/(?P<port>\d+)/)?"
    r"(?P<name>pkeys/\d+|gids/\d+|lid|lid_mask_count|node_guid|link_layer)(?: <==|:(?P<value>.*))?\s*"
)
LINK = re.compile(r"link (\S+)/(\d+) (?=.*\blid (\d+)\b)(?=.*\blmc (\d)\b)?.*")
SHOWN = re.compile(r"(\S+)\s+(\d+)\s+(\d+)\s+([0-9a-fA-F:]{15,39})(\s.*)?")
Ports = dict[tuple[str, int], dict[str, str]]
"""(device, port) -> name -> value; port 0 holds the values of the device."""


def sysfs_values(lines: Lines) -> Iterator[tuple[int, str, int, str, str]]:
    """(line, device, port, name, value) of files in sysfs, printed by `tail -n +1` (`==> path <==`) or `grep .` (`path:value`)."""
    waiting: tuple[str, int, str] | None = None
    for text in lines:
        text = text.strip()
        found = SYSFS.fullmatch(text)
        if found:
            what = found["device"], number(found["port"] or "0", NODE_PORTS, 10) or 0, found["name"]
            if found["value"] is not None:
                yield lines.number, *what, found["value"].strip()
            waiting = what if found["value"] is None else None
        elif text.startswith("==>"):
            waiting = None
        elif text and waiting is not None:
            yield lines.number, *waiting, text
            waiting = None


def sysfs_ports(lines: Lines) -> Ports:
    """What the files say about each port besides its P_Keys."""
    ports: Ports = {}
    for _, device, port, name, value in sysfs_values(lines):
        if not name.startswith("pkeys"):
            ports.setdefault((device, port), {})[name] = value
    return ports


def sysfs(lines: Lines, ports: Ports) -> Iterator[FileFact]:
    """P_Key tables and LIDs. `ports`: the values from all files of this host (`sysfs_ports`), since P_Key files do not name their port."""
    tables: dict[tuple[str, int], dict[int, tuple[int, int]]] = {}
    for line, device, port, name, value in sysfs_values(lines):
        if name.startswith("pkeys/"):
            index, key = number(name[6:], range(1 << 15), 10), number(value, range(1 << 16), 16)
            if index is None or key is None:
                lines.unknown("a P_Key")
                continue
            tables.setdefault((device, port), {})[index] = key, line
        elif name == "lid" and (end := _end(device, port, ports)).lid:
            yield PortFact(line, end, _lmc(ports[device, port].get("lid_mask_count", ""), 0))
        elif name == "node_guid" and (node := guid(value)):
            yield NodeFact(line, node, CA)
    for (device, port), keys in tables.items():
        end = _end(device, port, ports)
        if ports.get((device, port), {}).get("link_layer") == "Ethernet":
            continue
        if not end.guid and not end.lid:
            lines.number = next(iter(keys.values()))[1]
            lines.unknown("the port's lid or gids/0 beside its pkeys, in this file or one with the same beginning of its name")
            continue
        # A full table may be part of a longer one.
        whole = sorted(keys) == list(range(len(keys))) and not keys[len(keys) - 1][0]
        for block in sorted({index // BLOCK for index in keys}):
            mine = [keys.get(index, (0, 0)) for index in range(block * BLOCK, (block + 1) * BLOCK)]
            line = next(line for _, line in mine if line)
            yield TableFact(line, end, block, block_of(key for key, _ in mine), len(keys) if whole else 0)


def _end(device: str, port: int, ports: Ports) -> NamedPort:
    """The port by GUID (lower half of GID 0) and LID."""
    attributes, node = ports.get((device, port), {}), ports.get((device, 0), {})
    own = port_guid(attributes.get("gids/0", ""))
    node_guid = guid(node.get("node_guid", "")) or 0
    return NamedPort(own, node_guid if own else 0, port, number(attributes.get("lid", ""), UNICAST_LIDS, 0) or 0)


def _lmc(text: str, base: int) -> int:
    """An LMC; -1 if invalid."""
    found = number(text, range(8), base)
    return -1 if found is None else found


def ibstat(lines: Lines) -> Iterator[FileFact]:
    """ibstat, of one host or of several in sequence."""
    node, port, values, start = 0, 0, dict[str, str](), 0
    for text in lines:
        name, colon, value = (part.strip() for part in text.partition(":"))
        if name == "Node GUID":
            node = guid(value) or 0
        elif name.startswith("Port ") and name[5:].isdecimal() and len(name) < 9 and colon:
            port, values, start = int(name[5:]), {}, lines.number
        elif colon and port:
            values[name] = value
            if name == "Link layer" and value != "Ethernet":
                own, lid = guid(values.get("Port GUID", "")), number(values.get("Base lid", ""), UNICAST_LIDS, 10)
                if own and node and port < 256:
                    yield NodeFact(start, node, CA)
                    yield PortFact(start, NamedPort(own, node, port, lid or 0), _lmc(values.get("LMC", ""), 10))
                else:
                    lines.unknown("Node GUID and Port GUID of the port")


def ibv_devinfo(lines: Lines) -> Iterator[FileFact]:
    """ibv_devinfo; the port GUID is in GID 0, which only -v prints."""
    node, end, lmc, line = 0, NamedPort(), -1, 0
    for text in lines:
        name, _, value = (part.strip() for part in text.partition(":"))
        if name in ("hca_id", "port") and end.lid and end.number > 0:
            yield PortFact(line, end, lmc)
        if name == "hca_id":
            node, end, lmc = 0, NamedPort(), -1
        elif name == "node_guid":
            node = guid(value) or 0
        elif name == "port":
            end, lmc, line = NamedPort(number=number(value, NODE_PORTS, 10) or 0), -1, lines.number
        elif name == "port_lid":
            end = end._replace(lid=number(value, UNICAST_LIDS, 10) or 0)
        elif name == "port_lmc":
            lmc = _lmc(value, 0)
        elif name.replace(" ", "") == "GID[0]" and (own := port_guid(value.split(",")[0])):
            end = end._replace(guid=own, node=node)
    if end.lid and end.number > 0:
        yield PortFact(line, end, lmc)


def rdma_link(lines: Lines) -> Iterator[FileFact]:
    """`rdma link`: LIDs, without GUIDs; LID 65535 is none."""
    for text in lines:
        found = LINK.fullmatch(text.strip())
        lid = number(found[3], UNICAST_LIDS, 10) if found else None
        if found and lid:
            yield PortFact(lines.number, NamedPort(lid=lid), _lmc(found[4] or "", 10))


def show_gids(lines: Lines) -> Iterator[FileFact]:
    """show_gids: for InfiniBand, GID 0 is the prefix and the port GUID. RoCE lines (v1, v2) teach no port GUID."""
    for text in lines:
        found = SHOWN.fullmatch(text.strip())
        if found and (own := port_guid(found[4])) and found[3] == "0" and not re.search(r"\bv[12]\b", found[5] or ""):
            yield PortFact(lines.number, NamedPort(own))

"""A TOML file about a RoCE network: `[roce]` with its settings, and one `[[roce.host]]` for each host."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Any

from ibdissect import toml
from ibdissect.errors import SubnetFileError, nearest
from ibdissect.subnet.roce_network import mapped

from .file_facts import FileFact, RoceFact, RoceHostFact
from .lines import Lines

VLANS, PRIORITIES, DSCPS = range(1, 4095), range(8), range(64)
SETTINGS = ("vlans", "priorities", "lossless", "ecn", "all-hosts", "host")
HOST_KEYS = ("name", "addresses", "vlans")
ERROR_PLACE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")


def roce(lines: Lines) -> Iterator[FileFact]:
    """The facts of the file. SubnetFileError names the key and its line."""
    text = list(lines)
    try:
        content = toml.tables("\n".join(text))
    except (ValueError, RecursionError) as error:  # ValueError also for numbers of thousands of digits
        found = ERROR_PLACE.search(str(error))
        line = int(found[1]) if found and found[1] else len(text)
        raise SubnetFileError(lines.path, line, f"is not valid TOML: {ERROR_PLACE.sub('', str(error))}") from error
    return _facts(_TomlReader(lines.path, text), content)


def _facts(reader: _TomlReader, content: dict[str, Any]) -> Iterator[FileFact]:
    if set(content) != {"roce"} or not isinstance(content["roce"], dict):
        raise reader.error(1, "has other tables than [roce] and [[roce.host]]")
    table = content["roce"]
    reader.known(table, SETTINGS)
    for key, value in table.items():
        line = reader.of_key(key)
        match key:
            case "vlans":
                yield RoceFact(line, key, frozenset(reader.numbers(value, VLANS, key, line)))
            case "lossless":
                yield RoceFact(line, key, frozenset(reader.numbers(value, PRIORITIES, key, line)))
            case "priorities":
                if not isinstance(value, dict):
                    raise reader.error(line, "roce.priorities must be a table: 26 = 3")
                (*dscps,) = reader.numbers([int(one) if one.isdecimal() else one for one in value], DSCPS, key, line)
                yield RoceFact(line, key, dict(zip(dscps, reader.numbers([*value.values()], PRIORITIES, key, line), strict=True)))
            case "host":
                continue
            case _:
                if not isinstance(value, bool):
                    raise reader.error(line, f"roce.{key} must be true or false")
                yield RoceFact(line, key, value)
    hosts = table.get("host", [])
    if not isinstance(hosts, list) or not all(isinstance(host, dict) for host in hosts):
        raise reader.error(1, "hosts must be written as [[roce.host]]")
    start, owners = 0, dict[bytes, str]()
    for host in hosts:
        start = reader.line(r"\s*\[\[\s*roce\s*\.\s*host\s*\]\]", start)
        reader.known(host, HOST_KEYS, start)
        name, addresses = host.get("name"), host.get("addresses")
        if not isinstance(name, str) or not isinstance(addresses, list) or not addresses:
            raise reader.error(start, 'a host needs a name and addresses: name = "node01", addresses = ["192.0.2.1"]')
        vlans = frozenset(reader.numbers(host.get("vlans", []), VLANS, "host.vlans", start))
        for address in addresses:
            try:
                packed = mapped(ip_address(address if isinstance(address, str) else "").packed)
            except ValueError:
                raise reader.error(start, f"{address!r} is not an IP address or a GID") from None
            line = reader.line(f".*{re.escape(address)}\\b", start)
            if owners.setdefault(packed, name) != name:
                raise reader.error(line, f"{address} is an address of {owners[packed]!r}, too")
            yield RoceHostFact(line, packed, name, vlans)


class _TomlReader:
    """Finds lines of keys, and checks values."""

    def __init__(self, path: str, text: list[str]) -> None:
        self.path, self.text = path, text

    def line(self, pattern: str, after: int = 0) -> int:
        """The first line after line `after` that begins with a pattern; `after` if there is none."""
        start = re.compile(pattern)
        return next((number for number, text in enumerate(self.text[after:], after + 1) if start.match(text)), after)

    def of_key(self, key: str, after: int = 0) -> int:
        """The first line after line `after` that sets a key."""
        return self.line(rf"\s*(?:\[roce\.)?{re.escape(key)}\b", after)

    def error(self, line: int, reason: str, hint: str = "") -> SubnetFileError:
        """What is wrong in a line."""
        return SubnetFileError(self.path, line, reason, hint=hint)

    def known(self, table: dict[str, Any], keys: tuple[str, ...], after: int = 0) -> None:
        """Refuse keys that do not exist."""
        for key in table:
            if key not in keys:
                raise self.error(self.of_key(key, after), f"there is no key {key!r}", nearest(key, keys))

    def numbers(self, value: Any, allowed: range, key: str, line: int) -> list[int]:
        found = value if isinstance(value, list) else [value]
        for one in found:
            if type(one) is not int or one not in allowed:
                raise self.error(line, f"roce.{key} holds {one!r}, not a number from {allowed[0]} to {allowed[-1]}")
        return found

"""The site's policy: allowed partitions, managers, M_Keys and LIDs, from `[tool.ibdissect.site]`."""

from __future__ import annotations

from typing import Any

from msgspec import Struct as Record

from ibdissect.errors import ConfigError, nearest
from ibdissect.subnet.separate_subnets import INTERFACE, LID, PREFIX, Address, SubnetMap
from ibdissect.wire.numbers import BASE, LAST_UNICAST

KEY_BITS = 64
KNOWN = ("partitions", "no-partitions", "managers", "m-keys", "lids", "subnet", "subnets")
OF_SUBNET = {"interfaces": INTERFACE, "lids": LID, "prefixes": PREFIX}
"""Keys of `[[site.subnets]]`, and the kind of address that they list."""


class SitePolicy(Record, frozen=True, kw_only=True):
    """What is allowed in this subnet. An empty policy forbids nothing, so its rules report nothing."""

    partitions: frozenset[int] | None = None
    """The only partitions (low 15 bits) allowed in packets between ordinary queue pairs; None: any."""
    no_partitions: frozenset[int] = frozenset()
    """Partitions (low 15 bits) not allowed in them."""
    manager_guids: frozenset[int] = frozenset()
    """Port GUIDs that may write by SubnSet."""
    manager_lids: frozenset[int] = frozenset()
    """LIDs that may write by SubnSet."""
    m_keys: frozenset[int] = frozenset()
    """The only M_Keys that ports may hold and requests may carry; empty: any."""
    lids: tuple[tuple[int, int], ...] = ()
    """The only unicast LIDs of this subnet, as inclusive ranges; empty: any."""

    def __bool__(self) -> bool:
        return self != SitePolicy()

    def __repr__(self) -> str:
        return "<SitePolicy>"  # tracebacks must not show its keys

    @property
    def manages(self) -> bool:
        """Whether the policy restricts who may write."""
        return bool(self.manager_guids or self.manager_lids)

    def partition_allowed(self, p_key: int) -> bool:
        """Whether packets may carry a P_Key, whatever its membership bit; partition 0 is always allowed."""
        base = p_key & BASE
        return not base or (base not in self.no_partitions and (self.partitions is None or base in self.partitions))

    def lid_allowed(self, lid: int) -> bool:
        """Whether a unicast LID belongs to this subnet; 0, multicast and permissive LIDs always do."""
        return not self.lids or not 0 < lid <= LAST_UNICAST or any(low <= lid <= high for low, high in self.lids)

    @classmethod
    def of(cls, table: dict[str, Any], where: str) -> SitePolicy:
        """The policy from a table of the configuration file `where`. ConfigError names the key, never an M_Key."""
        if not isinstance(table, dict):
            raise ConfigError(where, "site", "must be a table")
        for key in table:
            if key not in KNOWN:
                raise ConfigError(where, f"site.{key}", "there is no such key", hint=nearest(str(key), KNOWN))

        def values(key: str, high: int, low: int = 0) -> frozenset[int]:
            return frozenset(_number(where, key, one, low, high) for one in _list(where, key, table.get(key, [])))

        managers = values("managers", (1 << KEY_BITS) - 1, 1)
        return cls(
            partitions=frozenset(one & BASE for one in values("partitions", 0xFFFF)) if "partitions" in table else None,
            no_partitions=frozenset(one & BASE for one in values("no-partitions", 0xFFFF)),
            manager_guids=frozenset(one for one in managers if one > LAST_UNICAST),
            manager_lids=frozenset(one for one in managers if one <= LAST_UNICAST),
            m_keys=values("m-keys", (1 << KEY_BITS) - 1),
            lids=tuple(sorted(_range(where, "lids", one) for one in _list(where, "lids", table.get("lids", [])))),
        )


def subnets_of(table: dict[str, Any], where: str) -> SubnetMap:
    """Which addresses belong to which subnet, from the tables `[[site.subnets]]`. ConfigError names the key."""
    numbers: dict[Address, int] = {}
    subnets = table.get("subnets", [])
    if not isinstance(subnets, list) or not all(isinstance(one, dict) for one in subnets):
        raise ConfigError(where, "site.subnets", "must be tables: [[site.subnets]]")
    for number, subnet in enumerate(subnets, 1):
        if not subnet:
            raise ConfigError(where, "site.subnets", "a table names no addresses", hint=f"known are {', '.join(OF_SUBNET)}")
        for key, value in subnet.items():
            if key not in OF_SUBNET:
                raise ConfigError(where, f"site.subnets.{key}", "there is no such key", hint=nearest(str(key), OF_SUBNET))
            for one in _list(where, f"subnets.{key}", value):
                for address in _addresses(where, key, one):
                    if numbers.setdefault((OF_SUBNET[key], address), number) != number:
                        raise ConfigError(where, f"site.subnets.{key}", f"{one!r} is in two subnets")
    return SubnetMap(numbers, "addresses of the site's policy", expected=bool(numbers))


def _addresses(where: str, key: str, value: Any) -> range | list[int]:
    """The addresses that one entry of a subnet stands for."""
    if key == "lids":
        low, high = _range(where, f"subnets.{key}", value)
        return range(low, high + 1)
    if key == "prefixes" and isinstance(value, str) and "::" in value:
        from ipaddress import IPv6Address  # few sites need it

        try:
            return [int(IPv6Address(value.partition("/")[0])) >> 64]
        except ValueError:
            raise ConfigError(where, f"site.subnets.{key}", f"{value!r} is not a GID prefix (write fec0:0:0:1::)") from None
    return [_number(where, f"subnets.{key}", value, 0, 0xFFFF if key == "interfaces" else (1 << 64) - 1)]


def _list(where: str, key: str, value: Any) -> list[Any]:
    """One value or a list of them."""
    if isinstance(value, (int, str)) and not isinstance(value, bool):
        return [value]
    if not isinstance(value, list):
        raise ConfigError(where, f"site.{key}", "must be a list of numbers")
    return value


def _number(where: str, key: str, value: Any, low: int, high: int) -> int:
    """An integer, or text such as 0x8001 or a GUID with colons. ConfigError never shows the value: it may be a key."""
    number = None
    if isinstance(value, int) and not isinstance(value, bool):
        number = value
    elif isinstance(value, str):
        text = value.strip().lower()
        try:
            number = int(text.replace(":", ""), 16) if ":" in text else int(text, 0)
        except ValueError:
            number = None
    if number is None:
        raise ConfigError(where, f"site.{key}", "holds something that is not a number (write 0x8001 or 32769)")
    if not low <= number <= high:
        raise ConfigError(where, f"site.{key}", f"holds a number outside of {low} to 0x{high:x}")
    return number


def _range(where: str, key: str, value: Any) -> tuple[int, int]:
    """A LID, or a range as text: `16-127`."""
    if isinstance(value, str) and "-" in value.strip():
        first, last = value.split("-", 1)
        low, high = _number(where, key, first, 1, LAST_UNICAST), _number(where, key, last, 1, LAST_UNICAST)
        if low > high:
            raise ConfigError(where, f"site.{key}", f"the range {value!r} ends before it starts")
        return low, high
    lid = _number(where, key, value, 1, LAST_UNICAST)
    return lid, lid

"""Do rules leave it to the rooms below who is who? Keys of their own made of LIDs, paths, ids or numbers may only become fewer."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import ibdissect.rules

RULES = Path(ibdissect.rules.__file__).parent
TABLES = {"dict", "BoundedDict", "KeptDict", "defaultdict", "Counter", "set"}
NUMBERS = {"int", "bytes"}

LEFT: dict[str, int] = {
    "BTH/connection.py": 4,
    "CAP/erf.py": 1,
    "CAP/file.py": 1,
    "CC/requests.py": 5,
    "CM/data.py": 4,
    "CM/exchange.py": 1,
    "DRF/ports.py": 7,
    "LNK/lanes.py": 1,
    "LNK/lids.py": 4,
    "MAD/attributes.py": 2,
    "MAD/selected.py": 1,
    "MCG/groups.py": 2,
    "MKY/leases.py": 2,
    "MKY/ports.py": 3,
    "MKY/violations.py": 7,
    "PKY/agreements.py": 1,
    "PKY/destination.py": 1,
    "PKY/limited_pairs.py": 1,
    "PM/agents.py": 2,
    "PM/packet.py": 1,
    "QKY/group.py": 4,
    "ROC/packet.py": 3,
    "SA/answers.py": 1,
    "SA/refused.py": 8,
    "SEM/impossible.py": 1,
    "SEM/nodes.py": 1,
    "SEM/port_features.py": 2,
    "SEM/ports.py": 2,
    "SEM/subnet_managers.py": 1,
    "SMP/hops.py": 1,
    "SMP/traps.py": 6,
    "TXN/answers.py": 1,
    "TXN/rmpp.py": 3,
    "TXN/timing.py": 2,
    "shared/answered.py": 1,
    "shared/outdated.py": 1,
    "shared/path_lids.py": 3,
    "shared/refused_join.py": 1,
    "shared/senders.py": 1,
    "shared/silence.py": 2,
}
"""Modules with such tables, and how many. Replace their keys by ports, senders, agents, connections or flows, and lower the number."""


def keys(source: str) -> list[str]:
    """Tables whose keys are numbers or bytes, as annotations and calls name them: `dict[tuple[int, int], Hit]`."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in TABLES:
            key = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) else node.slice
            if NUMBERS & {one.id for one in ast.walk(key) if isinstance(one, ast.Name)}:
                found.append((node.lineno, node.col_offset, ast.unparse(node)))
    return [f"line {line}: {text}" for line, _, text in sorted(found)]


def test_rules_make_fewer_keys() -> None:
    found = {path.relative_to(RULES).as_posix(): keys(path.read_text()) for path in sorted(RULES.rglob("*.py"))}
    counted = Counter({name: len(places) for name, places in found.items() if places})
    more = {name: found[name] for name in counted if counted[name] > LEFT.get(name, 0)}
    assert not more, f"use the types of fabric.identity, flow and table: {more}"


def test_a_key_is_noticed() -> None:
    for planted in ("dict[int, Hit]", "KeptDict[tuple[int, End], Hit]", "set[tuple[bytes, int]]", "BoundedDict[tuple[int, ...], Hit]"):
        assert keys(f"x: {planted} = y"), planted
    for planted in ("dict[Port, int]", "KeptDict[tuple[End, End], Hit]", "list[int]", "set[Port]"):
        assert not keys(f"x: {planted} = y"), planted

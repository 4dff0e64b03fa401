"""Which values replace the placeholders in a rule's message?"""

from __future__ import annotations

import string
from typing import Any

from ibdissect.wire.spec import Struct

from .finding import value_of
from .rule import Rule, Seen


def arguments_of(rule: Rule, view: Struct, seen: Seen) -> dict[str, Any]:
    """Values for the placeholders in a stateless rule's message."""
    arguments: dict[str, Any] = {}
    for _, name, _, _ in string.Formatter().parse(rule.message):
        if not name:
            continue
        head = name.split(".")[0].split("[")[0]
        if head in arguments:
            continue
        found = getattr(type(view), head, None)
        if found is not None:
            arguments[head] = value_of(found, getattr(view, head))
            continue
        struct = next((s for s in seen.table.catalog.structs if s.__name__ == head), None)
        if struct is None:
            raise KeyError(f"rule {rule.code}: message names {head!r}, which is not a field of {type(view).__name__} and no structure")
        arguments[head] = seen.first(struct)
    return arguments

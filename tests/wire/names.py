"""Names of declared structures and fields, as tests compare them."""

from __future__ import annotations

import re

from ibdissect.words import Struct


def plain(name: str) -> str:
    """Letters and digits only, lower case."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def struct_id(struct: type[Struct]) -> str:
    """Module and class."""
    return f"{struct.__module__.rpartition('.')[2]}.{struct.__name__}"

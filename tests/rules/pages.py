"""The pages of rules, as `ibdissect rules` prints them."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

from tests import commands


@cache
def pages(*words: str) -> dict[str, dict[str, Any]]:
    """What its JSON says of each rule, by code; `page` by heading."""
    done = commands.run("rules", *words, "--format", "json", text=True)
    assert done.returncode == 0, done
    told = {one["code"]: one for one in json.loads(done.stdout)}
    for one in told.values():
        parts = re.split(r"^### (.*)\n", one["page"], flags=re.MULTILINE)
        one["page"] = {heading: text.strip() for heading, text in zip(parts[1::2], parts[2::2], strict=True)}
    return told

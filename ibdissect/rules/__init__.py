"""The rules, in a folder for each family, named as its code.

To find a rule: `ibdissect rules PKY005` prints its page and names its file. Files are named after what their rules judge
(`header_fields`) or compare it with (`agreements`, `tables`).

A rule is a class whose docstring is its page (docs/first-rule.md). Without state it is a declaration, `when` and `message`.
With state it handles structures, events or chunks, or fills in a base class of `shared`:

- `AttributeRule`: an SMP against earlier answers of the same port; `AM.targets.TargetRule`: the modifier of a request.
- `LinkRule`: a packet against the ports at both ends; `GroupRule`: against its multicast group; `AgreedRule`: against its connection.
- `TrapRule`: a trap. `UnansweredRule`: requests without an answer. `LearntFactRule`: a packet against facts that may have changed unseen.

A hit that later packets may refute is yielded at once: it waits for the end, and `stands` and `severity_at_end` say what becomes of it.

Its proof is in `tests/rules/PKY/cases.py`: a capture that triggers it and a twin that stays silent. Its code is reserved in
`tests/reference/rules.csv`. Nothing is registered: adding a module to a family's folder adds its rules.
"""

from __future__ import annotations

import sys

from ibdissect.lint.rule import REGISTRY, Rule
from ibdissect.wire.catalog import modules_of


def load() -> list[type[Rule]]:
    """Import every rule module of this package and return their rules by code."""
    modules_of(sys.modules[__name__])
    return [rule for code, rule in sorted(REGISTRY.items()) if rule.__module__.startswith(__name__ + ".")]

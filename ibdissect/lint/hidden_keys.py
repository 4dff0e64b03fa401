"""Keys in the hits of a plugin's handler, hidden as in our own rules: `R_Key#2` instead of the value."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from ibdissect.wire.keys_read import KeysRead

from .finding import Related, Secret
from .rule import DeferredHit, Hit


def hide(hit: Hit | DeferredHit, keys: KeysRead) -> Hit | DeferredHit:
    """The same hit; keys among its arguments become `Secret`, which every report masks, and texts lack them."""
    if isinstance(hit, DeferredHit):
        proof = [(frame, keys.without_keys(str(why))) for frame, why in hit.proof]
        return replace(hit, make=lambda make=hit.make: hide(make(), keys), proof=proof)
    hit.arguments = {name: _hidden(value, keys) for name, value in hit.arguments.items()}
    hit.value = _hidden(hit.value, keys)
    hit.message = keys.without_keys(hit.message)
    hit.related = tuple(Related(one.frame, keys.without_keys(one.why), one.file, one.line) for one in hit.related)
    return hit


def _hidden(value: Any, keys: KeysRead) -> Any:
    kind = keys.kind_of(value)
    if kind is not None:
        return Secret(kind[0], int(value), kind[1])
    if isinstance(value, str):
        return keys.without_keys(value)
    if isinstance(value, (bytes, tuple, list, dict, set, frozenset)):
        text = value.hex() if isinstance(value, bytes) else str(value)
        hidden = keys.without_keys(text)
        return hidden if hidden != text else value
    return value

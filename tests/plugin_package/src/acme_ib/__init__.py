"""ACME's part of ibdissect: named by `--plugin acme`."""

from . import rules, stream, switch

COLUMNS = ("acme.stream.tag", "acme.stream.left")

__all__ = ["rules", "stream", "switch"]

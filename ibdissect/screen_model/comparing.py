"""Differences between two captures: subnet, traffic, findings. The same lines as `ibdissect diff` prints."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from ibdissect.capture.named_files import NamedFiles
from ibdissect.pipeline import compare_captures as contents
from ibdissect.pipeline.check import CheckOptions
from ibdissect.subnet import Subnet
from ibdissect.subnet.compare import changes, texts
from ibdissect.subnet.files import learn, read_files


def compared(before: str, after: str, options: CheckOptions, wanted: Callable[[], bool]) -> list[str] | None:
    """A line for each change from one file to another; None if they are no longer wanted. IbdissectError if one cannot be read."""
    subnets, both = [], []
    for path in (before, after):
        subnet = Subnet()
        learn(subnet, read_files([path], named=NamedFiles(lambda note: None)).files)
        subnets.append(subnet)
        if not wanted():
            return None
        both.append(contents.contents_of(path, replace(options, max_findings=None), subnet))
        if not wanted():
            return None
    known = all(any(True for _ in subnet.ports()) for subnet in subnets)
    found = changes(*subnets) if known else {}
    found |= contents.changes(*both)
    return [*texts(found), *contents.texts(found, None)]

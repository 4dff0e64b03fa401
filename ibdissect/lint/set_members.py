"""Members of a set: the files that hold the frames that a finding, or a text, names."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ibdissect.capture.chunk import SetMember, member_of
from ibdissect.shown_urls import public_name
from ibdissect.wire.text import printable

from .finding import Finding, Related

_FRAME = r"\bframe (\d{1,18})\b|(?<=\blast seen )(\d{1,18})\b"


def place(members: Sequence[SetMember], frame: int) -> tuple[str, int]:
    """The file of a set that holds a frame, and the number of the frame in it."""
    member = member_of(members, frame)
    return public_name(member.path), frame - member.first + 1


def name_frames(finding: Finding, members: Sequence[SetMember]) -> None:
    """Name the file and the frame in it, beside each frame of the set that the finding names, and in its message."""
    if finding.frame:
        finding.file, finding.file_frame = place(members, finding.frame)
        member = member_of(members, finding.frame)
        finding.starts = None if finding.starts is None or member.packed else finding.starts - member.base
    finding.message = with_files(finding.message, members)
    finding.related = tuple(one if one.file or not one.frame else _related(one, members) for one in finding.related)


def with_files(text: str, members: Sequence[SetMember]) -> str:
    """A text with `FILE:N` in place of each `frame N`; unchanged without members, that is for a single file."""
    return re.sub(_FRAME, lambda found: place_text(members, int(found[1] or found[2])), text) if members else text


def place_text(members: Sequence[SetMember], frame: int) -> str:
    """`FILE:N`, or the number of the frame for a single file."""
    if not members or not frame:
        return str(frame)
    path, number = place(members, frame)
    return f"{printable(os.path.basename(path))}:{number}"


def members_object(members: Sequence[SetMember]) -> dict[str, Any]:
    """What JSON says of a set; nothing for a single file."""
    return {"members": [{"path": public_name(member.path), "first": member.first} for member in members]} if members else {}


def _related(one: Related, members: Sequence[SetMember]) -> Related:
    path, number = place(members, one.frame)
    return replace(one, file=path, line=number)

"""PSNs used again for other messages: by the same requester, or by another connection that has its queue pair.

Both have other bytes where others were acknowledged. Making a queue pair again takes a time (`ANEW_NS`), and then its responder counts
messages from the start.
"""

from __future__ import annotations

from typing import Any


def differs(half: Any, frame: int, before: int) -> None:
    """A packet has other bytes than the one in frame `before`, whose PSN it has. Any: a direction, compiled or not."""
    half.reused_frame = frame
    if half.anew:
        half.doubtful += 1
        if half.doubtful == 1:
            half.doubtful_first, half.doubtful_before = frame, before
        return
    half.reused += 1
    if not half.reused_first:
        half.reused_first, half.reused_before = frame, before


def believe(half: Any, msn: int) -> None:
    """The responder answers packets that are `doubtful`, with an MSN: is it that of all messages before, as for what is sent again?"""
    if msn == half.last_msn and msn > half.anew_messages:
        half.reused += half.doubtful
        if not half.reused_first:
            half.reused_first, half.reused_before = half.doubtful_first, half.doubtful_before
    half.doubtful = 0

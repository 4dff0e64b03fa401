"""Why a connection was never set up: nobody answered, or somebody refused it."""

from __future__ import annotations

from typing import Any

from ibdissect.engine.connection_setups import SetUp

from .cause_found import CaptureContext, CauseFound
from .connection import ERROR, INFO, WARNING
from .connections_from_lanes import Raw, text_of
from .rejections import leads_back

STALE, TIMEOUT_REASON, NO_SERVICE = 10, 4, 8
"""REJ reasons of a queue pair that is still connected, of a timeout, of an unknown service."""
REDIRECTIONS = (24, 25)
"""REJ reasons that send the asker to another port: no failure."""
MOST_CM_RETRIES = 15
"""Max CM Retries has four bits."""
MANY_TRIES = 5
"""More REQs than that without an answer are a failure, even if the asker may go on."""


def unanswered(setup: SetUp, raw: Raw, capture: CaptureContext) -> bool:
    """Whether nobody answered the REQs, and the asker stopped asking."""
    if setup.rej is not None:
        _, _, reason, side = setup.rej
        # Cut off: without a REP there is no other one, and who asks again and again has none.
        timeout = reason == TIMEOUT_REASON or (reason is None and (raw.hosts[0].heard or setup.tries > 1))
        if side or not timeout:
            return False
    if setup.accepted or raw.main is not None:
        return False
    if setup.rej is not None or not setup.tries:
        return setup.rej is not None
    if setup.tries > MANY_TRIES:
        return True
    wait = 4096 << (setup.agreed["cm_timeout"] or 16)
    if setup.mra is not None:
        return capture.goes_on(*setup.mra[:2]) > (4096 << setup.mra[2]) + wait
    limit = setup.agreed["max_cm_retries"]
    if not raw.hosts[0].heard:  # nothing that goes to the asker is captured; but an answer would have ended its tries
        return limit is not None and setup.tries > limit and capture.goes_on(setup.last_frame, setup.last_time) > wait
    quiet = capture.goes_on(setup.last_frame, setup.last_time)
    return (quiet > wait and (setup.tries > limit if limit is not None else setup.tries > 1)) or quiet > 4 * wait


def not_connected(raw: Raw, capture: CaptureContext) -> CauseFound | None:
    """What kept a connection from being set up."""
    setup = raw.setup
    if setup is None:
        return None
    if unanswered(setup, raw, capture):
        asked = [frame for frame, _ in setup.reqs]
        decisive = setup.rej[0] if setup.rej is not None else setup.mra[0] if setup.mra is not None else asked[-1]
        limit = setup.agreed["max_cm_retries"]
        goes_on = setup.rej is None and setup.mra is None and setup.tries <= (MOST_CM_RETRIES if limit is None else limit)
        severity = INFO if _cancelled(setup) or (goes_on and setup.tries == 1) else WARNING if goes_on else ERROR
        first, facts = asked[0] if asked else decisive, dict[str, Any](asked_for_time=setup.mra is not None)
        facts["quiet_ns"] = capture.goes_on(setup.last_frame, setup.last_time)
        facts |= capture.asked.answers(raw.hosts[1].number, setup)
        return CauseFound("connect-unanswered", severity=severity, first=first, decisive=decisive, blamed=1, facts=facts)
    if setup.rej is None or (setup.rtu is not None and raw.main is not None):
        return None
    frame, _time, reason, side = setup.rej
    first = setup.reqs[0][0] if setup.reqs else frame
    detail: dict[str, object] = {}
    if reason is not None:
        detail["reason"] = reason
    if setup.nvme_status is not None:
        detail["nvme_status"] = setup.nvme_status
    before = _still_connected(raw, capture) if reason == STALE and setup.reqs else None
    if before is not None:
        facts = {"before": before.first_frame}
        return CauseFound("duplicate-qp-after-restart", first=first, decisive=frame, blamed=0, detail=detail, facts=facts)
    severity = INFO if reason in REDIRECTIONS else ERROR
    facts = {"next": capture.asked.after(raw.hosts[0].number, setup, frame), "back": leads_back(setup, text_of(raw.hosts[side]))}
    facts["again"] = capture.asked.again(raw.hosts[0].number, raw.hosts[1].number, setup)
    facts["later"] = capture.asked.later(raw.hosts[0].number, raw.hosts[1].number, setup)
    facts["accepted"] = capture.asked.accepted(raw.hosts[1].number, setup) if side and reason == NO_SERVICE else None
    return CauseFound("refused", severity=severity, first=first, decisive=frame, blamed=side, detail=detail, facts=facts)


def _cancelled(setup: SetUp) -> bool:
    """Whether the asker took its only REQ back (REJ, reason 4) before an answer was due: somebody ended it."""
    if setup.rej is None or setup.tries > 1:
        return False
    asked, allowed = (setup.mra[1], 4096 << setup.mra[2]) if setup.mra is not None else (setup.first_time, 0)
    return bool(setup.rej[1] - asked < allowed + (4096 << (setup.agreed["cm_timeout"] or 16)))


def _still_connected(raw: Raw, capture: CaptureContext) -> Raw | None:
    """The earlier connection of the asker's queue pair with the same host, which was not ended before."""
    qpn = raw.qpn(0)
    for other in reversed(capture.earlier.get((raw.hosts[0].number, qpn if qpn is not None else -1), ())):
        if other is raw or other.first_frame > raw.first_frame or {*other.hosts} != {*raw.hosts}:
            continue
        setup = other.setup
        if other.main is not None and (setup is None or not setup.dreqs or setup.dreqs[0][0] > raw.first_frame):
            return other
    return None

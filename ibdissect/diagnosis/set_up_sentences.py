"""What is said of a connection that was refused, or that nobody answered."""

from __future__ import annotations

from ibdissect.wire.ulp.nvme_rdma import STATUS as NVME_STATUS

from .phrases import duration, often, reason_said
from .rejections import rejection
from .set_up_causes import REDIRECTIONS, TIMEOUT_REASON
from .story import Story


def refused(s: Story) -> str:
    """That a host refused a connection, why, and what the asker did then."""
    reason, who = s.found.detail.get("reason"), s.ends[s.found.blamed or 0].address
    if reason == TIMEOUT_REASON and s.found.blamed == 1:
        return (
            f"{who} accepted the connection{s.service} that {s.asker} asked for, waited in vain for its RTU and gave up: reason 4, timeout"
        )
    told = reason_said(reason if isinstance(reason, int) else None)
    if s.raw.setup is not None and not s.raw.setup.reqs:
        told += "; the REQ, which names the service, is not captured"
    status = s.found.detail.get("nvme_status")
    if isinstance(status, int) and status in NVME_STATUS:
        told += f"; NVMe status {status}, {NVME_STATUS[status]}"
    told += "".join(f"; {part}" for part in rejection(s.raw.setup))
    if s.found.blamed == 0 and reason not in REDIRECTIONS:
        return f"{who} asked {s.other} for a connection{s.service}, and ended it itself before it was set up (REJ): {told}{_again(s)}"
    if reason not in REDIRECTIONS:
        told += ", its own, the one that was asked: that contradicts the refusal" if s.facts.get("back") else ""
        return f"{who} refused the connection{s.service} that {s.asker} asked for: {told}{_before(s)}{_again(s)}"
    after = s.facts.get("next")
    if s.facts.get("back"):
        told += ", which is its own, the one that was asked"
        told += "" if after and after[1] != who else ": who follows comes back here"
    if after:
        whom = f"{who} again" if after[1] == who else f"{after[1]} instead" if s.facts.get("back") else after[1]
        told += f"; {s.asker} then asked {whom} (frame {after[0]}){', and was accepted' * after[2]}"
    elif s.service:
        told += f"; {s.asker} did not ask for that service again"
    return f"{who} told {s.asker}, which asked for a connection{s.service}, to ask another port: {told}"


def _again(s: Story) -> str:
    """That the asker repeated what was refused, and was accepted; empty if it was not."""
    again = s.facts.get("again")
    if again:
        return f"; refused once: {s.asker} asked again {duration(again[0])} later (frame {again[1]}) and was accepted"
    later = s.facts.get("later")
    if not later:
        return ""
    return f"; {s.asker} asked for that service again {duration(later[0])} later (frame {later[1]}), and was accepted"


def _before(s: Story) -> str:
    """That a host which refused a service as unknown accepted others that asked for it; empty if the capture shows none."""
    frames = s.facts.get("accepted")
    if not frames:
        return ""
    when = [f"{word} (frame {frame})" for word, frame in zip(("before", "later"), frames, strict=True) if frame is not None]
    return f"; it accepted connections to that service {' and '.join(when)}"


def duplicate(s: Story) -> str:
    """That a host still holds the queue pair that another one connects anew."""
    qpn = f"QP 0x{s.ends[0].qpn:06x}" if s.ends[0].qpn is not None else "a queue pair"
    return (
        f"{s.asker} asked for a connection of {qpn}, which {s.other} still holds as connected (since frame {s.facts['before']}): no DREQ "
        f"ended that, as when {s.asker} starts again; {s.other} refused it with reason 10, stale connection"
    )


def unanswered(s: Story) -> str:
    """That a host neither accepted nor refused."""
    setup = s.raw.setup
    assert setup is not None
    if setup.mra is not None:
        return (
            f"{s.other} received the REQ of {s.asker}{s.service} and asked for {duration(4096 << setup.mra[2])} "
            f"(MRA, frame {setup.mra[0]}), but neither accepted nor refused in the {duration(s.facts['quiet_ns'])} that follow"
        )
    if not setup.reqs:
        return f"{s.asker} gave up connecting to {s.other}, nobody answered its REQs (REJ, reason 4, timeout); they are not in the capture"
    lasted = setup.reqs[-1][1] - setup.reqs[0][1]
    within = f" in {duration(lasted)}" if lasted else ""
    limit = setup.agreed["max_cm_retries"]
    why = "reason 4, timeout" if setup.rej is None or setup.rej[2] is not None else reason_said(None)
    ended = f"; {s.asker} then gave up (REJ, {why}, frame {setup.rej[0]})" if setup.rej is not None else ""
    if not ended and limit is not None and limit < setup.tries:
        ended = f"; its Max CM Retries of {limit} allow no more"
    told = f"{s.asker} sent its REQ {often(setup.tries)}{within}{s.service}"
    answers, host, up = s.facts.get("answers"), s.raw.hosts[1], ""
    if answers is not None:
        which = "for the same service" if s.facts["same_service"] else "for other services" if s.service else "of others"
        up = f"; {s.other} is up, and answers REQs {which} (frame {answers})"
    if not s.raw.hosts[0].heard:
        return f"{told}, as if no answer came{ended}; the capture holds nothing that is sent to {s.asker}, so answers cannot be seen{up}"
    told = f"{told} and got no answer from {s.other}{ended}"
    if up:
        return told + up
    if host.last_time > setup.reqs[0][1]:
        return f"{told}; {s.other} is up, as it sends other packets (frame {host.last_frame}), but answers no REQ in this capture"
    return f"{told}; {s.other} sends nothing else either since then"

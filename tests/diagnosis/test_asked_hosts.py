"""Facts about hosts that were asked for connections: answers to others, redirections, later tries."""

from __future__ import annotations

import pytest

from ibdissect.wire import cm
from tests.cases import every
from tests.craft import build
from tests.diagnosis.lab import MS, SEC, US, C, Lab, joined

OWN, OTHER = (bytes(10) + b"\xff\xff\x0a\0\0" + bytes([last]) for last in (2, 3))


def unanswered() -> Lab:
    lab = Lab(qa=0x900)
    lab.req(SEC, 4, local_communication_id=0xA9)
    data = Lab(qa=0x901, qb=0x902)
    data.good(9 * SEC, 9000, 2)
    return joined(lab, data)


@pytest.mark.parametrize(("service", "said", "advice"), [
    (0x1061144, "answers REQs for the same service (frame 8)", "room for more connections"),
    (0x1061145, "answers REQs for other services (frame 8)", "whether the service listens on 10.0.0.2: that host answers"),
])  # fmt: skip
def test_a_host_that_answers_others(service: int, said: str, advice: str) -> None:
    """The first answer after the REQs that have none is named, even if there are earlier ones."""
    labs = [Lab(qa=0x700 + n) for n in range(2)]
    for n, lab in enumerate(labs):
        lab.req(2 * SEC * n, local_communication_id=0xB5 + n, service_id=service)
        lab.short(2 * SEC * n + MS, cm.REJ_ID, cm.REJ, back=True, local_communication_id=0, remote_communication_id=0xB5 + n, reason=28)
    (found,) = [one for one in joined(*labs, unanswered()).diagnosis().connections if one.cause == "connect-unanswered"]
    assert said in found.why and "10.0.0.2 is up" in found.why and advice in found.advice


def tagged(lab: Lab, vlan: int) -> Lab:
    """The same frames in a VLAN."""
    lab.frames = [(time, frame[:12] + b"\x81\0\0" + bytes([vlan]) + frame[12:]) for time, frame in lab.frames]
    return lab


@pytest.mark.parametrize(("vlan", "said"), [(5, "answers REQs for the same service"), (6, "answers no REQ in this capture")])
def test_the_same_address_in_another_vlan_is_another_host(vlan: int, said: str) -> None:
    other = Lab(qa=0x700)
    other.req(0, local_communication_id=0xB5)
    other.short(MS, cm.REJ_ID, cm.REJ, back=True, local_communication_id=0, remote_communication_id=0xB5, reason=28)
    both = joined(tagged(other, vlan), tagged(unanswered(), 5)).diagnosis()
    (found,) = [one for one in both.connections if one.cause == "connect-unanswered"]
    assert said in found.why


def test_a_host_that_answers_nobody() -> None:
    (found,) = [one for one in unanswered().diagnosis().connections if one.cause == "connect-unanswered"]
    assert "but answers no REQ in this capture" in found.why and "UDP port 4791 or QP1 is filtered" in found.advice


def redirected(gid: bytes) -> Lab:
    lab = Lab()
    lab.req(0)
    lab.short(200 * US, cm.REJ_ID, cm.REJ, back=True, reason=25, reject_info_length=len(gid), ari=gid)
    return lab


def test_a_redirection_to_the_one_that_was_asked() -> None:
    found = redirected(OWN).only()
    assert "which is its own, the one that was asked: who follows comes back here" in found.why
    assert found.advice.startswith("On 10.0.0.2: correct the port")
    assert "its own" not in redirected(OTHER).only().why


def test_a_host_that_rejects_its_own_gid_redirects_nobody() -> None:
    lab = Lab()
    lab.req(0)
    lab.short(200 * US, cm.REJ_ID, cm.REJ, back=True, reason=12, reject_info_length=len(OWN), ari=OWN)
    found = lab.only()
    assert found.why.endswith("it names the port with GID ::ffff:10.0.0.2, its own, the one that was asked: that contradicts the refusal")
    assert found.advice == "10.0.0.2 rejects its own GID: look at its GID table, and at what its service is bound to."


@every(("later", "before", "service", "accepted", "said"), [
    (MS, 0x1061144, 0x1061144, True, "asked again"),
    (SEC, 0x1061144, 0x1061144, True, "asked for that service again 1,000 ms later (frame 3), and was accepted"),
    (SEC, 0x1061144, 0x1061144, False, ""),
    (SEC, 0x1061144, 0x1061145, True, ""),
    (SEC, 1 << 60 | 0x48, 1 << 60 | 0x4A, True, "asked for that service again 1,000 ms later"),
    (MS, 1 << 60 | 0x48, 1 << 60 | 0x4A, True, "asked again"),
])  # fmt: skip
def test_who_is_accepted_after_a_refusal(later: int, before: int, service: int, accepted: bool, said: str) -> None:
    """The last ones: connected mode of IPoIB, whose service ends with the number of a queue pair."""
    first, then = Lab(qa=0x700), Lab(qa=0x701)
    first.req(0, local_communication_id=0xA7, service_id=before)
    first.short(200 * US, cm.REJ_ID, cm.REJ, back=True, local_communication_id=0, remote_communication_id=0xA7, reason=28)
    then.req(later, service_id=service)
    if accepted:
        then.rep(later + MS)
    (found,) = [one for one in joined(first, then).diagnosis().connections if one.cause == "refused"]
    assert said in found.why and ("again" in found.why) is bool(said)


def test_who_follows_a_redirection() -> None:
    there = Lab(b=C)
    there.req(10 * MS, local_communication_id=0xA7)
    (found,) = [one for one in joined(redirected(OTHER), there).diagnosis().connections if one.redirected]
    assert found.why.endswith("10.0.0.1 then asked 10.0.0.3 (frame 3)")
    there = Lab(b=C)
    there.req(10 * MS, local_communication_id=0xA7, service_id=0x1061145)
    (found,) = [one for one in joined(redirected(OTHER), there).diagnosis().connections if one.redirected]
    assert found.why.endswith("10.0.0.1 did not ask for that service again")


@every(("times", "said"), [
    ((-1, 1), "it accepted connections to that service before (frame 2) and later (frame 6)"), ((-1,), "before (frame 2)"),
    ((1,), "later (frame 4)"), ((), ""),
])  # fmt: skip
def test_a_service_that_is_unknown_only_at_one_time(times: tuple[int, ...], said: str) -> None:
    lab = Lab(qa=0x700)
    lab.req(2 * SEC, local_communication_id=0xA7)
    lab.short(2 * SEC + US, cm.REJ_ID, cm.REJ, back=True, local_communication_id=0, remote_communication_id=0xA7, reason=8)
    others = [Lab(a=C, qa=0x701 + n, qb=0x801 + n) for n in range(len(times))]
    for n, (other, at) in enumerate(zip(others, times, strict=True)):
        other.req((2 + at) * SEC, local_communication_id=0xC0 + n)
        ids = {"local_communication_id": 0xD0 + n, "remote_communication_id": 0xC0 + n}
        other.manage((2 + at) * SEC + MS, cm.REP_ID, build(cm.REP, local_qpn=other.qb, starting_psn=7, **ids), back=True)
    (found,) = [one for one in joined(lab, *others).diagnosis().connections if one.cause == "refused"]
    assert said in found.why and ("it accepted" in found.why) is bool(said)
    assert found.advice.startswith("On 10.0.0.2: see why its service did not listen" if said else "On 10.0.0.2: start the service")


@pytest.mark.parametrize(("asked", "named", "own"), [(15, 15, True), (15, 16, False), (0, 16, False)])
def test_a_lid_that_is_rejected_and_named(asked: int, named: int, own: bool) -> None:
    lab = Lab()
    lab.req(0, primary_remote_port_lid=asked)
    lab.short(200 * US, cm.REJ_ID, cm.REJ, back=True, reason=13, reject_info_length=2, ari=named.to_bytes(2, "big"))
    found = lab.only()
    assert f"it names the port with LID {named}" in found.why
    assert found.why.endswith("its own, the one that was asked: that contradicts the refusal") is own
    assert found.advice.startswith("10.0.0.2 rejects the LID that it names itself" if own else "Compare the remote LID") is True


@pytest.mark.parametrize(("there", "said"), [
    (C, "asked; 10.0.0.1 then asked 10.0.0.3 instead (frame 3), and was accepted"),
    (bytes([10, 0, 0, 2]), "asked: who follows comes back here; 10.0.0.1 then asked 10.0.0.2 again (frame 3), and was accepted"),
])  # fmt: skip
def test_where_a_redirection_to_itself_led(there: bytes, said: str) -> None:
    then = Lab(b=there, qa=0x701)
    then.req(MS, local_communication_id=0xA7)
    ids = {"local_communication_id": 0xD0, "remote_communication_id": 0xA7}
    then.manage(2 * MS, cm.REP_ID, build(cm.REP, local_qpn=7, starting_psn=7, **ids), back=True)
    (found,) = [one for one in joined(redirected(OWN), then).diagnosis().connections if one.redirected]
    assert found.why.endswith(said)

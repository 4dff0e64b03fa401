"""Requests without an answer that are warnings; findings name the attribute, also one that only a plugin knows."""

from __future__ import annotations

import io
from operator import itemgetter

import pytest

import ibdissect
from ibdissect.wire.pm import PortCounters
from tests.cases import every
from tests.conftest import REPO
from tests.craft import build, erf_pcap, ethernet_pcap, gmp, interfaces_pcapng, smp
from tests.rules.made.subnets import NODE_INFO, PORT_INFO, back, sweep
from tests.rules.test_rules import lint
from tests.standard import LINK_INFINIBAND
from tests.subnet.made import SET, port_info, switch


@every(
    ("mgmt_class", "attribute", "what"),
    [
        (0x03, 0x38, "SubnAdmGet(MCMemberRecord)"),
        (0x04, 0x12, "PerfGet(PortCounters)"),
        (0x0B, 0x20, "VendGet(ANInfo)"),
        (0x0D, 0x0101, "VendGet(Temperature)"),
        (0x04, 0xFF77, "PerfGet(attribute 0xff77)"),
    ],
)
def test_findings_name_the_attribute(mgmt_class: int, attribute: int, what: str) -> None:
    ask, answer = (
        gmp(mgmt_class, method, attribute, slid=slid, dlid=dlid, header={"transaction_id": 5})
        for method, slid, dlid in ((1, 1, 2), (0x81, 2, 1))
    )
    unanswered = gmp(mgmt_class, 1, attribute, slid=1, dlid=2, header={"transaction_id": 6})
    capture = erf_pcap([ask, answer, answer, unanswered, *[ask, answer] * 3], step_ns=1_000_000_000)
    with ibdissect.open(io.BytesIO(capture), plugins=[str(REPO / "docs/examples/first_dissector.py")]) as opened:
        found = {one.code: one.message for one in opened.lint(select=["TXN001", "TXN003"])}
    response = what.replace("Get(", "GetResp(")
    assert found == {
        "TXN001": f"{what} from LID 1 to LID 2 was not answered (1 request)",
        "TXN003": f"{response} from LID 2 to LID 1: {what} is answered again",
    }


def ask(second: float, lid: int, transaction: int, method: int = 0x01) -> tuple[int, bytes]:
    """LID 1 asks another one, or gets an answer."""
    way = {"slid": lid, "dlid": 1} if method & 0x80 else {"slid": 1, "dlid": lid}
    frame = gmp(4, method, 0x12, build(PortCounters, port_select=1), header={"transaction_id": transaction}, **way)
    return 1_700_000_000_000_000_000 + round(second * 1e9), frame


def judged(*frames: tuple[int, bytes]) -> list[str]:
    """The severity of each request without an answer, in a capture that shows answers of LID 6."""
    every = sorted([*frames, *(ask(i + 0.1, 6, 900 + i, method) for i in range(20) for method in (0x01, 0x81))], key=itemgetter(0))
    capture = interfaces_pcapng([(0, frame) for _, frame in every], times=[time for time, _ in every], link=LINK_INFINIBAND)
    return [str(one.severity) for one in lint(capture) if one.code == "TXN001"]


@pytest.mark.slow
def test_answers_of_one_lid_take_another_link() -> None:
    """Its requester asks once each time and goes on: it got the answers, of which the capture shows none."""
    polls = [ask(i, 5, 100 + i) for i in range(5)]
    assert judged(*polls) == ["info"] * 5
    assert judged(*polls, ask(5.5, 5, 104)) == ["warning"] * 5, "it repeats a request, as the answer did not come"
    assert judged(*polls, ask(6, 5, 106), ask(6.1, 5, 106, 0x81)) == ["warning"] * 5, "its answers take this link"
    assert judged(polls[0]) == ["info"]
    assert judged(polls[0], ask(0.5, 5, 100)) == ["warning"], "no answer came"


@pytest.mark.slow
def test_a_requester_that_goes_on_has_its_answer() -> None:
    """It asks that agent once without an answer in the capture, goes on, and does not repeat the request."""
    later = ask(8, 5, 102), ask(8.1, 5, 102, 0x81)
    assert judged(ask(5, 5, 101), *later) == ["info"]
    assert judged(ask(5, 5, 101), ask(5.2, 5, 101), *later) == ["warning"], "it repeats the request"
    assert judged(ask(4, 5, 100), ask(5, 5, 101), *later) == ["warning"] * 2, "two of them"
    assert judged(ask(7.5, 5, 101), *later) == ["warning"], "the agent says nothing more after a second"


def test_an_answer_that_was_due_after_the_recording() -> None:
    """An agent took three seconds for another answer; for a minute nothing was recorded, from two seconds after the request on."""
    others = [ask(17.5 + i / 2, 8, 200 + i, how) for i in range(4) for how in (0x01, 0x81)]
    first = [ask(10, 6, 100), ask(13, 6, 100, 0x81), ask(17, 6, 101), *others]
    second = [ask(80 + i, 8, 300 + i, how) for i in range(9) for how in (0x01, 0x81)]

    def severity(*more: tuple[int, bytes]) -> list[str]:
        every = sorted([*first, *more, *second], key=itemgetter(0))
        capture = interfaces_pcapng([(0, frame) for _, frame in every], times=[time for time, _ in every], link=LINK_INFINIBAND)
        return [str(one.severity) for one in lint(capture) if one.code == "TXN001"]

    assert severity() == ["info"]
    went_on = [ask(19.5 + i / 2, 8, 400 + i, how) for i in range(120) for how in (0x01, 0x81)]
    assert severity(*went_on) == ["warning"]


@pytest.mark.slow
def test_an_agent_that_took_longer_for_others_may_answer_after_the_capture() -> None:
    """An agent under load took three seconds for an answer; the capture ends two seconds after another request."""
    took = ask(10, 5, 100), ask(13, 5, 100, 0x81)
    assert judged(*took, ask(17, 5, 101)) == ["info"]
    assert judged(*took, ask(12, 5, 101)) == ["warning"], "the capture goes on for more than twice as long"
    assert judged(ask(10, 5, 100), ask(10.9, 5, 100, 0x81), ask(17, 5, 101)) == ["warning"], "it answers within a second"
    assert judged(*took, ask(10, 7, 100), ask(10.1, 7, 100, 0x81), ask(17, 7, 101)) == ["warning"], "another agent"


@pytest.mark.parametrize(
    ("path", "port", "states", "how"),
    [
        ([1], 1, (1, 0), "info"), ([1], 1, (0, 3), "info"), ([1, 2], 1, (1, 2), "info"), (None, 2, (1, 3), "info"),
        ([1], 2, (1, 0), "warning"), ([1], 1, (3, 0), "warning"), (None, 1, (1, 3), "warning"), (None, 3, (1, 3), "info"),
        (None, 4, (1, 3), "info"),
    ],
)  # fmt: skip
def test_a_set_takes_down_the_link_by_which_it_came(path: list[int] | None, port: int, states: tuple[int, int], how: str) -> None:
    """The answer is lost with it. Port 1 of the switch leads to the manager, port 2 to LID 5, which asks by LID. Port 3 leads to another
    switch, by which its requests may come as well; nobody knows where port 4 leads.
    """
    body = port_info(0, port_state=states[0], port_physical_state=states[1])
    ends = {"slid": 5, "dlid": 2} if path is None else {}
    written = smp(SET, PORT_INFO, body, modifier=port, path=path, header={"transaction_id": 9}, **ends)
    heard = [gmp(4, 1, 0x12, slid=5, dlid=1), gmp(4, 0x81, 0x12, slid=1, dlid=5)]
    before = [gmp(4, 1, 0x12, slid=5, dlid=2), gmp(4, 0x81, 0x12, slid=2, dlid=5)]
    more = back(NODE_INFO, switch(9, local_port_num=1), [1, 3])
    capture = ethernet_pcap([*sweep(), more, *before, *heard, written, *heard * 8], step_ns=200_000_000, link=LINK_INFINIBAND)
    assert [str(one.severity) for one in lint(capture) if one.code == "TXN001"] == [how]


@pytest.mark.parametrize(("mgmt_class", "how"), [(0x0A, "info"), (0x21, "info"), (0x04, "warning")])
def test_a_node_may_lack_the_agent_of_a_class_in_which_it_never_answers(mgmt_class: int, how: str) -> None:
    """Tools ask every node for what vendors, or newer firmware, add. Of a node that answered once in that class, they know that it can."""

    def asked(lid: int, transaction: int, *, classes: int = mgmt_class, answered: bool = True) -> list[bytes]:
        header = {"transaction_id": transaction}
        frames = [gmp(classes, 0x01, 0x01, header=header, slid=1, dlid=lid)]
        return [*frames, gmp(classes, 0x81, 0x01, header=header, slid=lid, dlid=1)] if answered else frames * 3

    def severities(*more: bytes) -> list[str]:
        polls = [frame for i in range(20) for frame in asked(6, 900 + i)]
        capture = ethernet_pcap([*more, *polls], step_ns=200_000_000, link=LINK_INFINIBAND)
        return [str(one.severity) for one in lint(capture) if one.code == "TXN001"]

    tries = asked(5, 100, answered=False)
    assert severities(*tries) == [how]
    assert severities(*tries, *asked(5, 101, classes=0x30)) == [how], "it answers in another class"
    assert severities(*tries, *asked(5, 101)) == ["warning"]

"""Do messages say which value was seen and which one is right, with names instead of numbers and keys that name themselves?"""

from __future__ import annotations

import pytest

from ibdissect.lint.policy import SitePolicy
from ibdissect.wire.cc import CACongestionSetting
from ibdissect.wire.component_mask import mask_for
from ibdissect.wire.pm import PortCounters
from ibdissect.wire.sa_service import ServiceRecord
from tests.craft import build, erf_pcap, gmp
from tests.fabric.made import GET, SET, answer, ask, node, p_keys, port_info
from tests.rules.CC.cases import congestion
from tests.rules.made.conversations import sa
from tests.rules.test_rules import CASES, lint

WORDS = {
    "AM031": "PerfGet(PortCounters) takes no attribute modifier, this one is 0x00000001",
    "BTH006": "RC RDMA WRITE Only (10) announces 100 bytes (DMALen) and carries 8",
    "BTH007": "RC SEND Middle (1) carries 100 bytes: more of its message follows, so it must be full (256, 512, 1024, 2048 or 4096)",
    "LNK003": "PktLen of 23 words (92 bytes, 94 with VCRC) in a frame of 90 bytes",
    "LNK004": "PktLen of 3 words, a packet with LNH 2 has at least 6",
    "LNK024": "0x0002c90300001060 port 1 (LID 5) and 0x0002c90300001050 port 1 (LID 5) are active and share LID 5",
    "MAD002": "class version 9 of Subnet Administration (0x03), it has version 2",
    "MAD005": "PerfGet(PortCounters) is answered with PortCountersExtended (attribute 0x001d)",
    "MAD012": "SubnGet(NodeInfo) has transaction id 0",
    "PKY009": "P_Key 0x8001 is twice in block 0 of the P_Key table, as entries 1 and 2",
    "PKY020": "P_Key 0xffff to the group ff12:401b:8001::ffff:ffff, which is of partition 0x0001",
    "PM004": "PerfSet(PortCounters): the counters start anew",
    "QKY001": "a packet to queue pair 1 has Q_Key 0x00000001, it accepts 0x80010000 only",
    "RC016": "RC FetchAdd (20) carries 4 bytes behind its headers, where an atomic operation has nothing",
    "ROC010": "time to live 1 in a packet to another network: the first router drops it",
    "SA003": "SubnAdmGetResp(NodeRecord) with status too many records (4)",
    "SEM045": "SubnSet(SMInfo) ACKNOWLEDGE from subnet manager 0x0002c90300001001 in state Master (3); only a Standby may send it",
    "TRP003": "trap 144 in a notice of type Urgent (1), it belongs to type Informational (4)",
    "TXN014": "the transfer is aborted: Too many retries (126)",
}


@pytest.mark.parametrize("code", WORDS)
def test_words(code: str) -> None:
    case = CASES[code][0]
    found = next(one for one in lint(case.bad, case.policy, case.known, case.damage) if one.code == code)
    found.finish(None)
    assert found.message == WORDS[code]


def test_service_levels_are_told_as_ranges() -> None:
    setting = congestion(SET, 0x16, build(CACongestionSetting, control_map=0x8007))
    (found,) = (one for one in lint(erf_pcap([setting])) if one.code == "CC004")
    found.finish(None)
    assert found.message.startswith("CCTI_Increase is 0 for service level 0-2,15:")


KEY, MANAGERS = SitePolicy(m_keys=frozenset({7})), SitePolicy(manager_guids=frozenset({1}))
SERVICE = build(ServiceRecord, service_id=7, service_p_key=0x8001, service_lease=60)
OF_A_MOVING_PORT = {
    "MKY001": (ask(5, 0x16, method=SET), KEY),
    "PM001": (gmp(4, GET, 0x12, build(PortCounters, port_select=3), slid=1, dlid=5), None),
    "SA023": (sa(SET, 0x31, SERVICE, mask=mask_for(ServiceRecord, ("service_p_key",)), slid=5), None),
    "SMP025": (ask(6, 0x16, method=SET, slid=5), MANAGERS),
}


@pytest.mark.parametrize("code", OF_A_MOVING_PORT)
def test_a_port_is_named_with_the_lid_that_it_had(code: str) -> None:
    """The rule sees the packet when the port has another LID already."""
    packet, policy = OF_A_MOVING_PORT[code]
    known = [answer(5, 0x11, node(5)), answer(5, 0x15, port_info(5, m_key_protect_bits=1)), answer(5, 0x16, p_keys(0xFFFF))]
    found = next(one for one in lint(erf_pcap([*known, packet, answer(5, 0x15, port_info(9))]), policy) if one.code == code)
    found.finish(None)
    assert "0x0002c90300001050 port 1 (LID 5)" in found.message

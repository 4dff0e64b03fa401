"""Messages say which value was seen and which one is right, with names instead of numbers and keys that name themselves."""

from __future__ import annotations

from ibdissect.lint.site_policy import SitePolicy
from ibdissect.wire.cc import CACongestionSetting
from ibdissect.wire.pm import PortCounters
from ibdissect.wire.sa import mask_for
from ibdissect.wire.sa_service import ServiceRecord
from tests.cases import every
from tests.craft import build, erf_pcap, gmp
from tests.rules.CC.cases import congestion
from tests.rules.made.conversations import sa
from tests.rules.test_rules import lint
from tests.subnet.made import GET, SET, answer, ask, node, p_keys, port_info


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


@every("code", OF_A_MOVING_PORT)
def test_a_port_is_named_with_the_lid_that_it_had(code: str) -> None:
    """The rule sees the packet when the port has another LID already."""
    packet, policy = OF_A_MOVING_PORT[code]
    known = [answer(5, 0x11, node(5)), answer(5, 0x15, port_info(5, m_key_protect_bits=1)), answer(5, 0x16, p_keys(0xFFFF))]
    found = next(one for one in lint(erf_pcap([*known, packet, answer(5, 0x15, port_info(9))]), policy) if one.code == code)
    found.finish(None)
    assert "0x0002c90300001050 port 1 (LID 5)" in found.message

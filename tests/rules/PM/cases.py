"""Proofs of the rules about performance management: captures that trigger them, and near-miss twins that must not."""

from __future__ import annotations

from functools import partial
from typing import Any

from ibdissect.wire.pm import PortCounters, PortCountersExtended
from ibdissect.wire.pm_details import PortRcvErrorDetails
from tests.craft import build, erf_pcap, gmp, smp
from tests.rules.cases import case
from tests.rules.made.conversations import agent, counters, gid_of, perf
from tests.rules.made.mads import counters as mad_counters
from tests.rules.made.subnets import NODE_INFO, PORT_INFO, packet, sweep
from tests.subnet.made import node, port_info, switch

GET, SET, GET_RESP, PM = 0x01, 0x02, 0x81, 0x04
# PM
case("PM002", [*agent(), counters(GET, port_select=255)], [*agent(1 << 8), counters(GET, port_select=255)], frames=[3])
DETAILS = perf(GET, 0x15, build(PortRcvErrorDetails, port_select=255))
case("PM002", [*agent(), DETAILS], [*agent(1 << 8), DETAILS], frames=[3])
CLEAR = {"counter_select": 0xFFFF, "counter_select2": 1}
case(
    "PM007", [*agent(), counters(SET, **CLEAR)], [*agent(1 << 12), counters(SET, **CLEAR)], frames=[3], also=["PM004"], twin_also=["PM004"]
)
case("PM005", counters(GET_RESP, symbol_error_counter=0xFFFF), counters(GET_RESP, symbol_error_counter=0xFFFE))
# normal multicast fills this one
case("PM005", counters(GET_RESP, port_rcv_switch_relay_errors=0xFFFF), counters(GET_RESP, port_rcv_switch_relay_errors=0xFFFE),
     severity="info")  # fmt: skip
case("PM005", counters(GET_RESP, link_downed_counter=0xFF), counters(GET_RESP, port_rcv_errors=0xFF))
FELL = [counters(GET_RESP, symbol_error_counter=5), counters(GET_RESP, symbol_error_counter=3)]
case("PM010", FELL, [FELL[0], counters(SET, 8), counters(GET_RESP, 8), FELL[1]], frames=[2], twin_also=["PM004"])
case("PM010", FELL, list(reversed(FELL)), frames=[2])
MORE_DATA, LESS_DATA = (perf(GET_RESP, 0x1D, build(PortCountersExtended, port_select=1, port_xmit_data=data)) for data in (1 << 63, 9))
case("PM010", [MORE_DATA, LESS_DATA], [LESS_DATA, MORE_DATA], frames=[2])
case("PM010", [MORE_DATA, LESS_DATA], [MORE_DATA, counters(SET, 8), counters(GET_RESP, 8), LESS_DATA], frames=[2], twin_also=["PM004"])
# two ports behind a router
GLOBAL = [
    gmp(PM, GET_RESP, 0x12, build(PortCounters, port_select=1, symbol_error_counter=errors), header={"transaction_id": lid}, slid=5, dlid=1,
        grh={"sgid": gid_of(lid), "dgid": gid_of(1)}) for errors, lid in ((5, 7), (3, 8))
]  # fmt: skip
case("PM010", FELL, GLOBAL, frames=[2])


def classes_counters(status: int = 0, **values: Any) -> bytes:
    """PerformanceGetResp(PortCounters)."""
    return gmp(PM, GET_RESP, 0x12, build(PortCounters, port_select=1, **values), header={"status": status})


def extended(**values: Any) -> bytes:
    """PerformanceGetResp(PortCountersExtended)."""
    return gmp(PM, GET_RESP, 0x1D, build(PortCountersExtended, port_select=1, **values))


case("PM006", classes_counters(port_xmit_data=0xFFFFFFFF), classes_counters(port_xmit_data=0xFFFFFFFE), severity="info")
case("PM006", classes_counters(port_rcv_pkts=0xFFFFFFFF), classes_counters(0x0008, port_rcv_pkts=0xFFFFFFFF))
case("PM011", extended(symbol_error_counter=3), extended(port_xmit_wait=3, port_xmit_data=9))


def subnet_counters(port: int, lid: int) -> bytes:
    return gmp(4, GET, 0x12, build(PortCounters, port_select=port), slid=1, dlid=lid)


packet("PM001", subnet_counters(0, 5), subnet_counters(1, 5))
packet("PM001", subnet_counters(0, 5), subnet_counters(0, 2))
packet("PM001", gmp(4, GET, 0x15, build(PortRcvErrorDetails, port_select=3), slid=1, dlid=2),
       gmp(4, GET, 0x15, build(PortRcvErrorDetails, port_select=2), slid=1, dlid=2))  # fmt: skip
packet("PM001", subnet_counters(3, 2), subnet_counters(2, 2))
packet("PM001", subnet_counters(3, 2), subnet_counters(255, 2))
# the switch has more ports since it was restarted in another mode
MORE = smp(0x81, NODE_INFO, switch(2, 3, local_port_num=1), path=[1])
case("PM001", [*sweep(), subnet_counters(3, 2), MORE], [*sweep(), MORE, subnet_counters(3, 2)], frames=[10],
     also=["SEM034"], twin_also=["SEM034"])  # fmt: skip


# the LID answers for several ports that the node lacks: it is another node's by now
def serves(*ports: int) -> list[bytes]:
    answers = [gmp(4, GET_RESP, 0x12, build(PortCounters, port_select=port), slid=5, dlid=1) for port in ports]
    return [*sweep(), *[one for port, answer in zip(ports, answers, strict=True) for one in (subnet_counters(port, 5), answer)]]


case("PM001", serves(3), serves(1, 1), severity="warning")
case("PM001", serves(3, 4), serves(1, 1), severity="info")
# a switch that answers for a port beyond those it showed may have been restarted with its ports split; an adapter has no more ports
for status, how in ((0, "info"), (0x1C, "warning")):
    SPLIT = gmp(4, GET_RESP, 0x12, build(PortCounters, port_select=3), slid=2, dlid=1, header={"status": status})
    case("PM001", [*sweep(), subnet_counters(3, 2), SPLIT], [*sweep(), subnet_counters(2, 2)], severity=how)
# an hour later a switch may have been restarted in another mode
HOURS = partial(erf_pcap, step_ns=400_000_000_000)
case("PM001", [*sweep(), subnet_counters(3, 2)], [*sweep(), subnet_counters(2, 2)], severity="info", file=HOURS)
# the same where a switch showed its ports long ago
for seconds, how in ((1, "warning"), (11, "info")):
    case("PM001", [*sweep(), subnet_counters(3, 2)], [*sweep(), subnet_counters(2, 2)], severity=how,
         file=partial(erf_pcap, step_ns=seconds * 1_000_000_000))  # fmt: skip
# a Get of port 0 is what perfquery sends where nobody names a port, and changes nothing; a Set resets nothing that the node has
for method, how, beside in ((GET, "info", []), (SET, "warning", ["PM004"])):
    ZERO = [gmp(4, method, 0x12, build(PortCounters, port_select=port), slid=1, dlid=5) for port in (0, 1)]
    case("PM001", [*sweep(), ZERO[0]], [*sweep(), ZERO[1]], severity=how, also=beside, twin_also=beside)
# it was asked again, and the answer is missing; its LID was given to another port
EVERY = counters(GET, port_select=255)
case("PM002", [*agent(), *agent(transaction=4), EVERY], [*agent(), *agent(transaction=4)[:1], EVERY], frames=[5])
GETS_5 = [smp(GET_RESP, NODE_INFO, node(9), path=[1, 2]),
          *(smp(method, PORT_INFO, port_info(lid), path=[1, 2], modifier=1) for method, lid in ((SET, 5), (GET_RESP, 5)))]  # fmt: skip
case("PM002", [*GETS_5, *agent(), EVERY], [*agent(), *GETS_5, EVERY], frames=[6])
case("PM002", [*agent(), *GETS_5[::2], EVERY], [*agent(), *GETS_5, EVERY], frames=[5])
case("PM004", mad_counters(2), mad_counters(1))
case("PM009", mad_counters(5), mad_counters(1))
# a method that the class does not have is the fault, not that the answer fits no request (TXN006, TXN008)
case("PM009", [counters(GET), counters(0x86)], [counters(GET), counters(GET_RESP)], frames=[2])
case("PM009", [counters(5), counters(GET_RESP)], [counters(GET), counters(GET_RESP)], frames=[1])

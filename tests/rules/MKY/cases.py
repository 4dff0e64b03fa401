"""Proofs of the rules about management keys: captures that trigger them, and near-miss twins that must not."""

from __future__ import annotations

from functools import partial
from typing import Any

from ibdissect.lint.site_policy import SitePolicy
from tests.craft import erf_pcap, ethernet_pcap, interfaces_pcapng, smp, ud
from tests.rules.cases import case
from tests.rules.made.attributes import sm
from tests.rules.made.attributes import written as attribute_written
from tests.rules.made.early import exchange
from tests.rules.made.lanes import HELD as LANE_HELD
from tests.rules.made.lanes import read, send
from tests.rules.made.ports import answer_case, set_port
from tests.rules.made.traps import CA, PORT, bad_key, repress, trap
from tests.subnet.made import ANSWER, GUID, REPRESS, SET, answer, ask, node, node_info, p_keys, port_info

KEY, OTHER, NOTICE, PORT_INFO, NODE_INFO = 0x1122334455667788, 0xBAD, 0x02, 0x15, 0x11
P_KEY_TABLE, WRONG, SITE_OTHER, GET_RESP = 0x16, 0x99, 0x99, 0x81


def shown(protect: int, key: int = KEY, **kw: Any) -> bytes:
    """The port at LID 5 shows its key to who has it."""
    return answer(5, PORT_INFO, port_info(5, m_key=key, m_key_protect_bits=protect), m_key=key, **kw)


ALSO = ("MKY005",)  # a key in the capture is reported as such
SET_KEYS: dict[str, Any] = {"method": SET, "body": bytes.fromhex("ffff") + bytes(62)}
case("MKY001", [shown(1), ask(5, P_KEY_TABLE, **SET_KEYS)], [shown(1), ask(5, P_KEY_TABLE, m_key=KEY, **SET_KEYS)],
     frames=[2], also=ALSO, twin_also=ALSO)  # fmt: skip
# the port does it, so its key was changed unseen
case("MKY001", [shown(1), ask(5, P_KEY_TABLE, **SET_KEYS)],
     [shown(1), ask(5, P_KEY_TABLE, **SET_KEYS), answer(5, P_KEY_TABLE, SET_KEYS["body"])],
     frames=[2], also=ALSO, twin_also=ALSO)  # fmt: skip
# the key was taken off again, so nothing is wrong
case("MKY001", [shown(0), ask(5, P_KEY_TABLE, **SET_KEYS)], [shown(0), shown(0, 0), ask(5, P_KEY_TABLE, **SET_KEYS)],
     frames=[2], also=ALSO, twin_also=ALSO)  # fmt: skip
case("MKY002", [shown(1), ask(5, P_KEY_TABLE, m_key=OTHER, **SET_KEYS)], [shown(1), ask(6, P_KEY_TABLE, m_key=OTHER, **SET_KEYS)],
     frames=[2], also=ALSO, twin_also=ALSO)  # fmt: skip
case("MKY002", [shown(1), ask(5, NOTICE, method=REPRESS, m_key=OTHER)], [shown(1), ask(5, NOTICE, method=REPRESS, m_key=KEY)],
     frames=[2], also=ALSO, twin_also=ALSO)  # fmt: skip
# the port reports to the sender, so it was set up anew unseen
REPORTS = [trap(256, bad_key(), dlid=lid) for lid in (1, 9)]
NEW_MANAGER = repress(256, bad_key(), slid=9, m_key=OTHER)
case("MKY002", [CA, shown(1), REPORTS[0], NEW_MANAGER], [CA, shown(1), REPORTS[1], NEW_MANAGER], frames=[4], also=ALSO, twin_also=ALSO)
# a directed route whose NodeInfo came back
ROUTE = [
    smp(ANSWER, NODE_INFO, node(5), path=[1, 2]),
    smp(ANSWER, PORT_INFO, port_info(5, m_key=KEY, m_key_protect_bits=1), path=[1, 2], m_key=KEY),
]
case("MKY002", [*ROUTE, smp(SET, P_KEY_TABLE, SET_KEYS["body"], path=[1, 2], m_key=OTHER)],
     [*ROUTE, smp(SET, P_KEY_TABLE, SET_KEYS["body"], path=[1, 3], m_key=OTHER)], frames=[3], also=ALSO, twin_also=ALSO)  # fmt: skip
# a Set gave that key to a port that the capture does not know: it may be this one
GIVEN = smp(SET, PORT_INFO, port_info(5, m_key=OTHER, port_state=0, port_physical_state=0), path=[1, 3])
KEYED_OTHER = ask(5, P_KEY_TABLE, m_key=OTHER, **SET_KEYS)
case("MKY002", [GIVEN, shown(1), KEYED_OTHER], [shown(1), GIVEN, KEYED_OTHER], frames=[3], also=ALSO, twin_also=ALSO)
case("MKY003", [shown(2), ask(5, NODE_INFO)], [shown(1), ask(5, NODE_INFO)], frames=[2], also=ALSO, twin_also=ALSO)
# a query of the node's own port may bypass the check
case("MKY003", [shown(2), ask(5, NODE_INFO, m_key=OTHER, slid=9)], [shown(2), ask(5, NODE_INFO, m_key=OTHER, slid=5)],
     frames=[2], also=ALSO, twin_also=ALSO)  # fmt: skip
# the PortInfo of an adapter's other port: both ports' keys are checked
TWO_PORTS = [node_info(5, num_ports=2), node_info(6, num_ports=2, local_port_num=2, node_guid=GUID + 0x50, system_image_guid=GUID + 0x53),
             answer(5, PORT_INFO, port_info(5, m_key=KEY, m_key_protect_bits=2), modifier=1, m_key=KEY)]  # fmt: skip
SECOND = {protect: answer(6, PORT_INFO, port_info(6, m_key=OTHER, m_key_protect_bits=protect, local_port_num=2), modifier=2, m_key=OTHER)
          for protect in (1, 2)}  # fmt: skip
OTHERS_INFO = ask(5, PORT_INFO, m_key=KEY, modifier=2)
case("MKY003", [*TWO_PORTS, SECOND[2], OTHERS_INFO], [*TWO_PORTS, SECOND[1], OTHERS_INFO], frames=[5], also=ALSO, twin_also=ALSO)
case("MKY003", [*TWO_PORTS, SECOND[2], OTHERS_INFO],
     [*TWO_PORTS, SECOND[2], OTHERS_INFO, answer(5, PORT_INFO, port_info(6, local_port_num=1), modifier=2, m_key=KEY)],
     frames=[5], also=ALSO, twin_also=ALSO)  # fmt: skip
case("MKY004", [ask(5, PORT_INFO), answer(5, PORT_INFO, port_info(5, m_key=KEY, m_key_protect_bits=1))],
     [ask(5, PORT_INFO), answer(5, PORT_INFO, port_info(5, m_key=0, m_key_protect_bits=1))], frames=[2], also=ALSO)  # fmt: skip
# the answer to the Set that installs the key shows it to who wrote it
case("MKY004", [ask(5, PORT_INFO), answer(5, PORT_INFO, port_info(5, m_key=KEY, m_key_protect_bits=1))],
     [ask(5, PORT_INFO, method=SET, body=port_info(5, m_key=KEY, m_key_protect_bits=1, port_state=0, port_physical_state=0)),
      answer(5, PORT_INFO, port_info(5, m_key=KEY, m_key_protect_bits=1))], frames=[2], also=ALSO, twin_also=ALSO)  # fmt: skip
STORM = [trap(256, bad_key(), tid=tid) for tid in range(1, 5)]
case("MKY011", [CA, PORT, *STORM], [CA, PORT, *STORM[:2], repress(256, bad_key()), *STORM[2:]], frames=[6])
PLAIN_ALSO = ("MKY005",)
# a second mirror, whose clock is a little behind, delivers the same packets again
APART: Any = partial(erf_pcap, step_ns=100_000)
INSTALL = {"method": SET, "body": port_info(5, m_key=KEY, m_key_protect_bits=1, port_state=0, port_physical_state=0)}
INSTALLED = [CA, ask(5, PORT_INFO, **INSTALL), answer(5, PORT_INFO, port_info(5, m_key=KEY, m_key_protect_bits=1))]
case("MKY001", [*INSTALLED, ask(5, PORT_INFO, header={"transaction_id": 9}, **INSTALL)], [*INSTALLED, *INSTALLED[1:]], frames=[4],
     also=ALSO, twin_also=(*ALSO, "CAP012"), file=APART)  # fmt: skip
# the second mirror lost the answer
case("MKY001", [*INSTALLED, ask(5, PORT_INFO, header={"transaction_id": 9}, **INSTALL)], [*INSTALLED, INSTALLED[1]], frames=[4],
     also=ALSO, twin_also=(*ALSO, "CAP012"), file=APART)  # fmt: skip
case("MKY011", [CA, PORT, *STORM], [CA, PORT, *STORM[:2], *STORM[:2]], frames=[6], twin_also=["CAP012"], file=APART)


def key_shown(**values: Any) -> bytes:
    return answer(5, PORT_INFO, port_info(5, m_key=KEY, m_key_protect_bits=1, **values), m_key=KEY)


def tried(key: int) -> bytes:
    return ask(5, P_KEY_TABLE, method=SET, m_key=key, body=b"\xff\xff".ljust(64, b"\0"), header={"transaction_id": 0x100 + key})


LATE = [key_shown(m_key_lease_period=1), tried(9), CA]
case("MKY008", erf_pcap(LATE, step_ns=1_500_000_000), erf_pcap([*LATE[:2], tried(KEY), CA], step_ns=400_000_000),
     file=None, frames=[3], also=[*PLAIN_ALSO, "MKY002"], twin_also=[*PLAIN_ALSO, "MKY002"])  # fmt: skip
case("MKY008", erf_pcap([CA, key_shown(m_key_lease_period=2), tried(9), tried(KEY), CA], step_ns=2_000_000_000),
     erf_pcap([CA, key_shown(m_key_lease_period=2), tried(9), tried(KEY), CA], step_ns=900_000_000),
     file=None, frames=[4], also=[*PLAIN_ALSO, "MKY002", "TXN001"], twin_also=[*PLAIN_ALSO, "MKY002"])  # fmt: skip
case("MKY015", [key_shown(), tried(1), tried(2), tried(3)], [key_shown(), tried(1), tried(2), tried(2)], frames=[4],
     also=[*PLAIN_ALSO, "MKY002"], twin_also=[*PLAIN_ALSO, "MKY002"])  # fmt: skip
# the port takes other keys than it showed: its key was changed where the capture does not show it
TAKEN = [one for key in (1, 2) for one in (tried(key), answer(5, P_KEY_TABLE, p_keys(0xFFFF), header={"transaction_id": 0x100 + key}))]
case("MKY015", [key_shown(), *TAKEN, tried(3)], [key_shown(), tried(1), tried(2), tried(2)], frames=[6], severity="info",
     also=[*PLAIN_ALSO, "MKY002"], twin_also=[*PLAIN_ALSO, "MKY002"])  # fmt: skip
case("MKY002", [key_shown(), *TAKEN, tried(3)], [key_shown(), *TAKEN], frames=[6], severity="info",
     also=[*PLAIN_ALSO, "MKY015"], twin_also=PLAIN_ALSO)  # fmt: skip


def given(key: int, slid: int, presents: int = 0) -> bytes:
    body = port_info(5, m_key=key, m_key_protect_bits=1, port_state=0, port_physical_state=0)
    return ask(5, PORT_INFO, method=SET, slid=slid, body=body, m_key=presents)


def routed(key: int, agent: int) -> bytes:
    """The same along a directed route."""
    body = port_info(5, m_key=key, m_key_protect_bits=1, port_state=0, port_physical_state=0)
    return smp(SET, PORT_INFO, body, path=[1], header={"transaction_id": agent << 32 | key})


def origin(lid: int, agent: int) -> list[bytes]:
    """A manager looks at its own port, and at the adapter that its route leads to."""
    return [smp(0x81, NODE_INFO, node(at), path=path, header={"transaction_id": agent << 32 | lid}) for at, path in ((lid, []), (5, [1]))]


case("MKY013", [CA, given(3, 1), given(4, 2)], [CA, given(3, 1), given(4, 1)], frames=[3], also=PLAIN_ALSO, twin_also=PLAIN_ALSO)
# a successor knows the key in force and changes it; the first manager comes back, or the second one did not know the key
for rest, how in (([], "info"), ([given(3, 1, 4)], "warning"), ([given(5, 2, 4)], "info")):
    case("MKY013", [CA, given(3, 1), given(4, 2, 3), *rest], [CA, given(3, 1), given(4, 1, 3)], frames=[3], severity=how, also=PLAIN_ALSO,
         twin_also=PLAIN_ALSO)  # fmt: skip
case("MKY013", [CA, given(3, 1), given(4, 2, 9)], [CA, given(3, 1), given(4, 1, 3)], frames=[3], severity="warning",
     also=PLAIN_ALSO, twin_also=PLAIN_ALSO)  # fmt: skip
# the port was restarted and has no key; protect bits 1 may hide one
RESTARTED = [answer(5, PORT_INFO, port_info(5, m_key_protect_bits=bits, port_state=2)) for bits in (1, 0)]
case("MKY013", *([CA, given(3, 1), shown, given(4, 2)] for shown in RESTARTED), frames=[4], also=[*PLAIN_ALSO, "SMP025"],
     twin_also=[*PLAIN_ALSO, "SMP025"])  # fmt: skip
# one manager that was restarted, or goes over from directed routes to LIDs
TWO = [*origin(1, 7), *origin(2, 8), routed(3, 7), routed(4, 8)]
case("MKY013", TWO, [*origin(1, 7), *origin(1, 8), routed(3, 7), routed(4, 8)], frames=[6], also=PLAIN_ALSO, twin_also=PLAIN_ALSO)
case("MKY013", TWO, [*origin(1, 7), *origin(5, 8)[1:], routed(3, 7), routed(4, 8)], frames=[6], also=PLAIN_ALSO, twin_also=PLAIN_ALSO)
case("MKY013", TWO, [*origin(1, 7), routed(3, 7), given(4, 1)], frames=[6], also=PLAIN_ALSO, twin_also=PLAIN_ALSO)
NODE = exchange(5, NODE_INFO, node(5), 5)
KEYED = [
    ask(5, PORT_INFO, m_key=KEY, header={"transaction_id": 6}),
    answer(5, PORT_INFO, port_info(5, m_key=KEY, m_key_protect_bits=0), m_key=KEY, header={"transaction_id": 6}),
]
REFUSED = ask(5, P_KEY_TABLE, method=SET, body=p_keys(0xFFFF), m_key=WRONG, header={"transaction_id": 7})
BARE = ask(5, P_KEY_TABLE, method=SET, body=p_keys(0xFFFF), header={"transaction_id": 7})
TAKEN = answer(5, P_KEY_TABLE, p_keys(0xFFFF), header={"transaction_id": 7})
SEEN = ["MKY005"]
case("MKY002", [*NODE, REFUSED, *KEYED], [*NODE, REFUSED, TAKEN, *KEYED], frames=[3], also=SEEN, twin_also=SEEN)
case("MKY001", [*NODE, BARE, *KEYED], [*NODE, BARE, TAKEN, *KEYED], frames=[3], also=SEEN, twin_also=SEEN)
# a key that was written before anybody read the port
INSTALLS = [
    ask(5, PORT_INFO, method=SET, body=port_info(5, m_key=KEY, port_state=0, port_physical_state=0), header={"transaction_id": 8}),
    answer(5, PORT_INFO, port_info(5, m_key=KEY), header={"transaction_id": 8}),
]
case("MKY002", [*NODE, REFUSED, *KEYED], [*NODE, REFUSED, *INSTALLS], frames=[3], also=SEEN, twin_also=SEEN)
# M_Keys: carried by requests, written to ports, held by them
KEYS = SitePolicy(m_keys=frozenset({KEY}))
FREE = answer(5, PORT_INFO, port_info(5))
HELD = answer(5, PORT_INFO, port_info(5, m_key_protect_bits=1))
case("MKY001", [HELD, ask(5, 0x16, method=SET)], [HELD, ask(5, 0x16, method=SET, m_key=KEY)], frames=[2], policy=KEYS)
# a port without a key gets its first one without
case("MKY001", [HELD, ask(5, 0x16, method=SET)], [node_info(5), FREE, ask(5, 0x16, method=SET)], frames=[2], policy=KEYS)
case("MKY002", [FREE, ask(5, 0x16, method=SET, m_key=SITE_OTHER)], [FREE, ask(5, 0x16, method=SET, m_key=KEY)], frames=[2], policy=KEYS)
case("MKY013", answer(5, PORT_INFO, port_info(5, m_key=SITE_OTHER)), answer(5, PORT_INFO, port_info(5, m_key=KEY)),
     frames=[1], also=["MKY005"], twin_also=["MKY005"], policy=KEYS)  # fmt: skip
case("MKY007", ask(5, PORT_INFO, method=SET, body=set_port(), m_key=KEY),
     ask(5, PORT_INFO, method=SET, body=set_port(m_key=KEY), m_key=KEY), frames=[1], twin_also=["MKY005"], policy=KEYS)  # fmt: skip
SLOW: Any = partial(erf_pcap, step_ns=1_000_000_000)
LANE_SEEN = ["MKY005"]
IDLE = [send(slid=7, dlid=8)]
case(
    "MKY009",
    [*LANE_HELD, read(KEY, SET), *IDLE, read(KEY)],
    [*LANE_HELD, read(KEY, SET), read(KEY), read(KEY)],
    frames=[5],
    also=[*LANE_SEEN, "TXN001"],
    twin_also=[*LANE_SEEN, "TXN001"],
    file=SLOW,
)
# a tool that reads
READS = [*LANE_HELD, read(KEY), *IDLE, read(KEY)]
case(
    "MKY009", [*LANE_HELD, read(KEY, SET), *IDLE, read(KEY)], READS, frames=[5], also=[*LANE_SEEN, "TXN001"], twin_also=LANE_SEEN, file=SLOW
)
case("MKY005", attribute_written(m_key=0x1122334455667788), attribute_written())
case(
    "MKY006",
    attribute_written(m_key=7, m_key_protect_bits=3),
    attribute_written(m_key=7, m_key_protect_bits=2),
    also=["MKY005"],
    twin_also=["MKY005"],
)
case("MKY007", attribute_written(m_key_protect_bits=2), attribute_written())
case("MKY014", sm(GET_RESP, sm_key=1), sm(GET_RESP))
answer_case("MKY012", PORT_INFO, port_info(5, m_key_violations=2), port_info(5, m_key_violations=5), port_info(5, m_key_violations=0))
# what a trap says against what the LID that it names sent
ACCUSED = [
    ask(5, PORT_INFO, method=SET, body=set_port(m_key=9), m_key=9),
    *[ud(b"idle", dest_qp=9, src_qp=7, q_key=5, slid=7, dlid=8, bth={"psn": psn}) for psn in range(10)],
]
case("MKY010", [*ACCUSED, trap(256, bad_key(attributeid=0x16))], [*ACCUSED, trap(256, bad_key())], frames=[12], also=["MKY005"],
     twin_also=["MKY005"], file=SLOW)  # fmt: skip
# the request came from another LID that may be the same port's, and an agent that hides the key
case("MKY010", [*ACCUSED, trap(256, bad_key(attributeid=0x16))], [*ACCUSED, ask(5, 0x16, method=SET, m_key=9, slid=3),
     trap(256, bad_key(attributeid=0x16))], frames=[12], also=["MKY005"], twin_also=["MKY005"], file=SLOW)  # fmt: skip
case("MKY010", [*ACCUSED, trap(256, bad_key(mkey=8))], [*ACCUSED, trap(256, bad_key(mkey=0))], frames=[12], also=["MKY005"],
     twin_also=["MKY005"], file=SLOW)  # fmt: skip
# another LID, of which the capture shows nothing to that port; a capture that began just before
case("MKY010", [*ACCUSED, trap(256, bad_key(mkey=8))], [*ACCUSED, trap(256, bad_key(mkey=8, lidaddr=3))], frames=[12], also=["MKY005"],
     twin_also=["MKY005"], file=SLOW)  # fmt: skip
case("MKY010", [*ACCUSED, trap(256, bad_key(mkey=8))], [*ACCUSED[:3], trap(256, bad_key(mkey=8))], frames=[12], also=["MKY005"],
     twin_also=["MKY005"], file=SLOW)  # fmt: skip
# two traps of either of two subnets, whose ports have the same LID
ACKNOWLEDGED = [CA, PORT, repress(256, bad_key())]
ON_ONE, ON_TWO = ([(0, one) for one in ACKNOWLEDGED] + [(n % apart, one) for n, one in enumerate(STORM)] for apart in (1, 2))
case("MKY011", interfaces_pcapng(ON_ONE), interfaces_pcapng([*((0, one) for one in ACKNOWLEDGED), (0, STORM[0]), (1, STORM[1])]),
     file=None, frames=[7], also=["CAP009"], twin_also=["CAP009"], severity="warning")  # fmt: skip
case("MKY011", interfaces_pcapng(ON_TWO), interfaces_pcapng(ON_TWO[:6]), file=None, frames=[7], also=["CAP009"], twin_also=["CAP009"],
     severity="info")  # fmt: skip
# the right key on its way to an unknown place
ASTRAY = smp(1, NODE_INFO, path=[3, 4], m_key=KEY, header={"transaction_id": 0x77})
case("MKY008", erf_pcap([*LATE[:2], ASTRAY, CA], step_ns=800_000_000), erf_pcap(LATE[::2], step_ns=800_000_000), file=None, frames=[4],
     also=[*PLAIN_ALSO, "MKY002"], twin_also=PLAIN_ALSO, severity="info")  # fmt: skip
# the bad request may have gone to another LID of the port
for lmc, severity in ((0, "warning"), (1, "info")):
    READ = [*exchange(5, NODE_INFO, node(5), 5), *exchange(5, PORT_INFO, port_info(5 - lmc, lmc=lmc), 6)]
    case("MKY010", [*READ, *ACCUSED, trap(256, bad_key(mkey=8))], [*READ, *ACCUSED, trap(256, bad_key())], frames=[16],
         also=["MKY005", "TXN001", "CAP009"], twin_also=["MKY005", "TXN001", "CAP009"], severity=severity,
         file=partial(ethernet_pcap, link=247, step_ns=1_000_000_000))  # fmt: skip
# a Set wrote the count
WROTE = ask(5, PORT_INFO, method=SET, body=set_port(m_key_violations=5))
VIOLATED = [answer(5, PORT_INFO, port_info(5, m_key_violations=count)) for count in (0, 5, 6)]
case("MKY012", [CA, VIOLATED[0], WROTE, VIOLATED[2]], [CA, VIOLATED[0], WROTE, VIOLATED[1]], frames=[4], also=["SEM014"],
     twin_also=["SEM014"])  # fmt: skip
# only what it wrote before
case("MKY012", [CA, VIOLATED[0], VIOLATED[1], WROTE], [CA, VIOLATED[0], WROTE, VIOLATED[1]], frames=[3], twin_also=["SEM014"])
# a Set that repeats what the port showed: its key is hidden from who does not know it
HIDDEN, AGAIN = answer(5, PORT_INFO, port_info(5, m_key_protect_bits=1)), {"method": SET, "body": set_port(m_key_protect_bits=1)}
case("MKY007", [CA, PORT, ask(5, PORT_INFO, **AGAIN)], [CA, HIDDEN, ask(5, PORT_INFO, **AGAIN)], frames=[3])
# a Set that allows reading is under way
OPENS = ask(5, PORT_INFO, method=SET, body=set_port(m_key=KEY), m_key=KEY)
case("MKY003", [CA, shown(2), ask(5, NODE_INFO)], [CA, shown(2), OPENS, ask(5, NODE_INFO)], frames=[3], also=ALSO, twin_also=ALSO)
# a manager takes its key off before another one comes
case("MKY013", [CA, given(3, 1), given(4, 2)], [CA, given(3, 1), ask(5, PORT_INFO, method=SET, body=set_port(), m_key=3), given(4, 2)],
     frames=[3], also=PLAIN_ALSO, twin_also=PLAIN_ALSO)  # fmt: skip
QUIET = [ud(b"idle", dest_qp=0x40, src_qp=0x41, q_key=7, slid=7, dlid=8, bth={"psn": psn}) for psn in range(3)]
# a lease runs out only if the port refused the request, showed protect bits before, and does not show them afterwards
LEASED, AFTER = [CA, key_shown(m_key_lease_period=1), tried(9)], {"transaction_id": 0x301}
OVER: dict[str, Any] = {"frames": [4], "also": [*PLAIN_ALSO, "MKY002"], "file": partial(erf_pcap, step_ns=1_000_000_000)}
REFUSAL = [*PLAIN_ALSO, "MKY002"]
TOOK = answer(5, P_KEY_TABLE, p_keys(0xFFFF), header={"transaction_id": 0x109})
case("MKY008", [*LEASED, *QUIET], [*LEASED, TOOK, *QUIET], twin_also=PLAIN_ALSO, severity="warning", **OVER)
NO_BITS = answer(5, PORT_INFO, port_info(5, m_key=KEY, m_key_lease_period=1), m_key=KEY)
case("MKY008", [*LEASED, *QUIET], [CA, NO_BITS, tried(9), *QUIET], twin_also=REFUSAL, severity="warning", **OVER)
SHOWS = answer(5, PORT_INFO, port_info(5, m_key=KEY, m_key_protect_bits=1, m_key_lease_period=1), m_key=KEY, header=AFTER)
WRITES = {"method": SET, "body": set_port(m_key=KEY, m_key_protect_bits=1, m_key_lease_period=1)}
for asks, severity in (({}, "info"), (WRITES, "warning")):  # nothing ran out; or the bits were written again
    shows = [ask(5, PORT_INFO, m_key=KEY, header=AFTER, **asks), SHOWS]
    case("MKY008", [*LEASED, QUIET[0], *shows, QUIET[1]], LEASED, twin_also=REFUSAL, severity=severity, **OVER)
# at the host of a tool: what the port's manager sends is not seen
TOOL = ask(5, P_KEY_TABLE, method=SET, m_key=9, body=p_keys(0xFFFF), slid=9, header={"transaction_id": 0x109})
case("MKY008", [*LEASED[:2], TOOL, *QUIET], LEASED, twin_also=REFUSAL, severity="info", **{**OVER, "also": [*REFUSAL, "SMP025"]})

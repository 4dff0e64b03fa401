"""Proofs of the site policy: the same packets are in order without one, or with one that allows them."""

from __future__ import annotations

from ibdissect.lint.policy import SitePolicy
from tests.craft import native, smp
from tests.fabric.made import SET, answer, ask, node_info, p_keys, port_info
from tests.rules.cases import case

PORT_INFO, P_KEY_TABLE, NODE_INFO = 0x15, 0x16, 0x11
NO_DEFAULT = SitePolicy(no_partitions=frozenset({0x7FFF}))
ONLY_1 = SitePolicy(partitions=frozenset({1}))
KEY, OTHER = 0x1122334455667788, 0x99


def send(p_key: int, psn: int = 1, slid: int = 3) -> bytes:
    """An RC SEND Only."""
    return native(0x04, bytes(8), slid=slid, dlid=5, bth={"p_key": p_key, "destqp": 0x20, "psn": psn})


# no traffic in the default partition, whatever the membership; management is not judged
case(
    "PKY003", [send(0xFFFF), send(0x7FFF, psn=2), send(0xFFFF, psn=3)], [send(0x8001), ask(5, NODE_INFO)], frames=[1, 2], policy=NO_DEFAULT
)
case("PKY003", [send(0x8002)], [send(0x8001), send(0x0001, psn=2)], frames=[1], policy=ONLY_1)
case("PKY010", ask(5, P_KEY_TABLE, method=SET, body=p_keys(0xFFFF, 0x8002)), ask(5, P_KEY_TABLE, method=SET, body=p_keys(0xFFFF, 0x8001)),
     frames=[1], policy=ONLY_1)  # fmt: skip

# who may write: by LID, by GUID of the port that has the LID, by GUID at the start of a directed route
BY_LID = SitePolicy(manager_lids=frozenset({1}))


def written(lid: int = 5, **values: int) -> bytes:
    """PortInfo as a manager writes it: no state change."""
    return port_info(lid, port_state=0, port_physical_state=0, **values)


WRITES = written()
case("SMP025", ask(5, PORT_INFO, method=SET, body=WRITES, slid=7), ask(5, PORT_INFO, method=SET, body=WRITES), frames=[1], policy=BY_LID)
case("SMP025", ask(5, PORT_INFO, method=SET, body=WRITES, slid=7), ask(5, PORT_INFO, body=WRITES, slid=7), frames=[1], policy=BY_LID)
GUID_OF_3 = 0x0002C90300001000 + (3 << 4) + 1
BY_GUID = SitePolicy(manager_guids=frozenset({GUID_OF_3}))
KNOWN = [node_info(3), node_info(4)]
case("SMP025", [*KNOWN, ask(5, PORT_INFO, method=SET, body=WRITES, slid=4)], [*KNOWN, ask(5, PORT_INFO, method=SET, body=WRITES, slid=3)],
     frames=[3], policy=BY_GUID)  # fmt: skip

# M_Keys: carried by requests, written to ports, held by them
KEYS = SitePolicy(m_keys=frozenset({KEY}))
FREE = answer(5, PORT_INFO, port_info(5))
HELD = answer(5, PORT_INFO, port_info(5, m_key_protect_bits=1))
case("MKY001", [HELD, ask(5, 0x16, method=SET)], [HELD, ask(5, 0x16, method=SET, m_key=KEY)], frames=[2], policy=KEYS)
# a port without a key gets its first one without
case("MKY001", [HELD, ask(5, 0x16, method=SET)], [node_info(5), FREE, ask(5, 0x16, method=SET)], frames=[2], policy=KEYS)
case("MKY002", [FREE, ask(5, 0x16, method=SET, m_key=OTHER)], [FREE, ask(5, 0x16, method=SET, m_key=KEY)], frames=[2], policy=KEYS)
case("MKY013", answer(5, PORT_INFO, port_info(5, m_key=OTHER)), answer(5, PORT_INFO, port_info(5, m_key=KEY)),
     frames=[1], also=["MKY005"], twin_also=["MKY005"], policy=KEYS)  # fmt: skip
case("MKY007", ask(5, PORT_INFO, method=SET, body=written(), m_key=KEY),
     ask(5, PORT_INFO, method=SET, body=written(m_key=KEY), m_key=KEY), frames=[1], twin_also=["MKY005"], policy=KEYS)  # fmt: skip

# LIDs: of packets, and as assigned
LIDS = SitePolicy(lids=((1, 15),))
case("LNK020", [send(0xFFFF, slid=16), send(0xFFFF, psn=2, slid=16)], [send(0xFFFF, slid=15)], frames=[1], policy=LIDS)
case("LNK020", smp(SET, PORT_INFO, written(40), slid=1, dlid=5), smp(SET, PORT_INFO, written(14), slid=1, dlid=5),
     frames=[1], policy=LIDS)  # fmt: skip

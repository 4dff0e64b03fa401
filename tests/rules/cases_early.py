"""Proofs of what is learnt late: packets in front of the facts are judged by them at the end, when nothing contradicts."""

from __future__ import annotations

from tests.craft import native, rc
from tests.fabric.made import SET, answer, ask, node, p_keys, port_info
from tests.rules.cases import case

P_KEY_TABLE, PORT_INFO, NODE_INFO = 0x16, 0x15, 0x11


def send(p_key: int, psn: int = 1) -> bytes:
    """An RC SEND Only from LID 3 to LID 5."""
    return native(0x04, bytes(8), slid=3, dlid=5, bth={"p_key": p_key, "destqp": 0x12, "psn": psn})


def told(lid: int, attribute: int, body: bytes, transaction: int) -> list[bytes]:
    """A Get and its answer."""
    header = {"transaction_id": transaction}
    return [ask(lid, attribute, header=header), answer(lid, attribute, body, header=header)]


def shown(lid: int, *keys: int) -> list[bytes]:
    """Somebody asks a port for its identity, LID and P_Keys."""
    bodies = {NODE_INFO: node(lid), PORT_INFO: port_info(lid), P_KEY_TABLE: p_keys(*keys)}
    return [frame for attribute, body in bodies.items() for frame in told(lid, attribute, body, lid << 8 | attribute)]


def written(lid: int, *keys: int) -> list[bytes]:
    """Somebody writes the P_Keys of a port."""
    return [
        ask(lid, P_KEY_TABLE, method=SET, body=p_keys(*keys), header={"transaction_id": 99}),
        answer(lid, P_KEY_TABLE, p_keys(*keys), header={"transaction_id": 99}),
    ]


TABLE = shown(5, 0xFFFF, 0x1234)
case("PKY001", [send(0x1234), send(0x1234, 2), *TABLE], [send(0x9234), *TABLE], frames=[1])
case("PKY003", [send(0x9999), *TABLE], [send(0x1234 | 0x8000), *TABLE], frames=[1])
case("PKY004", [send(0x9999), *shown(3, 0xFFFF)], [send(0x7FFF), *shown(3, 0xFFFF)], frames=[1])
# a table that was written before anybody read it may have been another one
case("PKY003", [send(0x9999), *TABLE], [send(0x9999), *TABLE[:4], *written(5, 0xFFFF, 0x1234), *TABLE[4:]], frames=[1])
# ... and one that changes later is not relied upon at all
case("PKY003", [send(0x9999), *TABLE], [send(0x9999), *TABLE, *written(5, 0xFFFF)], frames=[1])
# an answer to a request that nobody saw may be that to a Set
case("PKY003", [send(0x9999), *TABLE], [send(0x9999), *TABLE[:4], TABLE[5]], frames=[1])
# the destination sends in that partition itself
BACK = rc(0x11, slid=5, dlid=3, bth={"p_key": 0x9999, "destqp": 0x13})
case("PKY003", [send(0x9999), *TABLE], [send(0x9999), BACK, *TABLE], frames=[1])
# another port had that LID
OTHER = told(5, NODE_INFO, node(6), 70)
case("PKY003", [send(0x9999), *TABLE], [send(0x9999), *OTHER, *TABLE], frames=[1])

# M_Keys: a Set that nobody answers, in front of the port's first PortInfo
KEY, WRONG = 0x1122334455667788, 0x99
NODE = told(5, NODE_INFO, node(5), 5)
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

"""What changed where the capture does not show it, or while nothing was recorded, is no fault. Each with its nearest true neighbour."""

from __future__ import annotations

import pytest

from ibdissect.wire.pm import PortCounters
from ibdissect.wire.sa_records import NodeRecord
from tests.cases import every
from tests.craft import build, gmp
from tests.rules.made.subnets import NODE_INFO, PORT_INFO, SWITCH_INFO, back, sweep
from tests.rules.made.traps import CA, bad_key, trap
from tests.rules.test_legal_traffic import P_KEY_TABLE, STATES, exchange, severities
from tests.standard import SECOND_NS
from tests.subnet.made import SET, answer, ask, node, p_keys, port_info, switch, switch_info

MULTICAST = 0x1B


@every("chunks", [(), (2,), (13,)])
@every(("pause", "found"), [(2, ["info"]), (7200, []), (7211, ["info"])])
def test_a_complaint_about_a_request_during_a_pause(pause: int, found: list[str], chunks: tuple[int, ...]) -> None:
    """Two recordings of one link are one file; the second one begins two seconds, or eleven, before the trap."""
    asked, frames = ask(5, PORT_INFO), [ask(5, PORT_INFO), *[trap(128, slid=6, tid=tid) for tid in range(11)]]
    began = (pause - pause % 7200) * SECOND_NS
    times = [*(SECOND_NS * i for i in range(len(frames))), began + 12 * SECOND_NS, (pause + 12) * SECOND_NS]
    assert severities("MKY010", [*frames, asked, trap(256, bad_key(mkey=8))], chunks=chunks, times=times) == found


@pytest.mark.parametrize("chunks", [(), (2,)])
def test_a_lease_that_begins_after_the_request_of_the_manager(chunks: tuple[int, ...]) -> None:
    """The capture shows a tool only, as far as the lease is concerned."""
    shown = answer(5, PORT_INFO, port_info(5, m_key=7, m_key_protect_bits=1, m_key_lease_period=2), m_key=7)
    wrong = ask(5, P_KEY_TABLE, method=SET, m_key=9, body=p_keys(0xFFFF), slid=9)
    idle, asked = [trap(128, slid=6)] * 3, ask(5, NODE_INFO)
    assert severities("MKY008", [CA, asked, shown, wrong, *idle], step_ns=SECOND_NS, chunks=chunks) == ["info"]
    assert severities("MKY008", [CA, shown, asked, wrong, *idle], step_ns=SECOND_NS, chunks=chunks) == ["warning"]


COUNTERS = gmp(4, 2, 0x12, build(PortCounters, port_select=0), slid=1, dlid=5)
GIVEN = port_info(5, operational_vls=1, **STATES)


def node_record(of: bytes) -> bytes:
    """The SA says whose LID 5 is."""
    record = bytearray(build(NodeRecord, lid=5))
    record[4:44] = of[:40]
    return gmp(3, 0x81, 0x11, bytes(record), at=56, slid=1, dlid=9)


@every(
    ("told", "found"),
    [
        ([answer(5, PORT_INFO, port_info(5), modifier=8)], []),
        ([answer(5, PORT_INFO, port_info(5), modifier=1)], ["warning"]),
        ([back(SWITCH_INFO, switch_info(), [1, 2])], []),
        ([back(SWITCH_INFO, switch_info(), [1])], ["warning"]),
        ([node_record(switch(9, 36))], []),
        ([node_record(node(5))], ["warning"]),
        ([back(NODE_INFO, switch(30, 8), [1, 3]), exchange(PORT_INFO, GIVEN, [1, 3])[0]], ["info"]),
        ([back(NODE_INFO, switch(30, 8), [1, 3]), *exchange(PORT_INFO, GIVEN, [1, 3], port_info(30))], ["warning"]),
    ],
)
def test_a_lid_that_a_switch_has_by_now(told: list[bytes], found: list[str]) -> None:
    """An answer that its adapter cannot give shows it, the SA says so, or the answer to a Set that gives it away is lost."""
    assert severities("PM001", [*sweep(), *told, COUNTERS]) == found


@pytest.mark.parametrize(("status", "held", "found"), [(0, bytes(64), "info"), (0, b"\1" * 64, "info"), (0x1C, bytes(64), "warning")])
def test_a_table_of_zeros_that_was_taken(status: int, held: bytes, found: str) -> None:
    """A switch that has the LID by now clears an entry; an adapter refuses."""
    header = {"transaction_id": 99}
    table = ask(5, MULTICAST, method=SET, body=held, header=header), answer(5, MULTICAST, held, header={**header, "status": status})
    assert severities("AM018", [*sweep(), *table]) == [found]

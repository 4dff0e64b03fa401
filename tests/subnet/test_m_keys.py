"""M_Keys are checked according to the protect-bits table of the kernel (hw/qib/qib_mad.c)."""

from __future__ import annotations

from collections.abc import Sequence

from tests.cases import every
from tests.craft import erf_pcap, smp
from tests.standard import GET, P_KEY_TABLE, PORT_INFO, SET, TRAP, TRAP_REPRESS
from tests.subnet.made import ANSWER, answer, ask, node, port_info
from tests.subnet.taught import Taught

KEY, WRONG, SECOND = 0x1122, 0xBAD, 1_000_000_000
START = 1_700_000_000 * SECOND
Asked = tuple[int, int, int]
"""Method, M_Key and time of a packet to the port, or of the port."""


def packet(method: int, key: int) -> bytes:
    if method == TRAP:
        return smp(TRAP, 0x02, slid=5, dlid=1, m_key=key)
    return answer(5, P_KEY_TABLE, bytes(64), m_key=key) if method == ANSWER else ask(5, P_KEY_TABLE, method=method, m_key=key)


def wrong(held: tuple[int, int, int], asked: Sequence[Asked], *between: bytes) -> list[tuple[int, tuple[int, int, int]]]:
    """Which of the packets to a port with this key, protect bits and lease have a wrong key, and what the port held then.

    `between`: packets before the last two, at the time of the one before them.
    """
    key, protect, lease = held
    body = port_info(5, m_key=key, m_key_protect_bits=protect, m_key_lease_period=lease)
    known = [answer(5, 0x11, node(5)), answer(5, PORT_INFO, body, m_key=key)]
    frames = [packet(method, presented) for method, presented, _ in asked]
    times = [at for *_, at in asked]
    at = len(frames) - 2 if between else 0
    frames[at:at], times[at:at] = between, [times[at - 1]] * len(between)
    capture = erf_pcap([*known, *frames], times=[START, START, *(START + SECOND + time for time in times)])
    told = Taught().read(capture).told("WrongMKey")
    return [(one.frame - len(known) - (len(between) if one.frame - len(known) > at else 0), tuple(one.held)) for one in told]


@every("protect", range(4))
@every("presented", [0, WRONG])
def test_wrong_keys(protect: int, presented: int) -> None:
    """Answers and traps are never checked."""
    asked = [(method, presented, n) for n, method in enumerate((GET, SET, TRAP_REPRESS, ANSWER, TRAP))]
    assert wrong((KEY, protect, 0), asked) == [(n, (KEY, protect, 0)) for n in (1, 2, 3)]


@every("protect", range(4))
@every("method", [GET, SET, TRAP_REPRESS])
def test_right_key_or_none(protect: int, method: int) -> None:
    assert wrong((KEY, protect, 1), [(method, KEY, 0), (method, KEY, 9 * SECOND)]) == []
    assert wrong((0, protect, 1), [(method, WRONG, 0), (SET, WRONG, 9 * SECOND)]) == [], "a port without a key checks nothing"


def test_lease_runs_out() -> None:
    held = [one for _, one in wrong((KEY, 2, 15), [(GET, 0, 0), (GET, 0, 14 * SECOND), (GET, 0, 15 * SECOND)])]
    assert held == [(KEY, 2, 15), (KEY, 2, 15), (KEY, 0, 15)], "the protect bits fall to 0, the key stays"


def test_right_key_stops_the_lease() -> None:
    found = wrong((KEY, 2, 15), [(GET, 0, 0), (GET, KEY, 10 * SECOND), (GET, 0, 20 * SECOND)])
    assert found == [(1, (KEY, 2, 15)), (3, (KEY, 2, 15))]


def test_key_under_way_counts_as_right() -> None:
    """Until the answer says which of both it is; a port that restarted may hold any."""
    change = ask(5, PORT_INFO, method=SET, body=port_info(5, m_key=WRONG), m_key=KEY, header={"transaction_id": 77})
    done = answer(5, PORT_INFO, port_info(5, m_key=WRONG), header={"transaction_id": 77})
    restarted = answer(5, PORT_INFO, port_info(5, port_state=2))
    asked = [(GET, KEY, 0), (SET, WRONG, 1), (SET, KEY, 2)]
    assert wrong((KEY, 0, 0), asked, change) == []
    assert wrong((KEY, 0, 0), asked, change, done) == [(3, (WRONG, 0, 0))]
    assert wrong((KEY, 0, 0), asked, change, done, restarted) == []


@every(
    ("lease", "requests", "protect"),
    [
        (15, [0, 15 * SECOND - 1], 2), (15, [0, 15 * SECOND], 0), (15, [0, 8 * SECOND, 15 * SECOND], 0), (15, [7, 15 * SECOND + 6], 2),
        (0, [0, 99 * SECOND], 2),
        (1, [0, SECOND], 0), (1, [5, 5], 2),
    ],
)  # fmt: skip
def test_a_lease_runs_from_the_first_refusal(lease: int, requests: list[int], protect: int) -> None:
    assert wrong((KEY, 2, lease), [(GET, WRONG, at) for at in requests])[-1] == (len(requests), (KEY, protect, lease))


@every("protect", range(4))
@every(("method", "least"), [(GET, 2), (SET, 0), (TRAP_REPRESS, 0), (ANSWER, 9), (TRAP, 9)])
def test_only_a_refusal_starts_the_lease(protect: int, method: int, least: int) -> None:
    """A Get is refused if the protect bits forbid reading."""
    asked = [(method, WRONG, 5), (SET, WRONG, 9 * SECOND)]
    assert wrong((KEY, protect, 1), asked)[-1] == (2, (KEY, 0 if protect >= least else protect, 1))

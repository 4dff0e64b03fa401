"""The state of a direction is right after each packet."""

from __future__ import annotations

from typing import Any

import pytest

from ibdissect.engine import packet_fields, packet_kinds, requester_responder, waiting_packets
from tests.engine.plain import plain

MODULES = [
    (requester_responder, packet_fields, waiting_packets),
    (plain("requester_responder"), plain("packet_fields"), plain("waiting_packets")),
]
IDS = ["built", "interpreted"]


class Wire:
    """Feeds packets to a direction."""

    def __init__(self, modules: Any) -> None:
        self.halves, self.packets, self.paths = modules
        self.path = self.paths.Path(self.paths.Room())
        self.half = self.halves.Half(self.path)
        self.number = 0

    def packet(self, time: int, op: int, psn: int, **values: int) -> Any:
        self.number += 1
        p = self.packets.Packet()
        p.time, p.frame, p.op, p.psn, p.syndrome, p.msn, p.content = time, self.number, op, psn, -1, -1, psn
        p.first = p.last = True
        for name, value in values.items():
            setattr(p, name, value)
        return p

    def ask(self, time: int, psn: int, op: int = 4, **values: int) -> int:
        return int(self.half.request(self.packet(time, op, psn, size=values.pop("size", 64), **values)))

    def answer(self, time: int, psn: int, syndrome: int = 31, op: int = 17, **values: int) -> int:
        return int(self.half.answer(self.packet(time, op, psn, syndrome=syndrome, **values)))

    @property
    def state(self) -> int:
        return int(self.half.state)


@pytest.mark.parametrize("modules", MODULES, ids=IDS)
def test_states_of_clean_traffic(modules: Any) -> None:
    wire = Wire(modules)
    wire.ask(1000, 0xFFFFFF)
    assert wire.state == packet_kinds.BUSY
    wire.answer(3000, 0xFFFFFF)
    assert wire.state == packet_kinds.IDLE and wire.path.trip == 2000 and wire.path.largest == 64
    wire.ask(5000, 0, op=0, last=False)
    wire.answer(6000, 0)
    assert wire.state == packet_kinds.TRANSFERRING
    wire.ask(8000, 1, op=2, first=False)
    assert (wire.half.messages, wire.half.payload, wire.half.again, wire.half.idle, wire.half.transferring) == (2, 192, 0, 2000, 2000)


@pytest.mark.parametrize("modules", MODULES, ids=IDS)
def test_a_nak_asks_and_a_timer_does_not(modules: Any) -> None:
    wire = Wire(modules)
    for psn in (10, 11, 12):
        wire.ask(1000 + psn, psn)
    wire.answer(5000, 11, 0x60)
    assert wire.state == packet_kinds.RECOVERY and wire.half.una - 11 & 0xFFFFFF == 0
    wire.ask(9000, 11)
    wire.ask(9100, 12)
    assert (wire.half.again, wire.half.losses, wire.half.timeouts) == (2, 1, 0)
    wire.ask(20_000_000, 11)
    wire.ask(20_000_100, 12)
    assert (wire.half.again, wire.half.losses, wire.half.timeouts, wire.half.tries) == (4, 1, 1, 3)
    assert wire.half.timeout == 20_000_000 - 9100
    wire.answer(20_005_000, 12)
    assert wire.state == packet_kinds.IDLE


@pytest.mark.parametrize("modules", MODULES, ids=IDS)
def test_an_rnr_nak_waits_until_its_packet_comes_again(modules: Any) -> None:
    wire = Wire(modules)
    wire.ask(1000, 10)
    wire.ask(1100, 11)
    wire.answer(2000, 10, 0x20 | 14)  # 1.28 ms
    assert wire.state == packet_kinds.WAITING
    wire.ask(2100, 12)  # under way before the NAK came
    assert wire.state == packet_kinds.WAITING
    wire.ask(2000 + 640_000, 10)
    assert (
        wire.state == packet_kinds.BUSY and wire.half.hurried == 0 and (wire.half.losses, wire.half.timeouts, wire.half.rnrs) == (0, 0, 1)
    )
    wire.answer(800_000, 10, 0x20 | 14)
    wire.ask(800_000 + 639_999, 10)
    assert wire.half.hurried == 1
    for time in (1_500_000, 1_600_000):  # once it waits, NAKs may have been lost before
        wire.answer(time, 10, 0x20 | 14)
        wire.ask(time + 50_000, 10)
    assert wire.half.hurried == 3
    wire.answer(1_700_000, 10, 0x20 | 14)
    wire.ask(1_700_000 + 700_000, 10)
    assert wire.half.hurried == 1


@pytest.mark.parametrize("modules", MODULES, ids=IDS)
def test_a_read_takes_a_psn_for_each_response(modules: Any) -> None:
    wire = Wire(modules)
    wire.half.agreed_mtu = 1024
    wire.ask(1000, 10, op=12, dma=2049, has_reth=True, size=0)
    wire.ask(1100, 13)
    assert wire.half.again == 0 and not wire.half.holes
    for i, (op, size) in enumerate(((13, 1024), (14, 1024), (15, 1))):
        wire.answer(2000 + i, 10 + i, op=op, size=size)
    assert not wire.half.wrong_frame and wire.half.payload == 64 + 2049
    wire.ask(3000, 14, op=12, dma=100, has_reth=True, size=0)
    wire.answer(4000, 14, op=16, size=99)
    assert (wire.half.wrong_size, wire.half.wrong_wanted) == (99, 100)


@pytest.mark.parametrize("modules", MODULES, ids=IDS)
@pytest.mark.parametrize(("known", "mtu"), [(0, 256), (0, 4096), (4096, 1024), (1024, 4096)])
def test_each_connection_of_a_path_has_its_own_mtu(modules: Any, known: int, mtu: int) -> None:
    """Nothing is sent again, and nothing is missing, although responses between the same hosts have another size."""
    wire = Wire(modules)
    wire.path.mtu = known
    psn = 10
    for i in range(4):
        wire.ask(1000 + i, psn, op=12, dma=8192, has_reth=True, size=0)
        psn += 8192 // mtu
    wire.ask(2000, psn)
    assert (wire.half.again, wire.half.holes, wire.half.front & 0xFFFFFF) == (0, [], psn + 1)


RESPONSES = {
    "in full": ((13, 1024), (14, 1024), (15, 952)), "longer": ((13, 1024), (14, 1024), (15, 953)), "no end": ((13, 1500), (14, 1500)),
    "later part first": ((14, 1024), (13, 1024), (15, 952)), "short, with a hole": ((13, 1024), (), (15, 900)),
}  # fmt: skip
WRONG = {"in full": None, "longer": 3001, "no end": 3000, "later part first": -1, "short, with a hole": None}


@pytest.mark.parametrize("modules", MODULES, ids=IDS)
@pytest.mark.parametrize("name", WRONG)
def test_responses_make_what_a_read_asked_for(modules: Any, name: str) -> None:
    wire = Wire(modules)
    wire.ask(1000, 9)
    wire.ask(1100, 10, op=12, dma=3000, has_reth=True, size=0)
    for i, part in enumerate(RESPONSES[name]):
        if part:
            wire.answer(2000 + i, 10 + i, op=part[0], size=part[1])
    assert (wire.half.wrong_size if wire.half.wrong_frame else None) == WRONG[name]


@pytest.mark.parametrize("modules", MODULES, ids=IDS)
def test_a_read_of_which_a_part_is_asked_again_is_not_judged(modules: Any) -> None:
    """The requester asks for the rest of a READ that it asked for before the capture began; responses to both may come."""
    wire = Wire(modules)
    wire.ask(1000, 12, op=12, dma=952, has_reth=True, size=0)
    wire.answer(2000, 12, op=15, size=952)
    assert not wire.half.wrong_frame  # perhaps of the READ before
    wire.ask(2500, 13)
    for psn, dma in ((14, 3000), (15, 1976)):
        wire.ask(3000 + psn, psn, op=12, dma=dma, has_reth=True, size=0)
    for i, (op, size) in enumerate(((13, 1024), (13, 1024), (15, 900))):
        wire.answer(4000 + i, 14 + i, op=op, size=size)
    assert not wire.half.wrong_frame


@pytest.mark.parametrize("modules", MODULES, ids=IDS)
def test_a_read_of_unknown_length_ends_where_the_next_request_begins(modules: Any) -> None:
    wire = Wire(modules)
    wire.ask(1000, 10, op=12, size=0)
    wire.ask(1100, 15)
    assert not wire.half.holes and wire.half.again == 0
    wire.ask(1200, 16, op=12, dma=8192, has_reth=True, size=0)
    wire.ask(1300, 18)  # two responses of 4096 bytes
    assert not wire.half.holes and wire.half.again == 0


@pytest.mark.parametrize("modules", MODULES, ids=IDS)
def test_a_late_packet_is_no_repetition(modules: Any) -> None:
    wire = Wire(modules)
    for psn in (10, 12, 11, 13):
        wire.ask(1000 + psn, psn)
    assert wire.half.again == 0 and not wire.half.holes
    wire.answer(5000, 11, 0x60)
    wire.ask(9000, 11)
    assert (wire.half.again, wire.half.reorder_proof, wire.half.loss_proof) == (1, 2, 0)


@pytest.mark.parametrize("modules", MODULES, ids=IDS)
def test_what_waits_is_bounded(modules: Any) -> None:
    wire = Wire(modules)
    for i in range(packet_kinds.MAX_WAITING + 3):
        wire.ask(1000 + i, i)
    assert wire.half.open.count == packet_kinds.MAX_WAITING and wire.half.open.first()[0] == 1 << 24


@pytest.mark.parametrize(
    "seeds", [range(30, 45), pytest.param([*range(30), *range(45, 60)], marks=pytest.mark.slow)], ids=["some", "others"]
)
def test_compiled_and_interpreted_agree_on_random_packets(seeds: range) -> None:
    import random

    values = (
        "una",
        "front",
        "again",
        "messages",
        "payload",
        "losses",
        "timeouts",
        "rnrs",
        "transferring",
        "idle",
        "timeout",
        "tries",
    )
    for seed in seeds:
        both = [Wire(modules) for modules in MODULES]
        for wire in both:
            r = random.Random(seed)
            time, psn = 0, r.randrange(1 << 24)
            for _ in range(200):
                time += r.choice((100, 2000, 50_000, 30_000_000))
                at = psn + r.randrange(-6, 4) & 0xFFFFFF
                if r.random() < 0.6:
                    op = r.choice((0, 1, 2, 4, 12, 20))
                    wire.ask(
                        time,
                        at,
                        op=op,
                        dma=r.choice((0, 100, 9000)),
                        has_reth=op == 12,
                        size=r.choice((0, 64, 1024)),
                    )
                    psn += r.random() < 0.5
                else:
                    kind = r.choice((31, 31, 0x60, 0x61, 0x2C, -1))
                    wire.answer(time, at, kind, op=r.choice((17, 17, 13, 14, 15, 16, 18)), size=r.choice((0, 512, 1024)))
        assert [getattr(both[0].half, name) for name in values] == [getattr(both[1].half, name) for name in values]
        assert both[0].half.gaps.classes() == both[1].half.gaps.classes()
        assert both[0].half.gaps.long_sum == both[1].half.gaps.long_sum
        assert both[0].half.episodes == both[1].half.episodes


@pytest.mark.parametrize("modules", MODULES, ids=IDS)
def test_clocks_that_jump_make_no_sum_overflow(modules: Any) -> None:
    wire = Wire(modules)
    for i in range(20):
        wire.answer(1 + i % 2 * (1 << 62), 100 + i)
    half = wire.half
    assert half.idle == 10 << 53 and half.pauses == 10


@pytest.mark.parametrize("modules", MODULES, ids=IDS)
def test_a_read_without_its_reth_ends_with_its_last_response(modules: Any) -> None:
    """However long it is: its responses count, and nothing is missing. The next request may say where it ends, too."""
    for known in (False, True):
        wire = Wire(modules)
        wire.ask(1000, 10, op=12, size=0, has_reth=known, dma=2500 if known else 0)
        if known:
            wire.half.mtu = 1024  # the RETH is there
        for i, (op, size) in enumerate(((13, 1024), (14, 1024), (15, 452))):
            assert wire.state == packet_kinds.BUSY
            wire.answer(5000 + i, 10 + i, op=op, size=size)
        assert wire.state == packet_kinds.IDLE and wire.half.front == wire.half.una == (1 << 24) + 13
        wire.ask(9000, 13, op=12, size=0)
        wire.ask(9100, 16)
        wire.answer(9500, 13, op=13, size=1024)
        wire.answer(9600, 15, op=15, size=1)
        wire.answer(9700, 16)
        assert (wire.half.losses, wire.half.again, wire.half.wrong_frame) == (0, 0, 0)
        assert wire.half.payload == 2500 + 64 + 1025 and wire.half.una == wire.half.front


@pytest.mark.parametrize("modules", MODULES, ids=IDS)
def test_one_response_says_where_a_read_ends_if_the_mtu_is_not_known(modules: Any) -> None:
    wire = Wire(modules)
    wire.ask(1000, 10, op=12, size=0, has_reth=True, dma=2000)
    wire.answer(5000, 10, op=16, size=2000)
    assert wire.state == packet_kinds.IDLE and wire.half.open.count == 0 and wire.path.trip == 4000
    wire.ask(9000, 11)
    assert wire.half.holes == [] and wire.half.again == 0


@pytest.mark.parametrize("modules", MODULES, ids=IDS)
def test_an_answer_that_is_cut_off_is_neither_ack_nor_nak(modules: Any) -> None:
    wire = Wire(modules)
    for psn in (10, 11):
        wire.ask(1000 + psn, psn)
    wire.answer(5000, 11, syndrome=-1)
    assert (wire.half.unread, wire.half.naks, wire.half.una & 0xFFFFFF) == (1, 0, 11)


@pytest.mark.parametrize("modules", MODULES, ids=IDS)
def test_lists_share_their_room(modules: Any) -> None:
    """What they hold is taken from it and given back; without room, an entry goes for each that comes, and that is counted."""
    wire = Wire(modules)
    room = wire.path.room
    whole = room.entries
    for psn in (10, 20, 30):
        wire.ask(1000 * psn, psn)
    assert whole - room.entries == len(wire.half.holes) == 2
    wire.ask(40_000, 31, op=12, size=0, has_reth=True, dma=100)
    assert whole - room.entries == 2 and wire.half.reads.count == 1
    wire.answer(50_000, 31, op=16, size=100)
    assert wire.half.holes == [] and whole - room.entries == wire.half.gaps.count
    room.entries = 0
    wire.ask(60_000, 40)
    assert wire.half.holes == [] and wire.half.forgotten == 1 and room.entries == 0
    wire.half.reads, room.waiting = wire.paths.Waits(), 0
    wire.ask(61_000, 41, op=12, size=0, has_reth=True, dma=100)
    assert wire.half.reads.count == 0 and wire.half.forgotten == 2


@pytest.mark.parametrize("modules", MODULES, ids=IDS)
@pytest.mark.parametrize(("waited", "timeouts"), [(999_999, 0), (1_000_000, 1)])
def test_who_waits_for_the_timer_was_not_asked(modules: Any, waited: int, timeouts: int) -> None:
    wire = Wire(modules)
    wire.half.timer = 1_000_000
    wire.ask(1000, 10)
    wire.ask(1000 + waited, 10)
    assert (wire.half.timeouts, wire.half.losses) == (timeouts, 1 - timeouts)


@pytest.mark.parametrize("modules", MODULES, ids=IDS)
def test_what_was_acknowledged_is_no_try(modules: Any) -> None:
    wire = Wire(modules)
    wire.ask(1000, 10)
    wire.ask(1100, 11)
    wire.answer(2000, 10)
    wire.ask(9_000_000, 10)
    assert (wire.half.again, wire.half.last_try) == (1, 0)
    wire.ask(9_000_100, 11)
    assert (wire.half.again, wire.half.last_try) == (2, wire.number)


@pytest.mark.parametrize("modules", MODULES, ids=IDS)
@pytest.mark.parametrize(("msn", "same"), [(5, 1), (6, 0)])
def test_an_ack_is_the_same_with_its_psn_and_msn(modules: Any, msn: int, same: int) -> None:
    wire = Wire(modules)
    wire.ask(1000, 10)
    wire.ask(1100, 11)
    wire.answer(2000, 10, msn=5)
    wire.answer(9000, 10, msn=msn)
    assert wire.half.same_acks == same


@pytest.mark.parametrize("modules", MODULES, ids=IDS)
def test_the_eight_latest_late_packets_and_so_many_reads_are_kept(modules: Any) -> None:
    wire = Wire(modules)
    wire.ask(1000, 10)
    wire.ask(1100, 20)
    for psn in range(11, 20):
        wire.ask(1200 + psn, psn)
    assert [pos & 0xFFFFFF for pos in wire.half.late] == [*range(12, 20)]
    for i in range(8 * packet_kinds.RING + 1):
        wire.ask(2000 + i, 21 + i, op=12, dma=8, has_reth=True, size=0)
    assert wire.half.reads.count == 8 * packet_kinds.RING


@pytest.mark.parametrize("modules", MODULES, ids=IDS)
@pytest.mark.parametrize(("later", "groups"), [(packet_kinds.GROUP_NS, 1), (packet_kinds.GROUP_NS + 1, 2)])
def test_marks_that_follow_each_other_are_one_group(modules: Any, later: int, groups: int) -> None:
    wire = Wire(modules)
    wire.ask(1000, 10, marked=1)
    wire.ask(1000 + later, 11, marked=1)
    assert (wire.half.marks, wire.half.mark_groups) == (2, groups)


@pytest.mark.parametrize("modules", MODULES, ids=IDS)
@pytest.mark.parametrize(("far", "again"), [(0x7FFFFF, 0), (0x800000, 1)])
def test_a_psn_is_the_nearest_one(modules: Any, far: int, again: int) -> None:
    wire = Wire(modules)
    wire.ask(1000, 10)
    wire.ask(90_000_000, 11 + far)
    assert wire.half.again == again


@pytest.mark.parametrize("modules", MODULES, ids=IDS)
@pytest.mark.parametrize("sizes", [(512, 64, 32), (64, 512, 32), (64, 32, 512)])
def test_one_ack_tells_of_the_largest_packet_before_it(modules: Any, sizes: tuple[int, ...]) -> None:
    wire = Wire(modules)
    for i, size in enumerate(sizes):
        wire.ask(1000 + i, 10 + i, size=size)
    wire.answer(5000, 12)
    assert (wire.half.largest, wire.path.largest) == (512, 512)


@pytest.mark.parametrize("modules", MODULES, ids=IDS)
@pytest.mark.parametrize(("before", "wrong"), [((9,), True), ((), False), ((8,), False)])
def test_a_first_response_later_is_wrong_only_of_a_read_that_followed_the_request_before_it(
    modules: Any, before: tuple[int, ...], wrong: bool
) -> None:
    """Otherwise a request that was not captured may have been answered in between."""
    wire = Wire(modules)
    for psn in before:
        wire.ask(1000, psn)
    wire.ask(1100, 10, op=12, dma=3000, has_reth=True, size=0)
    for i, op in enumerate((13, 13)):
        wire.answer(2000 + i, 10 + i, op=op, size=1024)
    assert (wire.half.wrong_size if wire.half.wrong_frame else None) == (-2 if wrong else None)


@pytest.mark.parametrize("modules", MODULES, ids=IDS)
def test_a_path_knows_when_packets_passed_where_the_clock_starts_at_zero(modules: Any) -> None:
    """As that of a simulator does: the first packet is the first one that passed, whenever it was sent."""
    wire, second = Wire(modules), packet_kinds.APART_NS
    for psn, time in enumerate((second // 2, second // 2 + 10, 2 * second)):
        wire.ask(time, psn)
        wire.answer(time + 5, psn)
    assert [wire.path.passed_around(time) for time in (0, second // 2 + 5, second, 3 * second)] == [
        (0, second // 2), (second // 2 + 5, second // 2 + 5), (second // 2 + 10, 2 * second), (2 * second, 0),
    ]  # fmt: skip

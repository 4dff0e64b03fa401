"""The queue pairs of SMC-R are learnt from its handshake, and from nothing that only looks like one."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

import ibdissect
from ibdissect.wire.ulp import smc, smc_llc
from tests.craft import build, ethernet_pcap, roce2
from tests.smc import ACCEPT, CLIENT, CONFIRM, KINDS, PROPOSAL, SERVER, SERVER_QP, clc, frames, gid_of, message, segment


def shown(tmp_path: Path, some: Iterable[bytes]) -> dict[int, set[str]]:
    """The structures of SMC in each frame."""
    path, found = tmp_path / "made.pcap", dict[int, set[str]]()
    path.write_bytes(ethernet_pcap(some))
    with ibdissect.open(str(path)) as capture:
        for table in capture.tables():
            for struct in (*vars(smc).values(), *vars(smc_llc).values()):
                if isinstance(struct, type) and struct.__module__ in (smc.__name__, smc_llc.__name__):
                    for row in table.occurrences(struct).rows.tolist():
                        found.setdefault(table.chunk.first + row, set()).add(struct.title)
    return found


def test_messages_are_known_by_the_handshake(tmp_path: Path) -> None:
    found = shown(tmp_path, frames())
    assert [found[frame] for frame in (1, 2, 3, 13)] == [
        {"SMC handshake", *more} for more in (("SMC Proposal", "IP Area"), ("SMC Accept",), ("SMC Confirm",), ("SMC Decline",))
    ]
    kinds = [next(name for name in found[frame] if name.startswith("SMC-R ")) for frame in range(4, 13)]
    assert len(set(kinds)) == len(KINDS)


def test_nothing_is_guessed_without_the_handshake(tmp_path: Path) -> None:
    of_smc_d = clc(2, ACCEPT[8:-4], word=smc.SMC_D, end=smc.SMC_D)
    for before in (b"", PROPOSAL, ACCEPT[:-1] + b"\0", ACCEPT[:-4], of_smc_d, b"x" + ACCEPT):
        assert 2 not in shown(tmp_path, [segment(before, answer=True), message(7, b"")])
    assert 2 in shown(tmp_path, [segment(ACCEPT, answer=True), message(7, b"")])


def test_only_that_queue_pair_of_that_port_from_then_on(tmp_path: Path) -> None:
    test_link, payload = message(7, b""), bytes([7, 44]) + bytes(42)
    near = {"source": CLIENT, "destination": SERVER}
    others = [
        roce2(0x04, payload, bth={"destqp": SERVER_QP}, ip=near | {"destination": bytes([10, 0, 0, 9])}),
        roce2(0x04, payload, bth={"destqp": 0x777}, ip=near),
        roce2(0x04, payload[:40], bth={"destqp": SERVER_QP}, ip=near),
        message(0x55, b""),
    ]
    found = shown(tmp_path, [test_link, segment(ACCEPT, answer=True), test_link, *others])
    assert set(found) == {2, 3} and found[3] == {"SMC-R Test Link"}


@pytest.mark.parametrize("cut", range(0, 68, 5))
def test_a_cut_handshake_teaches_nothing(tmp_path: Path, cut: int) -> None:
    assert 2 not in shown(tmp_path, [segment(CONFIRM)[: 54 + cut], message(7, b"", answer=True)])


def test_links_that_are_added_are_followed(tmp_path: Path) -> None:
    """On the queue pair of the handshake the server names another, and on that one a third."""
    port = gid_of(SERVER)

    def link(pair: int, **said: int) -> bytes:
        return build("SMCAddLink", type=2, length=44, gid=port, qpn=pair, link=2, **said)[2:]

    def to(pair: int) -> bytes:
        return roce2(0x04, bytes([7, 44]) + bytes(42), bth={"destqp": pair}, ip={"source": CLIENT, "destination": SERVER})

    start = [segment(CONFIRM), to(0x456), message(2, link(0x456), answer=True), to(0x456)]
    assert set(shown(tmp_path, start)) == {1, 3, 4}
    again = roce2(0x04, bytes([2, 44]) + link(0x789), bth={"destqp": 0x456}, ip={"source": CLIENT, "destination": SERVER})
    assert set(shown(tmp_path, [*start, again, to(0x789)])) == {1, 3, 4, 5, 6}
    assert set(shown(tmp_path, [segment(CONFIRM), message(2, link(0x456, flags=0xC0), answer=True), to(0x456)])) == {1, 2}, "rejected"
    assert set(shown(tmp_path, [message(2, link(0x456), answer=True), to(0x456)])) == set()

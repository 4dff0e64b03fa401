"""Packets of one network: those of one tap per direction, but not those of VLANs and interfaces with the same addresses."""

from __future__ import annotations

import io

import numpy as np
import pytest
from msgspec.structs import replace

from ibdissect.capture import records
from ibdissect.capture.opening import open_capture
from ibdissect.decode import ChunkTable
from ibdissect.decode.addresses import End, ends_of
from ibdissect.decode.networks import Networks
from ibdissect.transport.congestion import Congestion
from tests import craft, tunnels
from tests.cases import few
from tests.craft import interfaces_pcapng

ASK, ANSWER = craft.gmp(4, 1, 0x12, slid=1, dlid=2), craft.gmp(4, 0x81, 0x12, slid=2, dlid=1)


def numbers(capture: bytes) -> list[int]:
    """The network of each packet, numbered by appearance."""
    networks, found = Networks(), list[int]()
    for chunk in open_capture(io.BytesIO(capture)).chunks():
        told = networks.tell_apart(ChunkTable(chunk))
        found += told.tolist() if told is not None else [0] * len(chunk)
    order = [*dict.fromkeys(found)]
    return [order.index(one) for one in found]


@few("rows", [1, 2, records.ROWS], fast=(1, 2))
def test_interfaces(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "ROWS", rows)
    assert numbers(interfaces_pcapng([(0, ASK), (0, ANSWER), (1, ASK), (1, ANSWER)])) == [0, 0, 1, 1]
    for one, other in ((0, 1), (1, 0)):  # each taps one direction
        assert numbers(interfaces_pcapng([(one, ASK), (other, ANSWER), (one, ASK), (other, ANSWER)])) == [0] * 4
    assert numbers(interfaces_pcapng([(0, ASK), (1, ANSWER), (0, ANSWER), (1, ASK), (1, ANSWER)]))[3:] == [1, 1]  # until each shows both


@pytest.mark.parametrize("rows", [1, records.ROWS])
def test_directed_routes_have_no_addresses(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "ROWS", rows)
    ask, answer = craft.smp(1, 0x11, path=[1]), craft.smp(0x81, 0x11, path=[1])
    assert numbers(interfaces_pcapng([(0, ask), (1, answer)])) == [0, 0]
    assert numbers(interfaces_pcapng([(0, ask), (0, answer), (1, ask), (1, answer)])) == [0, 0, 1, 1]


@pytest.mark.parametrize("rows", [1, records.ROWS])
def test_vlans_and_virtual_networks(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "ROWS", rows)
    there = craft.roce2(payload=b"1234")
    tagged = [there[:12] + bytes([0x81, 0, priority << 5, vlan]) + there[12:] for priority, vlan in ((3, 7), (5, 7), (3, 8), (3, 0))]
    assert numbers(craft.ethernet_pcap([there, *tagged])) == [0, 1, 1, 2, 0]  # a tag without a VLAN only says the priority
    inside = tunnels.wrapped("VXLAN", there)[0]
    other = bytearray(inside)
    at = inside.index(tunnels.vni(tunnels.VNI))
    other[at : at + 4] = tunnels.vni(tunnels.VNI + 1)
    assert numbers(craft.ethernet_pcap([there, inside, bytes(other), inside])) == [0, 1, 2, 1]


@pytest.mark.parametrize(("bound", "second"), [(1, 1), (2, 0)])
@pytest.mark.parametrize("rows", [1, records.ROWS])
def test_pairs_beyond_the_bound_prove_nothing(rows: int, bound: int, second: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "ROWS", rows)
    monkeypatch.setattr("ibdissect.decode.networks.MAX_PAIRS", bound)
    assert numbers(interfaces_pcapng([(0, craft.gmp(4, 1, 0x12, slid=7, dlid=8)), (0, ASK), (1, ANSWER)])) == [0, 0, second]


def test_ports_of_a_card_are_networks_of_a_native_capture() -> None:
    """An ERF record names the port; the file describes no interfaces."""
    (chunk,) = open_capture(io.BytesIO(craft.erf_pcap([ASK, ANSWER] * 2))).chunks()
    assert chunk.interfaces is None and Networks().tell_apart(ChunkTable(chunk)) is None
    found = Networks().tell_apart(ChunkTable(replace(chunk, interface=np.array([0, 0, 1, 1], np.uint16))))
    assert found is not None and (found > 0).tolist() == [False, False, True, True]


def test_one_network_costs_nothing() -> None:
    for capture in (craft.erf_pcap([ASK, ANSWER]), craft.ethernet_pcap([craft.roce2(payload=b"1234")] * 2)):
        (chunk,) = open_capture(io.BytesIO(capture)).chunks()
        table = ChunkTable(chunk)
        assert Networks().tell_apart(table) is None and table.networks is None


def test_equal_addresses_of_two_networks_are_two_ends() -> None:
    networks, ends = Networks(), list[tuple[End, End]]()
    for chunk in open_capture(io.BytesIO(interfaces_pcapng([(0, ASK), (1, ASK), (0, ANSWER), (1, ANSWER), (0, ASK)]))).chunks():
        table, rows = ChunkTable(chunk), np.arange(len(chunk))
        networks.tell_apart(table)
        ends += ends_of(table, rows)
    (near, far), (other, _), back, *_ = ends
    assert back == (far, near)
    assert near != other and (near.lid, other.lid, far.lid) == (1, 1, 2) and str(near) == str(other) == "LID 1"
    assert near.network == 0 != other.network and near.address == other.address == bytes([0, 1])
    assert End().address == b""


def test_marks_in_two_networks_are_those_of_two_pairs() -> None:
    marked = craft.roce2(payload=b"1234", ip={"ecn": 3})
    tagged = [marked[:12] + bytes([0x81, 0, 0, vlan]) + marked[12:] for vlan in (7, 8)]
    (chunk,) = open_capture(io.BytesIO(craft.ethernet_pcap([marked, *tagged, tagged[0]]))).chunks()
    table, congestion = ChunkTable(chunk), Congestion()
    Networks().tell_apart(table)
    congestion.feed(table)
    assert sorted(pair.ce for pair in congestion.pairs.values()) == [1, 1, 2]

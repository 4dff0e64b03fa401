"""Sweeps are found, with what each port was asked and set, in which order, how fast and how often."""

from __future__ import annotations

from pathlib import Path
from typing import Any  # sweeps

import pytest

from ibdissect.pipeline.check import CheckOptions
from ibdissect.screen_model import sweeps
from ibdissect.screen_model.background_analysis import BackgroundAnalysis
from ibdissect.screen_model.capture_model import CaptureModel
from ibdissect.screen_model.sweeps import find_sweeps, frames_filter
from tests import craft
from tests.screen_model.made import opened, selected
from tests.subnet.made import ANSWER, GET, SET, node, port_info, switch

MS = 1_000_000
START = 1_700_000_000_000_000_000
NODE_INFO, PORT_INFO = 0x11, 0x15


def asked(tid: int, attribute: int, body: bytes, *path: int, modifier: int = 0, method: int = GET) -> tuple[bytes, bytes]:
    """A request along a route, and its answer."""
    request, answer = (
        craft.smp(how, attribute, data, path=list(path), modifier=modifier, header={"transaction_id": tid})
        for how, data in ((method, body if method == SET else bytes(64)), (ANSWER, body))
    )
    return request, answer


def found(path: Path) -> tuple[CaptureModel, Any]:
    model = opened(path)
    study = BackgroundAnalysis(model, lambda: CheckOptions(rules=[]))
    study.run(lambda: study.close() if study.finished else None)
    return model, find_sweeps(study)


def two_sweeps(folder: Path) -> Path:
    """A sweep of three nodes, of which one answers the second try; seconds later one of two nodes, of which one does not answer."""
    own, own_answer = asked(1, NODE_INFO, node(1))
    middle, middle_answer = asked(2, NODE_INFO, switch(2, 4, local_port_num=1), 1)
    far, far_answer = asked(3, NODE_INFO, node(5), 1, 3)
    port, port_answer = asked(4, PORT_INFO, port_info(5), 1, 3, modifier=1, method=SET)
    again, again_answer = asked(5, NODE_INFO, node(1))
    lost, _ = asked(6, NODE_INFO, node(5), 1, 3)
    frames = [own, own_answer, middle, middle_answer, far, far, far_answer, port, port_answer, again, again_answer, lost]
    times = [0, 1, 2, 4, 5, 205, 206, 210, 211, 9000, 9001, 9002]
    path = folder / "sweeps.pcapng"
    path.write_bytes(craft.interfaces_pcapng([(0, frame) for frame in frames], times=[START + time * MS for time in times]))
    return path


def test_two_sweeps(tmp_path: Path) -> None:
    model, sweeps = found(two_sweeps(tmp_path))
    first, second = sweeps.all
    assert (first.requests, len(first.ports), second.requests, sweeps.left_out) == (4, 4, 2, 0)
    slow = first.ports[0]
    assert slow.retries == 1 and slow.slowest_ns == 201 * MS and slow.frames == [5, 6, 7] and slow.order == 3
    port = next(one for one in first.ports if one.sets)
    assert (port.node, port.port, port.story, port.slowest_ns) == (slow.node, 1, "Set PortInfo", MS)
    assert [one.order for one in first.ports] == [3, 2, 1, 4], "the slowest first, equal ones in order"
    silent = second.ports[0]
    assert silent.unanswered == 1 and silent.node == slow.node and silent.slowest_ns == -1 and silent.frames == [12]
    assert selected(model, frames_filter(slow.frames)) == [5, 6, 7] and frames_filter([9, 1, 2, 3]) == "frame.number in {1 .. 3, 9}"
    model.close()


def test_further_requests_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeps, "MAX_ASKED", 2)
    model, some = found(two_sweeps(tmp_path))
    assert sum(one.requests for one in some.all) == 2 and some.left_out == 4
    model.close()


def test_a_recorded_sweep(repo: Path) -> None:
    model, sweeps = found(repo / "captures/opensm-first-sweep.pcap")
    (one,) = sweeps.all
    assert one.manager == "Switch1" and one.requests == 47
    host = next(port for port in one.ports if port.node == "Hca1" and port.port)
    assert host.story == "PortInfo, 2× P_KeyTable, 4× Set PortInfo" and (host.asked, host.sets) == (3, 4)
    assert [port.slowest_ns for port in one.ports] == sorted((port.slowest_ns for port in one.ports), reverse=True)
    model.close()

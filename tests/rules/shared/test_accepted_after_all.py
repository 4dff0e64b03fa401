"""Of more pairs of hosts than are remembered nobody knows whether what they send was accepted."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from tests.craft import ethernet_pcap, roce2
from tests.rules.findings import rules
from tests.rules.test_rules import lint

PLACES = ("shared.accepted_after_all", "ROC.roce_headers", "ROC.source_addresses", "RC.acks_and_operands")


def packet(host: int, opcode: int = 0x04, source: int = 2, ip: dict[str, Any] | None = None, **more: Any) -> bytes:
    """What a host sends to one in a far network, from a MAC address of its own."""
    ends = {"source": bytes([10, 0, 0, host]), "destination": bytes([192, 168, 0, host])}
    return bytes([2, 0, 0, 0, 1, host, source, 0, 0, 0, 0, host]) + roce2(opcode, b"data", ip={**ends, **(ip or {})}, **more)[12:]


MADE: dict[str, dict[str, Any]] = {
    "RC018": {"opcode": 0x0A, "ext": {"RETH": {"dmalen": 4}}},
    "ROC010": {"ip": {"ttl": 1}},
    "ROC012": {"bth": {"p_key": 0x8001}},
    "ROC013": {"ip": {"more_fragments": 1, "dont_fragment": 0}},
    "ROC017": {"source": 3},
}


@pytest.mark.parametrize(("code", "kept"), [("RC018", [1]), ("ROC010", []), ("ROC012", []), ("ROC013", [1]), ("ROC017", [1])])
def test_what_is_not_remembered_is_unknown(code: str, kept: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    capture = ethernet_pcap([packet(host, **MADE[code]) for host in (1, 2)])

    def found() -> list[int]:
        return [one.frame for one in lint(capture, rules=[rules()[code]])]

    assert found() == [1, 2]
    for place in PLACES:
        monkeypatch.setattr(importlib.import_module(f"ibdissect.rules.{place}"), "MAX_PAIRS", 1)
    assert found() == kept

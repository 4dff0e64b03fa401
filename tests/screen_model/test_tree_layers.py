"""A frame opens at the layer that matters, and at the field that proves a finding."""

from __future__ import annotations

from pathlib import Path

from ibdissect.lint.finding import Finding, Related, Severity
from ibdissect.screen_model.tree_layers import closed_layers, proof_node, proof_text
from tests.screen_model import made
from tests.screen_model.made import opened, written
from tests.subnet.made import ask


def finding(field: str, value: int) -> Finding:
    return Finding(code="PKY003", name="x", severity=Severity.ERROR, frame=3, time_ns=0, template="", field=field, value=value)


def test_what_matters(tmp_path: Path) -> None:
    model = opened(made.capture(tmp_path))
    table, data = model.tree(2), model.tree(3)
    assert {"BTH", "DETH", "MAD"} <= closed_layers(table) and "PKeyTable" not in closed_layers(table)
    assert "BTH" not in closed_layers(data) and "LRH" in closed_layers(data)
    model.close()
    model = opened(written(tmp_path, ask(5, 0x11)))
    closed = closed_layers(model.tree(1))
    assert "MAD" in closed and not {"SMP", "SMPDirected"} & closed, "a request has no attribute"
    model.close()


def test_the_field_that_proves(tmp_path: Path) -> None:
    model = opened(made.capture(tmp_path))
    table, data = model.tree(2), model.tree(3)
    same = proof_node(data, finding("infiniband.bth.p_key", 0x9999))
    assert same is not None and same.name == "infiniband.bth.p_key"
    entry = proof_node(table, finding("infiniband.bth.x", 0x1234))
    assert entry is not None and entry.value == 0x1234
    assert proof_text(table, finding("infiniband.bth.x", 0x1234)) == "P_KeyTable P_Key: 0x1234"
    first = proof_node(table, finding("infiniband.bth.x", 0x77))
    assert first is not None and first.value == 0xFFFF
    assert proof_text(table, finding("infiniband.bth.x", 0x77)) == "P_KeyTable P_Key: 0xffff, 0x1234"
    assert proof_text(data, finding("infiniband.bth.p_key", 0x9999)) == ""
    model.close()


def test_the_field_that_a_proof_is_said_to_show(repo: Path) -> None:
    """By what the proof says of the frame, or by what the finding's field means; else what the frame says first."""
    model = opened(repo / "captures/pkey-lab-full.pcap")
    one = finding("infiniband.bth.p_key", 0x8999)
    for frame, why, expected in (
        (45, "learnt later: the destination's LID; never contradicted in this capture", "PortInfo LID: 6"),
        (45, "its MasterSMLID", "PortInfo MasterSMLID: 1"), (45, "showed the port's M_Key", "PortInfo M_Key: 0x0000000000000000"),
        (47, "showed the destination's P_Key table", "P_KeyTable P_Key: 0x0000"),
        (91, "REQ of the connection", "REQ Partition Key: 0x8123"),
        (69, "showed the switch port's PartitionEnforcementOutbound", "PortInfo PartitionEnforcementOutbound: True"),
        (119, "the group's record", "MCMemberRecord P_Key: 0x8123"), (45, "port 1 of it", "PortInfo: MasterSMLID 1, LocalPortNum 1"),
        (45, "its answer", "PortInfo: GidPrefix 0xfe80000000000000, LID 6, "),
    ):  # fmt: skip
        one.related = (Related(1, "MasterSMLID"), Related(frame, why))
        tree = model.tree(frame)
        assert proof_text(tree, one).startswith(expected), why
        node = proof_node(tree, one)
        assert node is not None and ("," in expected or f"{node.label}: {node.text}".startswith(expected.partition(" ")[2])), why
    model.close()

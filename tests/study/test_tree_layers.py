"""Does a frame open at the layer that matters, and at the field that proves a finding?"""

from __future__ import annotations

from pathlib import Path

from ibdissect.lint.finding import Finding, Severity
from ibdissect.study.tree_layers import closed_layers, proof_node, proof_text
from tests.fabric.made import ask
from tests.study import made
from tests.study.made import opened, written


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

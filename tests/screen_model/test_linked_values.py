"""The values that a line names are found, each with a filter that is valid and shows its frames."""

from __future__ import annotations

from ibdissect.dfilter.compile import compile_filter
from ibdissect.screen_model.linked_values import links
from ibdissect.subnet.node_names import NodeNames
from tests.cases import every

NAMES = NodeNames({7: 'host"07', 0xAB07: "leaf"}, {3: 'host"07 port 1'}, {0xAB08: "leaf port 2"}, {3: 'host"07'})


@every(
    ("text", "found"),
    [
        ('frame 47: host"07 port 1 → LID 9', ["frame 47", 'host"07 port 1', "LID 9"]),
        ("QP 0x12 and QP 18, 0x000012 of 10.0.0.1, P_Key 0x8001", ["QP 0x000012", "10.0.0.1", "P_Key 0x8001"]),
        ("leaf port 2 leaf port 2 leafless, xleaf, leaf-2", ["leaf port 2"]),
        ("0x000000000000ab07 fe80::1", ["0x000000000000ab07 (leaf)", "fe80::1"]),
        ("12:30:45.5 LID 70000 QP 0xfffffff 999.1.1.1 0x0000000000000009", []), ("", []),
        (" ".join(f"LID {lid}" for lid in range(1, 99)), [f"LID {lid}" for lid in range(1, 25)]),
    ],
)  # fmt: skip
def test_values(text: str, found: list[str]) -> None:
    shown = links(text, NAMES)
    assert [link.what for link in shown] == found
    for link in shown:
        assert bool(link.filter) != bool(link.frame)
        assert not link.filter or compile_filter(link.filter) is not None
    assert all(not link.filter.startswith("ibdissect") for link in links(text, None))

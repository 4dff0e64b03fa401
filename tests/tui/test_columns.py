"""Do columns of plugins stand in front of the info, each once?"""

from __future__ import annotations

from ibdissect.tui.columns import COLUMNS, with_fields


def test_columns_of_plugins() -> None:
    shown = with_fields(COLUMNS, ("acme.stream.tag", "acme.stream.left"))
    assert [column.key for column in shown[-3:]] == ["acme.stream.tag", "acme.stream.left", "info"]
    assert with_fields(shown, ("acme.stream.tag",)) == shown

"""Changes of names are noticed."""

from __future__ import annotations

from pathlib import Path

from ibdissect.pipeline.check import CheckOptions
from tests.screen_model import made
from tests.screen_model.made import opened, studied


def test_a_name_that_comes_later_is_used(tmp_path: Path) -> None:
    """Frame 1 shows the node, frame 4 its name; two frames are read at a time."""
    model = opened(made.written(tmp_path, *made.frames()[:5]))
    after, seen = model.index.after, list[str | None]()

    def few(done: int, most: int) -> object:
        names = model.ends.names
        seen.append(names.node_by_address.get(5, "") if names is not None else None)
        return after(done, min(most, 2))

    model.index.after = few  # type: ignore[assignment,method-assign]
    study, _ = studied(model, CheckOptions(rules=[]))
    assert study.names is not None and "host" in study.names.node_by_address[5]
    assert seen[:3] == [None, "", ""], "other names were known before"

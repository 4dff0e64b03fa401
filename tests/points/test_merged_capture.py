"""The merged capture is one timeline, with an interface for each point and the verdict on each frame."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

import ibdissect
from ibdissect.points.comparison import Comparison
from ibdissect.points.merged_capture import delays, merged_faults, write_merged

from .world import World, behind


def test_written_and_read_again(tmp_path: Path) -> None:
    world = World(clocks={"tap": behind(-7_200_000_000_000), "server": behind(40_000_000, 30)})
    world.conversation(40, lost={10: "server"}, missing={20: ["tap"]})
    file = io.BytesIO()
    comparison = Comparison(world.write(tmp_path))
    numbers = write_merged(comparison, file)
    count = sum(map(len, numbers))
    merged = tmp_path / "merged.pcapng"
    merged.write_bytes(file.getvalue())
    with ibdissect.open(str(merged)) as capture:
        times, points = [], []
        for table in capture.tables():
            times += table.chunk.time_ns.tolist()
            points += table.chunk.interface.tolist()
        interfaces, comments = capture.reader.interfaces, capture.reader.comments
        names = [interfaces.name(i) for i in range(len(interfaces))]
        of_tap = capture.table().filter('frame.interface_name == "tap"').frames().tolist()
        by_name = capture.table()["frame.interface_name"].value.tolist()
    assert count == len(times) == sum(map(len, world.seen.values())) and times == sorted(times)
    assert sorted(names) == sorted(world.points)
    assert [points.count(names.index(name)) for name in world.points] == [len(world.seen[name]) for name in world.points]
    assert by_name == [names[i] for i in points] and of_tap == [i for i, name in enumerate(by_name, 1) if name == "tap"]
    texts = [text for number, texts in sorted(comments.items()) for text in texts if number]
    assert len(texts) == count
    assert sum("with other ttl" in text for text in texts) > count // 2
    assert sum("lost after tap, before server (absent)" in text for text in texts) == 2
    assert sum("tap did not capture it" in text for text in texts) == 2
    since = delays(comparison, numbers)
    assert np.count_nonzero(since < 0) == comparison.transmissions and since[since >= 0].min() > 600
    assert [(one.frame, by_name[one.frame - 1]) for one in merged_faults(comparison, numbers).by_rule["PTS001"]] == [
        (number, "tap") for number, said in sorted(comments.items()) if "lost after tap" in said[0] and by_name[number - 1] == "tap"
    ]  # fmt: skip

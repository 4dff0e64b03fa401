"""Which frames does each of many filters select: asked of tshark in one run, and of ibdissect."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from ibdissect.capture.opening import open_capture
from ibdissect.decode import ChunkTable
from ibdissect.dfilter.compile import compile_filter
from ibdissect.errors import FilterError

# One tap a filter: thousands of filters in the time of a few tshark runs. A filter that tshark refuses raises here.
SCRIPT = """
local number = 0
for line in io.lines(({...})[1]) do
  number = number + 1
  local this = number
  local fine, tap = pcall(Listener.new, "frame", line)
  if fine then
    local frames = {}
    function tap.packet(pinfo) frames[#frames + 1] = tostring(pinfo.number) end
    function tap.draw() print("@" .. this .. "@" .. table.concat(frames, ",")) end
  else
    print("@" .. this .. "@!")
  end
end
"""

Answer = list[int] | None
"""Frame numbers; None: the filter is refused."""
UNREAD = "infiniband.mad.method == 1 && infiniband.mad.mgmtclass in {0x01, 0x81}"
"""tshark shows the data of a SubnGet, which nobody reads, as the attribute that is asked for."""


def tshark(capture: Path, filters: Sequence[str], folder: Path) -> list[Answer]:
    """What tshark selects, filter by filter."""
    (folder / "ask.lua").write_text(SCRIPT)
    (folder / "filters").write_text("".join(f"{text}\n" for text in filters), "utf-8")
    command = ["tshark", "-n", "-q", "-r", str(capture), "-X", f"lua_script:{folder}/ask.lua", "-X", f"lua_script1:{folder}/filters"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    answers: dict[int, Answer] = {}
    for line in done.stdout.splitlines():
        if line.startswith("@"):
            _, number, frames = line.split("@", 2)
            answers[int(number)] = None if frames == "!" else [int(frame) for frame in frames.split(",") if frame]
    if len(answers) != len(filters):
        raise AssertionError(f"tshark answered {len(answers)} of {len(filters)} filters: {done.stderr[-500:]}")
    return [answers[number] for number in range(1, len(filters) + 1)]


def ibdissect(capture: Path, filters: Sequence[str]) -> list[Answer]:
    """What ibdissect selects, filter by filter."""
    answers: list[Answer] = [[] for _ in filters]
    compiled = []
    for i, text in enumerate(filters):
        try:
            compiled.append((i, compile_filter(text)))
        except FilterError:
            answers[i] = None
    with open_capture(capture) as reader:
        for chunk in reader.chunks():
            table = ChunkTable(chunk)
            for i, each in compiled:
                answer = answers[i]
                assert answer is not None
                answer += (each.rows(table).nonzero()[0] + chunk.first).tolist()
    return answers

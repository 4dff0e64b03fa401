"""A tour of a capture from Python: frames, columns, filters, Arrow, findings. Run it from the repository, or cell by cell in a notebook.

python docs/examples/tutorial.py [CAPTURE]
"""

# %% Open a capture. Files, pipes and compressed files are read alike, a window at a time.
from __future__ import annotations

import sys
from collections import Counter

import numpy as np

import ibdissect

path = sys.argv[1] if len(sys.argv) > 1 else "captures/pkey-lab.pcap"
capture = ibdissect.open(path)

# %% Frames, and one of them as a tree of layers and fields - what `ibdissect show --format tree` prints.
frames = list(capture)
print(f"{path}: {len(frames)} frames")
tree = capture.dissect(1)
print(f"frame 1: {tree.summary.source} -> {tree.summary.destination}  {tree.summary.info}")
for node in tree.walk():
    if node.name == "infiniband.bth.destqp":
        print(f"  {node.label}: {node.text}")

# %% Columns: one entry an occurrence. `ibdissect fields` lists the names.
table = capture.table()
keys = table["infiniband.bth.p_key"]
values, counts = np.unique(keys.value, return_counts=True)
for value, count in zip(values.tolist(), counts.tolist(), strict=True):
    print(f"P_Key 0x{value:04x}: {count} packets, first in frame {int(keys.frame[keys.value == value][0])}")

# %% A display filter, as Wireshark has it, gives the columns of some frames; filters narrow one another.
management = table.filter("infiniband.mad")
answers = management.filter("mad.method == 0x81")
print(f"{len(management.frames())} management datagrams, {len(answers.frames())} of them answers")

# %% Findings: what `ibdissect lint` reports.
findings = capture.lint()
print("findings:", dict(sorted(Counter(finding.code for finding in findings).items())))

# %% Arrow: a table with right types, from which pandas, polars and DuckDB go on. Needs: pip install '.[export]'
arrow = table.filter("infiniband.bth").to_arrow("frame.number", "frame.time", "lrh.slid", "lrh.dlid", "bth.p_key", "bth.psn")
print(arrow.schema.to_string())
by_pair = arrow.group_by(["infiniband.lrh.slid", "infiniband.lrh.dlid"]).aggregate([("infiniband.bth.psn", "count")])
busiest = max(by_pair.to_pylist(), key=lambda row: row["infiniband.bth.psn_count"])
print(f"busiest pair: LID {busiest['infiniband.lrh.slid']} -> LID {busiest['infiniband.lrh.dlid']}")

# %% Captures that do not fit into memory: the same, a batch at a time.
rows = sum(batch.num_rows for batch in table.batches("frame.number", "bth.opcode"))
print(f"{rows} rows in batches")

# %% pandas and polars take the Arrow table as it is.
try:
    import polars
except ModuleNotFoundError:
    print("polars is not installed")
else:
    frame = polars.DataFrame(arrow)
    print(f"polars: {frame.height} rows, {frame['infiniband.bth.p_key'].n_unique()} P_Keys")

# %%
capture.close()

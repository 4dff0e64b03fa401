"""The files that we write say what they were written from."""

from __future__ import annotations

import re
from pathlib import Path

from ibdissect.subnet.files import read_files
from tests import commands
from tests.subnet.files.made_files import parsed, subnet_of
from tests.subnet.files.samples import SAMPLES
from tests.subnet.test_compare import changed


def written(folder: Path, form: str, **files: str) -> str:
    """What `fabric` makes of some files."""
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    return str(commands.run("fabric", "--subnet", str(folder), "--format", form, text=True).stdout)


def test_topology(tmp_path: Path) -> None:
    known = subnet_of(("ibnetdiscover", SAMPLES["ibnetdiscover"]))
    text = written(tmp_path, "ibnetdiscover", topology=SAMPLES["ibnetdiscover"])
    again, lines = parsed("ibnetdiscover", text)
    assert lines.strange == 0
    assert changed(known, subnet_of(("ibnetdiscover", text))) == {}
    assert len(again.facts) == len(parsed("ibnetdiscover", SAMPLES["ibnetdiscover"])[0].facts)
    want, told = (re.findall(r"(?:Switch|Ca)\t.*|^\[.*?\] ?.*?#", one, re.M) for one in (SAMPLES["ibnetdiscover"], text))
    assert sorted(told) == sorted(line.replace("enhanced", "base") for line in want), "what SwitchInfo says is not in the file"


def test_partitions(tmp_path: Path) -> None:
    others = [(kind, SAMPLES[kind]) for kind in ("guid2lid", "opensm.conf", "opensm.log", "ibnetdiscover")]
    known = subnet_of(*others, ("partitions.conf", SAMPLES["partitions.conf"].replace("=limi", "=both")))
    (tmp_path / "files").mkdir()
    conf = SAMPLES["partitions.conf"].replace("=limi", "=both")
    text = written(tmp_path / "files", "partitions.conf", partitions_conf=conf, **{kind.replace(".", "_"): told for kind, told in others})
    assert text.startswith("# needs allow_both_pkeys TRUE")
    assert "0x0002c903000000a1=both," in text
    (tmp_path / "written").write_text(text)
    assert [file.kind for file in read_files([str(tmp_path / "written")]).files] == ["partitions.conf"]
    assert changed(known, subnet_of(*others, ("partitions.conf", text))) == {}

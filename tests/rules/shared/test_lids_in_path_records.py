"""LIDs that the SA gives out are taken for assigned and within reach."""

from __future__ import annotations

from ibdissect.wire.sa_paths import PathRecord
from tests.cases import few
from tests.craft import build, gmp
from tests.rules.findings import lint
from tests.rules.made.subnets import data, sweep


def named(lid: int, status: int = 0) -> bytes:
    """An answer with a path to a LID."""
    return gmp(3, 0x81, 0x35, build(PathRecord, dlid=lid, slid=1), at=56, slid=1, dlid=5, header={"status": status})


@few(("code", "frames", "lid"), [("LNK020", sweep(), 7), ("LNK021", sweep(top=4), 5)], fast=(1,))
def test_a_path_refutes(code: str, frames: list[bytes], lid: int) -> None:
    def severity(*between: bytes, after: bytes = b"") -> list[str]:
        return [str(one.severity) for one in lint([*frames, *between, data(dlid=lid), *([after] if after else [])], code)]

    assert severity() == ["warning"]
    assert severity(named(lid)) == severity(after=named(lid)) == ["info"]
    assert severity(named(lid + 1)) == severity(named(lid, status=0x300)) == ["warning"], "another LID, or a refusal"
    old = [str(one.severity) for one in lint([named(lid), *frames, data(dlid=lid)], code)]
    assert old == ["warning"], "before the sweep"

"""Display filters select exactly the frames that tshark selects, and are refused where tshark refuses."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from ibdissect.capture.opening import open_capture
from ibdissect.decode import ChunkTable
from ibdissect.dfilter.names import names_of
from ibdissect.wire.catalog import builtin

from .ask import UNREAD, Answer, ibdissect, tshark
from .differences import BY_FILTER, BY_NAME, reason

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark")]

WRITTEN: dict[str, list[str]] = {}
for _line in Path(__file__).with_name("filters.txt").read_text("utf-8").splitlines():
    if _line.startswith("["):
        _now = WRITTEN.setdefault(_line.strip("[]"), [])
    elif _line and not _line.startswith("#"):
        _now.append(_line)

EVERY_FIELD_OF = (
    "real/infiniband.pcap", "opensm/01-sweep-net1.pcap", "rxe/cm_rdma_client_server.pcap", "rxe/rc_atomic_fadd.pcap",
    "rxe/uc_send_lat_v6.pcap", "rxe/fmt_any_sll2.pcap", "rxe/k612_atomic_write.pcap", "rxe/nak_bad_rkey.pcap", "rxe/rc_send_inv.pcap",
)  # fmt: skip


def different(filters: list[str], theirs: list[Answer], ours: list[Answer]) -> list[str]:
    """Filters whose answers differ, with both answers."""
    return [
        f"{text}\n  tshark:    {str(a)[:200]}\n  ibdissect: {str(b)[:200]}"
        for text, a, b in zip(filters, theirs, ours, strict=True)
        if a != b
    ]


def beside(answer: Answer, asked: set[int]) -> Answer:
    """An answer without these frames."""
    return None if answer is None else [frame for frame in answer if frame not in asked]


def test_enough_filters_are_written() -> None:
    assert sum(map(len, WRITTEN.values())) > 600


@pytest.mark.parametrize("name", WRITTEN)
def test_written_filters(shared: Path, tmp_path: Path, name: str) -> None:
    filters = WRITTEN[name]
    capture = shared / "captures" / name
    theirs, ours = tshark(capture, filters, tmp_path), ibdissect(capture, filters)
    gone = {text for text, a, b in zip(filters, theirs, ours, strict=True) if a == b} & BY_FILTER.keys()
    assert not gone, "these must leave the list of differences"
    asked = set(ibdissect(capture, [UNREAD])[0] or ())
    theirs, ours = [beside(answer, asked) for answer in theirs], [beside(answer, asked) for answer in ours]
    wrong = [said for said in different(filters, theirs, ours) if reason(said.split("\n")[0], name) is None]
    assert not wrong, "\n".join(wrong)
    assert sum(bool(answer) for answer in ours) > len(filters) // 4


def filters_of_every_field(capture: Path, known: list[str]) -> list[str]:
    """Presence of each field that tshark knows too; comparisons of its commonest value."""
    filters = []
    names = names_of(builtin())
    with open_capture(capture) as reader:
        table = ChunkTable(next(iter(reader.chunks())))
    for name in known:
        filters.append(name)
        source = names.find(name)
        assert source is not None
        if source.kind not in ("uint", "bool"):
            continue
        columns = [table.column(field).values.ravel() for field in source.fields]
        values = np.concatenate(columns) if columns else np.empty(0)  # a name that no declaration has (tcp.srcport)
        if len(values):
            found, counts = np.unique(values, return_counts=True)
            value = int(found[counts.argmax()])
            filters += [f"{name} {op} {value}" for op in ("==", "!=", ">", "<=")]
    return filters


@pytest.fixture(scope="module")
def known(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Filter names of the catalog that tshark knows."""
    names = list(builtin().names)
    answers = tshark(shared / "captures/rxe/cm_reject_no_listener.pcap", names, tmp_path_factory.mktemp("known"))
    return [name for name, answer in zip(names, answers, strict=True) if answer is not None]


@pytest.mark.parametrize("name", EVERY_FIELD_OF)
def test_every_field(shared: Path, tmp_path: Path, known: list[str], name: str) -> None:
    capture = shared / "captures" / name
    filters = filters_of_every_field(capture, known)
    theirs, ours = tshark(capture, filters, tmp_path), ibdissect(capture, filters)
    asked = set(ibdissect(capture, [UNREAD])[0] or ())
    theirs, ours = [beside(answer, asked) for answer in theirs], [beside(answer, asked) for answer in ours]
    wrong = [said for said in different(filters, theirs, ours) if reason(said.split("\n")[0], name) is None]
    assert not wrong, "\n".join(wrong)
    assert sum(bool(answer) for answer in ours) > 80


def test_every_difference_has_a_reason() -> None:
    assert all(len(said) > 20 for said in (*BY_FILTER.values(), *(why for why, _ in BY_NAME.values())))
    assert all(builtin().names.get(name) or any(other.startswith(name + ".") for other in builtin().names) for name in BY_NAME)

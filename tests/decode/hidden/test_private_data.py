"""Private data that no declared structure explains is hidden in every message, and what is declared is shown without its keys."""

from __future__ import annotations

import io
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import ibdissect
from ibdissect.decode import ChunkTable
from ibdissect.wire import cm
from ibdissect.wire.catalog import Catalog, builtin, builtin_modules
from ibdissect.wire.cm_names import IP_CM_PREFIX
from ibdissect.wire.ulp import rping
from ibdissect.wire.ulp.nvme_rdma import SERVICE as NVME
from ibdissect.wire.ulp.rdma_cm import IPCMPrivateData
from ibdissect.words import CmService, Struct, rest, uint
from tests import commands, planted
from tests.acme import PASSIVE_QP, SERVICE, connection, message
from tests.cases import every
from tests.conftest import HAS_SHARED, SHARED
from tests.craft import build, erf_pcap, gmp, put, rc
from tests.decode.hidden.test_cut_keys import in_rows
from tests.decode.made import native_table
from tests.planted import native

KEY = 0xCAFEBABE
RSOCKETS = "rsocket_rstream", "rsocket_rcopy"
OTHER = IP_CM_PREFIX | 0x06 << 16 | 7471
HEADER = b"\x00\x40\x12\x34" + bytes(32)
ATTRIBUTES = {cm.REQ: 0x10, cm.MRA: 0x11, cm.REJ: 0x12, cm.REP: 0x13, cm.RTU: 0x14, cm.DREQ: 0x15, cm.DREP: 0x16, cm.SIDRReq: 0x17,
              cm.SIDRRep: 0x18, cm.LAP: 0x19, cm.APR: 0x1A}  # fmt: skip


def conn_data(key: int = KEY, *, flags: int = 2, size: int = 2) -> bytes:
    """What rsockets put into private data."""
    memory = [(0x7F00_0000_1000).to_bytes(8, "big") + value.to_bytes(4, "big") for value in (0x1234, key)]
    return bytes([1, flags, 1, 128, 0, 0, 0, 0]) + memory[0] + size.to_bytes(4, "big") + memory[1] + (1 << 19).to_bytes(4, "big")


def shown(frames: list[bytes], *, keys: bool = False) -> list[str]:
    return planted.shown(native(*frames), keys=keys)


def words(text: str) -> int:
    return sum(text.count(form) for form in ("cafebabe", "bebafeca", str(KEY)))


def test_private_data_of_an_unknown_service_is_hidden_in_every_message() -> None:
    frames = []
    for struct, attribute in ATTRIBUTES.items():
        body = bytearray(build(struct))
        put(body, struct.private_data, KEY.to_bytes(4, "big") * 2)
        frames.append(gmp(0x07, 0x03, attribute, bytes(body), at=24, slid=1, dlid=2))
    every, masked = shown(frames, keys=True), shown(frames)
    wrong = [struct.__name__ for struct, all_, some in zip(ATTRIBUTES, every, masked, strict=True)
             if words(all_) < 2 or words(some) or "************" not in some]  # fmt: skip
    assert wrong == []


def test_what_is_cut_off_within_private_data_is_hidden() -> None:
    body = bytearray(build(cm.RTU))
    put(body, cm.RTU.private_data, KEY.to_bytes(4, "big") * 3)
    whole = gmp(0x07, 0x03, 0x14, bytes(body), at=24, slid=1, dlid=2)
    parts = [whole[: whole.index(KEY.to_bytes(4, "big")) + end] for end in range(1, 12)]
    assert not [len(part) for part, text in zip(parts, shown(parts), strict=True) if "cafe" in text]


def test_private_data_of_zeros_is_shown() -> None:
    with ibdissect.open(io.BytesIO(erf_pcap(connection(OTHER)))) as opened:
        (table,) = opened.tables()
        assert not any(hidden for _, hidden in in_rows(table))


@pytest.mark.slow
def test_what_a_structure_explains_is_shown_and_what_follows_it_is_hidden() -> None:
    nvme = HEADER + b"\0\0\x05\0\x20\0\x1f\0"
    assert "queue id" in shown(connection(NVME, nvme))[0]
    assert "********" not in shown(connection(NVME, nvme))[0]
    more = connection(NVME, nvme + bytes(24) + KEY.to_bytes(4, "big"))
    assert words(shown(more)[0]) == 0 and "queue id" in shown(more)[0] and words(shown(more, keys=True)[0])


@pytest.mark.slow
def test_rping_tells_its_keys_in_messages() -> None:
    """Whole or cut off anywhere."""
    sent = message(build(rping.RpingBuffer, address=0x1000, r_key=KEY, length=64))
    frames = [*connection(rping.SERVICE, HEADER), sent, message(build(rping.RpingBuffer, r_key=KEY), answer=True)]
    assert [words(text) > 0 for text in shown(frames, keys=True)][-2:] == [True, True]
    assert sum(map(words, shown(frames))) == 0 and "r_key#1" in shown(frames)[-1]
    cut = sent.index(KEY.to_bytes(4, "big"))
    ends = [sent[:end] for end in range(cut + 1, len(sent))]
    assert not [len(end) for end, text in zip(ends, shown([*frames[:-2], *ends])[2:], strict=True) if "cafe" in text]


def test_the_header_of_ip_cm_explains_only_itself() -> None:
    frames = connection(OTHER, HEADER + KEY.to_bytes(4, "big"))
    assert words(shown(frames)[0]) == 0 and "source port:                 4660" in shown(frames)[0]


def writes(op: int, data: bytes) -> bytes:
    """An RDMA WRITE Only with Immediate on the connection, with the immediate data of an operation."""
    reth = {"va": 0x7F00_0000_1000, "r_key": 0x1234, "dmalen": len(data)}
    return rc(0x0B, data, ext={"RETH": reth, "ImmDt": {"immdt": op << 29 | 0x180}}, bth={"destqp": PASSIVE_QP}, slid=1, dlid=2)


def test_buffers_that_rsockets_name_later_are_hidden() -> None:
    """They are written into the peer's list, with an operation in the immediate data: 4 for a buffer, 6 for memory of direct writes."""
    one = (0x7F00_0000_2000).to_bytes(8, "little") + KEY.to_bytes(4, "little") + (4096).to_bytes(4, "little")
    start = connection(OTHER, HEADER + conn_data(), accepted=conn_data())
    named = [*start, writes(4, one), writes(6, bytes(8) + one)]
    said = shown(named)
    assert [words(text) for text in said] == [0] * 4 and all("r_key#" in text and "0x00007f0000002000" in text for text in said[2:])
    assert all(map(words, shown(named, keys=True)[2:]))
    assert all(map(words, shown([*start, *(writes(op, one) for op in (0, 2, 3, 5, 7))])[2:])), "data and credits are no buffers"
    assert words(shown([*connection(OTHER, HEADER), writes(4, one)])[2]), "not rsockets"


def test_rsockets_are_known_by_what_is_constant() -> None:
    cases = [
        (conn_data(), True), (conn_data(flags=3), True), (conn_data(flags=4), False), (conn_data(size=3), False),
        (conn_data(size=258), False), (b"\2" + conn_data()[1:], False), (conn_data()[:4] + b"\1" + conn_data()[5:], False),
        (conn_data()[:6] + b"\1" + conn_data()[7:], False), (conn_data()[:7] + b"\xff" + conn_data()[8:], True),
    ]  # fmt: skip
    said = shown([frame for private, _ in cases for frame in connection(OTHER, HEADER + private, accepted=private)])
    assert sum(map(words, said)) == 0
    assert [("rsockets" in text, "r_key#" in text) for text in said] == [(there, there) for _, there in cases for _ in range(2)]


@pytest.mark.skipif(not HAS_SHARED, reason="no captures of rsockets")
@pytest.mark.slow
@pytest.mark.parametrize("name", RSOCKETS)
def test_no_output_of_rsockets_resolves_its_masks(name: str, tmp_path: Path) -> None:
    """What RETH masks as R_Key#2 is in the clear nowhere: neither in private data nor in what is written."""
    path = SHARED / f"captures/rxe/{name}.pcap"
    with ibdissect.open(path, show_keys=True) as opened:
        keys = {
            node.value: node.field.secret for frame in opened for node in opened.dissect(frame.number).walk()
            if node.field is not None and node.field.secret == "R_Key" and node.value
        }  # fmt: skip
    assert len(keys) == 5
    with ibdissect.open(path) as opened:
        read = [opened.dissect(frame.number).readable() for frame in opened]
    words_of = {order(key) for key in keys for order in (lambda k: k.to_bytes(4, "big"), lambda k: k.to_bytes(4, "little"))}
    assert not [(word.hex(), i) for word in words_of for i, data in enumerate(read, 1) if word in data]
    forms = {word.hex() for word in words_of} | {f"0x{key:08x}" for key in keys}
    target, names = tmp_path / "x.pcap", ("-e", "infiniband.cm.rep.private", "-e", "infiniband.cm.req.private", "-e", "infiniband.payload")
    for command in (
        *(("show", str(path), "--format", form) for form in ("summary", "tree", "dump", "dotted", "scapy", "json", "jsonl")),
        ("show", str(path), *names, "-e", "frame"), ("sql", str(path), "select * from packets", *names, "--format", "jsonl"),
        ("lint", str(path), "--format", "json"), ("report", str(path)), ("follow", str(path), "--format", "hex"), ("stats", str(path)),
    ):  # fmt: skip
        said = commands.run(*command, text=True).stdout.lower().replace(" ", "")
        assert not [form for form in forms if form in said], command
    assert commands.run("scrub", str(path), "--to", str(target), "--verify").returncode == 0


def test_a_reply_without_its_request_is_hidden() -> None:
    """Its service is not known then."""
    frames = connection(OTHER, HEADER + conn_data(), accepted=conn_data())[1:]
    assert words(shown(frames)[0]) == 0 and "rsockets" not in shown(frames)[0]
    assert words(shown([rc(0x04, KEY.to_bytes(4, "big"))])[0]), "payload is shown"


class Open(Struct):
    """What a plugin explains of private data to its end."""

    prefix, key, carried_by = "acme", "open", CmService(SERVICE, messages=frozenset({0x10, 0x13}))
    first = uint(8, "First")
    more = rest("More")


@cache
def with_open() -> Catalog:
    acme = ModuleType("acme")
    acme.Open, Open.__module__ = Open, "acme"  # type: ignore[attr-defined]
    return Catalog([*builtin_modules(), acme])


PLAIN = [
    struct
    for struct in builtin().structs
    if any(isinstance(one, CmService) and not one.named and not one.starts for one in struct.carried_by)
]


@every("struct", [*PLAIN, Open])
def test_private_data_is_explained_up_to_the_end_of_its_structure(struct: Any) -> None:
    """The header of IP CM only up to the data behind it; a rest up to the end."""
    (place,) = struct.carried_by
    frames = connection(place.service_id, b"\x5a" * 92, accepted=b"\x5a" * 196)
    table = ChunkTable(native_table(frames).chunk, with_open())
    found = table.occurrences(struct)
    assert found.rows.tolist() == [row for row, message in enumerate((0x10, 0x13)) if message in place.messages]
    hidden = dict(in_rows(table))
    size = IPCMPrivateData.private_data.bit // 8 if struct is IPCMPrivateData else struct.size
    for row, at in zip(found.rows.tolist(), (found.at - table.chunk.offset[found.rows]).tolist(), strict=True):
        end = at + (92, 196)[row]
        first = end if struct is Open else at + size
        assert hidden[row] & set(range(at, end)) == set(range(first, end)), row

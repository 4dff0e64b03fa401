"""Keys of messages are hidden in each of their packets, in every output, whether the message is put together or not."""

from __future__ import annotations

import io
import json
from itertools import product
from operator import itemgetter
from pathlib import Path

import pytest

import ibdissect
from ibdissect.dissect.printers import dump
from ibdissect.dissect.tree import Tree
from ibdissect.wire.ulp import ipoib, rpcrdma
from ibdissect.wire.ulp.smc import SMC_D, SMC_R, SMCAccept
from tests import planted, smc
from tests.acme import connection, message
from tests.cases import every
from tests.commands import run
from tests.craft import LINK_ETHERNET, LINK_INFINIBAND, build, erf_pcap
from tests.decode.hidden.test_cut_keys import in_rows, known_bits, printed, trees
from tests.fuzz.container import pcapng
from tests.planted import Rows, ethernet, native
from tests.transport.test_reassembled_messages import NFS, PACKET, SERVED, packets
from tests.transport.test_rpc_rdma_chunks import SENT, ask, given

FIRST_KEY, KEY = 28, b"\xd1\xd2\xd3\xd4"
"""Where the first key of NFS is (the others follow every 16 bytes), and what it is here."""
DISTINCT = b"".join(KEY if at in range(FIRST_KEY, 668, 16) else NFS[at : at + 4] for at in range(0, len(NFS), 4))
PAIRS = [KEY[at : at + 2].hex() for at in range(3)]
SIZE = PACKET + FIRST_KEY + 2
"""Of a packet that ends within a key."""


def all_shown(rows: Rows) -> str:
    """What is shown of the frames, as hex digits among other text."""
    return "\n".join(planted.shown(rows))


@pytest.mark.slow
@pytest.mark.parametrize("lost", [None, 1, 2, 3])
@pytest.mark.parametrize("size", [PACKET, SIZE, 40])
def test_no_packet_of_a_message_shows_a_key(size: int, lost: int | None) -> None:
    parts = [part for number, part in enumerate(packets(DISTINCT, size=size), 1) if number != lost]
    said = all_shown(native(*connection(rpcrdma.SERVICE), *parts))
    assert not [pair for pair in PAIRS if pair in said]
    assert KEY.hex() in all_shown(native(*parts)), "no service"


def test_a_message_that_is_cut_off_within_a_key_shows_no_part_of_it() -> None:
    whole = message(DISTINCT)
    begin = whole.index(KEY)
    rows = [(LINK_INFINIBAND, whole[: begin + end], len(whole)) for end in (1, 2, 3, 4, 15, 18)]
    said = all_shown([*native(*connection(rpcrdma.SERVICE)), *rows])
    assert not [pair for pair in PAIRS if pair in said] and "write segment" in said


@pytest.mark.parametrize("service", [0x0000_0ACE_0000_0001, rpcrdma.SERVICE])
def test_a_message_that_is_cut_off_is_hidden_to_its_last_byte(service: int) -> None:
    """Of a service that no declaration knows as well as of one with keys, wherever the snap length cuts, in trees and in bytes."""
    whole = message(b"\x5a" * 1320)
    begin = whole.index(b"\x5a" * 1320)
    sizes = [begin + taken for taken in (1, 7, 8, 200, 1319, 1320)]
    rows = native(*connection(service))
    with ibdissect.open(io.BytesIO(pcapng([*rows, *((LINK_INFINIBAND, whole[:size], len(whole)) for size in sizes)]))) as opened:
        hidden, found = dict[int, set[int]](), dict[int, set[int]]()
        for table in opened.tables():
            hidden.update((table.chunk.first + row, places) for row, places in in_rows(table))
            for _, tree in trees(table):
                found[tree.frame] = {at for start, stop in tree.secret_bytes for at in range(start, stop)}
    shown = 16 if service == rpcrdma.SERVICE else 0  # its fixed header
    for frame, size in enumerate(sizes, 3):
        payload = set(range(begin + (shown if size >= begin + shown else 0), size))
        assert payload <= hidden[frame] and payload <= found[frame], size - begin


@pytest.mark.parametrize("kind", sorted(SERVED))
def test_trees_and_bytes_hide_the_same_and_no_checksum_tells(kind: str) -> None:
    service, private, data = SERVED[kind]
    with ibdissect.open(io.BytesIO(erf_pcap([*connection(service, private), *packets(data)]))) as opened:
        (table,) = opened.tables()
        hidden = dict(in_rows(table))
        for row, tree in trees(table):
            assert {at for start, stop in tree.secret_bytes for at in range(start, stop)} == hidden[row], tree.frame
            assert known_bits(table, row, printed(dump(tree)))[1] == 0
        at = table.located.at("payload")
        for row in range(3, len(table)):
            assert hidden[row] >= set(range(at[row] - table.chunk.offset[row], table.located.payload_end[row] - table.chunk.offset[row]))


def test_only_messages_that_may_hold_a_key_are_hidden() -> None:
    """Not what goes to the other side of NVMe, nor IPoIB, nor messages of one packet, nor zeros, nor what a structure shows whole."""
    nvme, private, data = SERVED["nvme"]
    answers = [message(part, opcode=code, answer=True) for code, part in ((0x00, data[:256]), (0x01, data[:256]), (0x02, data[:80]))]
    for frames in (
        [*connection(nvme, private), *answers],
        [*connection(ipoib.IPOIB_CM_PREFIX | 5), *packets(b"\x08\0\0\0" + data)],
        [*connection(rpcrdma.SERVICE), message(NFS[:16])],
        [*connection(rpcrdma.SERVICE), *packets(bytes(700))],
        [*connection(rpcrdma.SERVICE), *packets(NFS[:16] + bytes(48), size=16)],
    ):
        with ibdissect.open(io.BytesIO(erf_pcap(frames))) as opened:
            (table,) = opened.tables()
            assert not any(hidden for _, hidden in in_rows(table))


def test_a_packet_that_completes_a_message_shows_its_checksum_where_it_holds_no_key() -> None:
    """The handle of a read chunk is in the SEND, and in the RETH of the request; the data comes in READ responses."""
    frames = [*connection(rpcrdma.SERVICE), SENT, ask(), *given()]
    with ibdissect.open(io.BytesIO(erf_pcap(frames))) as opened:
        (table,) = opened.tables()
        assert [bool(tree.secret_bytes) for _, tree in sorted(trees(table), key=itemgetter(0))] == [False, False, True, True, *3 * [False]]
    assert "r_key#1" in planted.shown(native(*frames))[-1]


@pytest.mark.slow
def test_commands_on_a_message(tmp_path: Path) -> None:
    """Columns, filters, follow, scrub; the owner sees it all."""
    path, copy = tmp_path / "a.pcap", tmp_path / "b.pcap"
    path.write_bytes(erf_pcap([*connection(rpcrdma.SERVICE), *packets(DISTINCT)]))
    middle = KEY.hex(":")
    names = ["frame", "infiniband.payload", "rpcrdma.body", "rpcordma.rdma_handle", "infiniband.invariant.crc"]
    fields = [run("show", str(path), "-e", name, text=True).stdout for name in names]
    texts = [run("show", str(path), "--format", form, text=True).stdout for form in ("tree", "dump", "dotted", "scapy", "json", "jsonl")]
    texts += fields
    assert not [pair for pair in PAIRS for text in texts if pair in text.replace(" ", "").replace("\n", "").lower()]
    asked = ("show", str(path), "--count", "-Y", f"frame contains {middle}")
    assert (run(*asked, text=True).stdout, run(*asked, "--show-keys", text=True).stdout) == ("0\n", "3\n")
    assert KEY.hex() in run("show", str(path), "--format", "jsonl", "--show-keys", text=True).stdout
    assert run("scrub", str(path), "--output", str(copy), "--verify", text=True).returncode == 0
    assert KEY not in copy.read_bytes()


def test_the_whole_message_hides_keys_that_its_first_packet_has(tmp_path: Path) -> None:
    """In columns of bytes around them, too."""
    service, private, data = SERVED["nvme"]
    path, key = tmp_path / "a.pcap", data[35:39]
    path.write_bytes(erf_pcap([*connection(service, private), *packets(data)]))
    said = run("show", str(path), "-e", "nvme.cmd.command", "-e", "nvme.cmd.data", text=True).stdout
    assert data[300:400].hex() in said and key.hex() not in said
    assert key.hex() in run("show", str(path), "--show-keys", "-e", "nvme.cmd.command", text=True).stdout


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ACCEPT", "CONFIRM"])
def test_a_handshake_that_is_cut_off_behind_its_key(kind: str) -> None:
    whole = smc.segment(getattr(smc, kind))
    whole = whole.replace((0xDEAD if kind == "ACCEPT" else 0xBEEF).to_bytes(4, "big"), KEY)
    end = whole.index(KEY) + 4
    for data, wire in [(whole[: end + more], size) for more in (-1, 0, 1, 18) for size in (len(whole), end + more)] + [(whole, len(whole))]:
        said = all_shown([(LINK_ETHERNET, data, wire)])
        assert "d1d2d3" not in said and "smc handshake" in said, len(data)


@pytest.mark.parametrize(("at", "more"), [
    pytest.param(at, more, marks=[pytest.mark.slow] * (at not in (8, 41, 44) or bool(more) != (at == 44)))
    for at in (2, 8, 40, 41, 44, 45, 66) for more in (b"", b"\xf0\xf1\xf2\xf3", bytes(9))
])  # fmt: skip
def test_of_a_handshake_in_two_segments_the_rest_is_hidden(at: int, more: bytes) -> None:
    """Also with the checksum of Ethernet, or padding and checksums of InfiniBand behind."""
    whole, options = smc.ACCEPT.replace((0xDEAD).to_bytes(4, "big"), KEY), b"\1" * (12 if more else 0)
    assert whole.index(KEY) == 41
    two = [smc.segment(whole[:at], options=options) + more, smc.segment(whole[at:], at=1000 + at, options=options) + more]
    said = all_shown(ethernet(*two))
    assert not [pair for pair in PAIRS if pair in said]


@pytest.mark.parametrize("first", [smc.PROPOSAL, smc.DECLINE, smc.ACCEPT])
def test_a_handshake_behind_another_message_of_its_segment_is_hidden(first: bytes) -> None:
    data = smc.segment(first + smc.ACCEPT.replace((0xDEAD).to_bytes(4, "big"), KEY), answer=True)
    said = all_shown(ethernet(data))
    assert not [pair for pair in PAIRS if pair in said] and "smc handshake" in said


@every("payload", [b"GET / HTTP/1.1", b"\xe2\xd4\xc3", b"GET \xe2\xd4\xc3\x00", b"x\xe2\xd4\xc3\xd8" + bytes(10), smc.PROPOSAL, b""])
def test_other_segments_are_not_hidden(payload: bytes) -> None:
    with ibdissect.open(io.BytesIO(pcapng(ethernet(smc.segment(payload))))) as opened:
        assert not opened.dissect(1).secret_bytes


@pytest.mark.slow
def test_a_segment_with_a_word_of_a_handshake_is_hidden_wherever_it_stands() -> None:
    for words in product((SMC_R, SMC_D, b"None"), repeat=3):
        frames = [smc.segment(b"rest" + word, at=1000 + 8 * i) for i, word in enumerate(words)]
        with ibdissect.open(io.BytesIO(pcapng(ethernet(*frames)))) as opened:
            (table,) = opened.tables()
            assert [bool(hidden) for _, hidden in in_rows(table)] == [word != b"None" for word in words], words


def test_the_checksum_of_a_segment_with_a_key_is_hidden(tmp_path: Path) -> None:
    whole = smc.segment(smc.ACCEPT)
    told = whole[:50] + b"\x12\x34" + whole[52:]
    with ibdissect.open(io.BytesIO(pcapng(ethernet(told, told[:54])))) as opened:
        assert [value_of(opened.dissect(frame)) for frame in (1, 2)] == [None, 0x1234]
    (tmp_path / "a.pcap").write_bytes(pcapng(ethernet(told, told[:54])))
    lines = json.loads(run("show", str(tmp_path / "a.pcap"), "--format", "json").stdout)
    fields = [{one["name"]: one["value"] for layer in line["layers"] for one in layer["fields"]} for line in lines]
    assert [one["tcp.checksum"] for one in fields] == [None, 0x1234]


def value_of(tree: Tree) -> object:
    """The TCP checksum in a tree."""
    return next(node.value for node in tree.walk() if node.name == "tcp.checksum")


@pytest.mark.slow
def test_a_token_of_smc_d_is_hidden_also_where_it_is_cut() -> None:
    token = b"\xd1\xd2\xd3\xd4\xd5\xd6\xd7\xd8"
    whole = smc.segment(smc.clc(2, build("SMCDAccept", token=int.from_bytes(token, "big")) + bytes(12), word=SMC_D, end=SMC_D, flags=0x11))
    end = whole.index(token) + 8
    assert "dmb token#" in all_shown(ethernet(whole))
    for data in (whole, whole[:end], whole[: end - 3], whole[: end + 3]):
        assert not [at for at in range(7) if token[at : at + 2].hex() in all_shown([(LINK_ETHERNET, data, len(whole))])]


@pytest.mark.parametrize(("more", "cut"), [(-1, True), (0, False), (1, False)])
def test_of_a_handshake_that_is_there_only_the_key_is_hidden(more: int, cut: bool) -> None:
    whole = smc.segment(smc.ACCEPT)
    end = whole.index(smc.ACCEPT) + 8 + SMCAccept.size + more
    with ibdissect.open(io.BytesIO(pcapng([(LINK_ETHERNET, whole[:end], len(whole))]))) as opened:
        hidden = {at for start, stop in opened.dissect(1).secret_bytes for at in range(start, stop)}
    key = whole.index((0xDEAD).to_bytes(4, "big"))
    assert hidden == (set(range(whole.index(smc.ACCEPT), end)) if cut else set(range(key, key + 4)))

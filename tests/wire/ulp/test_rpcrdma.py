"""The lists of an RPC-over-RDMA message are read to their end and no further, wherever a word is neither 0 nor 1."""

from __future__ import annotations

from ibdissect.wire.ulp import rpcrdma
from tests.cases import every


def word(*values: int) -> bytes:
    return b"".join(value.to_bytes(4, "big") for value in values)


@every(
    ("body", "more"),
    [
        (word(2), False), (word(2, 0, 0), False), (word(2, 1), True), (word(2)[:3], False), (word(1, 1, 2), False),
        (word(1, 1, 2, 0), False),
        (word(1, 1, 2) + b"\0\1", True), (word(1, 1, 2) + b"\1", True), (word(0x101), False), (word(0x102, 7), True), (b"", False),
    ],
)  # fmt: skip
def test_more_than_an_error_may_be_a_chunk_list(body: bytes, more: bool) -> None:
    """ERR_VERS (1) tells two versions; any other error nothing."""
    assert rpcrdma.more_than_error(body) == ([(0, len(body) + 1)] if more else [])


READ, WRITE = word(1) + bytes(20), word(1, 2) + bytes(32)
LISTS = {
    "none": word(0, 0, 0), "a read": READ + word(0, 0, 0), "two reads": READ * 2 + word(0, 0, 0), "a write": word(0) + WRITE + word(0, 0),
    "two writes": word(0) + WRITE * 2 + word(0, 0), "a reply": word(0, 0) + WRITE, "no segments": word(0, 1, 0, 0, 1, 0),
    "all": READ + word(0) + WRITE + word(0) + WRITE,
}  # fmt: skip


@every("name", LISTS)
def test_chunk_lists_are_read_to_their_end_and_no_further(name: str) -> None:
    """Every word that says whether an entry follows is 0 or 1; what a body of any length holds behind them does not matter."""
    lists = LISTS[name]
    for cut in range(len(lists) + 1):
        assert rpcrdma.wrong_lists(lists[:cut]) == []
    assert rpcrdma.wrong_lists(lists + word(2)) == [] == rpcrdma.wrong_lists(lists + word(7, 2, 9))
    at, number, asked = 0, 0, []
    while number < 3:
        asked.append(at)
        follows, at = lists[at + 3], at + 4
        if follows:
            at += 20 if number == 0 else 4 + 16 * lists[at + 3]
        number += not follows or number == 2
    for at in range(0, len(lists), 4):
        wrong = lists[:at] + word(2) + lists[at + 4 :]
        if at in asked:
            assert rpcrdma.wrong_lists(wrong) == [(0, len(lists) + 1)], at
            assert rpcrdma.wrong_lists(wrong[: at + 4])
            assert not rpcrdma.wrong_lists(lists[:at] + word(0x200)[:3]), "half a word says nothing"

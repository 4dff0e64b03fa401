"""Every key that a plugin's handler reads is remembered, and hidden in texts, while that handler runs and no longer."""

from __future__ import annotations

from threading import Thread
from typing import Any

import numpy as np
import pytest

from ibdissect.wire.keys_read import HIDDEN, LEAST, MAX_KEYS, KeyNumber, KeysRead, column_read, key_read, watching
from tests.cases import every
from tests.craft import build, bytes_as

KEY = 0xC0FFEE
VIEW = bytes_as("DETH", build("DETH", q_key=KEY, srcqp=7))


def test_a_key_that_is_read_while_somebody_watches() -> None:
    keys = KeysRead()
    assert type(VIEW.q_key) is int and key_read("Q_Key", 32, KEY) == KEY
    with watching(keys):
        read: Any = VIEW.q_key
        assert type(read) is KeyNumber and (read.kind, read.bits, int(read)) == ("Q_Key", 32, KEY)
        assert f"{read}" == f"{read:x}" == str(read) == repr(read) == f"Q_Key {HIDDEN}" and VIEW.srcqp == 7
        assert key_read("R_Key", 32, b"abc") == b"abc", "bytes are no number"
        column_read("M_Key", 64, np.array([[0x10001], [0x10002]], np.uint64))
    assert keys.known == {KEY: ("Q_Key", 32), 0x10001: ("M_Key", 64), 0x10002: ("M_Key", 64)}
    assert keys.kind_of(read) == ("Q_Key", 32) and type(VIEW.q_key) is int
    column_read("M_Key", 64, np.array([0x10003]))
    assert 0x10003 not in keys.known, "nobody watches any more"


@pytest.mark.parametrize("hidden", [True, False])
def test_where_keys_are_shown_nobody_watches(hidden: bool) -> None:
    keys = KeysRead()
    with watching(keys, hidden):
        assert (type(VIEW.q_key) is KeyNumber) is hidden
    assert (KEY in keys.known) is hidden


def test_a_handler_that_fails_is_no_longer_watched_nor_is_another_thread() -> None:
    keys, seen = KeysRead(), list[type]()
    with pytest.raises(KeyError), watching(keys):
        other = Thread(target=lambda: seen.append(type(VIEW.q_key)))
        other.start()
        other.join()
        raise KeyError
    assert seen == [int] and type(VIEW.q_key) is int and not keys.known


@every(
    ("value", "kind"),
    [
        (0x10000, ("K", 32)), (0xFFFF, None), (0x10001, None), (np.uint32(0x10000), ("K", 32)), (True, None), ("65536", None),
        (65536.0, None),
    ],
)  # fmt: skip
def test_which_numbers_are_keys(value: Any, kind: Any) -> None:
    keys = KeysRead()
    keys.note("K", 32, [0x10000, 0xFFFF, 1])
    assert LEAST == 0xFFFF and keys.kind_of(value) == kind


@every(
    ("text", "hidden"),
    [
        ("key 65536!", "key (hidden)!"), ("0x10000", HIDDEN), ("10000", HIDDEN), ("0X010000", HIDDEN), ("a10000", "a10000"),
        ("65537", "65537"),
        ("x10000", "x10000"), ("10000z", "10000z"), ("65536 and 0x10001", "(hidden) and 0x10001"), ("6553", "6553"), ("9" * 50, "9" * 50),
        ("00000000065536", HIDDEN), ("0xffff", "0xffff"), ("65535", "65535"),
    ],
)  # fmt: skip
def test_texts_without_keys(text: str, hidden: str) -> None:
    """In decimal or hexadecimal, as a word of its own; nothing where no key is known."""
    keys = KeysRead()
    assert keys.without_keys(text) == text
    keys.note("K", 32, [0x10000, 0xFFFF])
    assert keys.without_keys(text) == hidden


def test_the_latest_keys_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ibdissect.wire.keys_read.MAX_KEYS", 2)
    keys = KeysRead()
    keys.note("K", 32, [0x10001, 0x10002])
    keys.note("K", 32, [0x10001])
    assert list(keys.known) == [0x10001, 0x10002]
    keys.note("L", 64, [0x10003])
    assert keys.known == {0x10002: ("K", 32), 0x10003: ("L", 64)}
    with watching(keys):
        column_read("C", 32, np.arange(0x20000, 0x20009))
    assert list(keys.known) == [0x20000, 0x20001] and MAX_KEYS == 16384

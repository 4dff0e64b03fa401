"""Rights that a command gives up before it reads a hostile capture: writing files, TCP, unlimited memory."""

from __future__ import annotations

import ctypes
import os
import resource
import struct
from collections.abc import Iterable

import click

from .common_options import CommonOptions

sandbox_option = click.option(
    "--sandbox", is_flag=True, help="Write nothing but what was asked for, open no connection, take at most 8 GB (Linux: Landlock)."
)

MOST_MEMORY = 8 << 30
"""Bytes of data of a process. A check needs below 3 GB, whatever the capture."""
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
"""Numbers of the system calls, the same on all architectures."""
NO_NEW_PRIVILEGES, O_PATH = 38, 0o10000000
WRITES = {1: 0b1111111110010, 2: 1 << 13, 3: 1 << 14}
"""Bits of linux/landlock.h, by the version of the interface that knows them: to write, create, remove and move files; to truncate them."""
TCP, TCP_SINCE = 0b11, 4
"""To bind and to connect."""


def confine(common: CommonOptions, targets: Iterable[str | None], *, network: bool) -> None:
    """From now on this process, and those that it starts, can write only into the folders of `targets`; without `network`, no TCP.

    Devices and the temporary folder stay writable, and open files stay open. A note names rights that this kernel cannot take away.
    """
    written = [os.path.abspath(target) for target in targets if target is not None]
    left = _confined({target if os.path.isdir(target) else os.path.dirname(target) for target in written}, network=network)
    if left is not None:
        common.tell(f"note: --sandbox: this system cannot withhold {left}")


def _confined(writable: set[str], *, network: bool) -> str | None:
    import tempfile  # with what it imports, a twentieth of the start of every command that takes --sandbox

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core would hold keys
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    most = MOST_MEMORY if hard == resource.RLIM_INFINITY else min(MOST_MEMORY, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    call = getattr(ctypes.CDLL(None, use_errno=True), "syscall", None)  # Linux only
    version = call(CREATE_RULESET, None, ctypes.c_size_t(0), 1) if call is not None else -1
    if call is None or version < 1:
        return "files and connections: it has no Landlock"
    writes = sum(bits for since, bits in WRITES.items() if since <= version)
    asked = struct.pack("=QQ", writes, 0 if network else TCP) if version >= TCP_SINCE else struct.pack("=Q", writes)
    rules = _done(call(CREATE_RULESET, asked, ctypes.c_size_t(len(asked)), 0))
    for folder in {"/dev", tempfile.gettempdir(), *writable}:
        below = os.open(folder, O_PATH | os.O_CLOEXEC)
        _done(call(ADD_RULE, rules, 1, struct.pack("=Qi", writes, below), 0))
        os.close(below)
    _done(ctypes.CDLL(None, use_errno=True).prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    _done(call(RESTRICT_SELF, rules, 0))
    os.close(rules)
    return None if network or version >= TCP_SINCE else "connections: its Landlock is too old"


def _done(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), "--sandbox")
    return result

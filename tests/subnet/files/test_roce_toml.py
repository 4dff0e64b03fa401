"""A TOML file about a RoCE network: its facts with the line of each, and refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibdissect.errors import SubnetFileError
from ibdissect.subnet.file_lines import file_and_line
from ibdissect.subnet.files import read_files
from ibdissect.subnet.model import Subnet
from tests.cases import every
from tests.subnet.files.made_files import parsed, subnet_of
from tests.subnet.files.samples import SAMPLES

HOST = "[[roce.host]]\nname = 'a'\naddresses = ['1.2.3.4']\n"


def line_of(number: int) -> int:
    return file_and_line(number)[1]


def test_facts_and_their_lines() -> None:
    roce = subnet_of(("roce", SAMPLES["roce"])).roce
    assert (roce.vlans, roce.lossless, roce.ecn, roce.all_hosts, roce.priorities) == ({100, 101}, {3}, True, True, {26: 3, 48: 6})
    assert [(name, line_of(line)) for name, line in roce.lines.items()] == [
        ("vlans", 3), ("lossless", 4), ("ecn", 5), ("all-hosts", 6), ("priorities", 7),
    ]  # fmt: skip
    hosts = {address: (host.name, set(host.vlans), line_of(host.line)) for address, host in roce.hosts.items()}
    assert hosts == {
        bytes(10) + b"\xff\xff" + bytes([192, 168, 0, 1]): ("node01", {101}, 11),
        bytes.fromhex("fd") + bytes(14) + b"\x01": ("node01", {101}, 11),
        bytes(10) + b"\xff\xff" + bytes([192, 168, 0, 2]): ("node02", set(), 16),
        bytes(10) + b"\xff\xff" + bytes([192, 168, 0, 3]): ("node02", set(), 17),
    }


def test_tables_may_be_written_out() -> None:
    roce = subnet_of(("roce", "[roce.priorities]\n26 = 3")).roce
    assert roce.priorities == {26: 3} and line_of(roce.lines["priorities"]) == 1
    assert [roce.priority(dscp) for dscp in (26, 24, 0, 48)] == [3, 3, 0, 6]


def test_nothing_is_known_without_a_file() -> None:
    assert not Subnet().roce.lines and Subnet().roce.host(bytes(4)) is None


@every(("text", "said"), [
    ("[roce]\nvlans = [100", "not valid TOML"),
    ("[roce]\nvlans = [4095]", "f:2: roce.vlans holds 4095, not a number from 1 to 4094"),
    ("[roce]\n\nlossless = [true]", "f:3: roce.lossless holds True, not a number from 0 to 7"),
    ("[roce]\npriorities = { 64 = 1 }", "f:2: roce.priorities holds 64, not a number from 0 to 63"),
    ("[roce]\npriorities = { af31 = 1 }", "f:2: roce.priorities holds 'af31'"),
    ("[roce]\npriorities = 3", "f:2: roce.priorities must be a table"),
    ("[roce]\necn = 1", "f:2: roce.ecn must be true or false"),
    ("[roce]\nvlan = [1]", "f:2: there is no key 'vlan'; did you mean vlans?"),
    ("[roce]\n[site]", "has other tables"),
    ("[roce]\nhost = 3", "must be written as"),
    ("[roce]\n[[roce.host]]\nname = 'a'", "f:2: a host needs a name and addresses"),
    ("[[roce.host]]\nname = 'a'\naddresses = ['fe80::x']", "f:1: 'fe80::x' is not an IP address or a GID"),
    ("[[roce.host]]\nname = 'a'\naddresses = [1]", "f:1: 1 is not an IP address or a GID"),
    (HOST + "[[roce.host]]\nname = 'b'\naddresses = ['::ffff:1.2.3.4']", "f:6: ::ffff:1.2.3.4 is an address of 'a', too"),
    ("[[roce.host]]\nname = 'a'\naddress = ['::1']", "f:3: there is no key 'address'; did you mean addresses?"),
])  # fmt: skip
def test_refusals(text: str, said: str) -> None:
    with pytest.raises(SubnetFileError) as refused:
        parsed("roce", text, "f")
    assert said in str(refused.value)


@pytest.mark.parametrize("text", ["# ours\nroce.ecn = true", "roce = { ecn = true }", "[ roce ]\necn = true"])
def test_all_spellings_are_recognised(text: str, tmp_path: Path) -> None:
    (tmp_path / "network.toml").write_text(text)
    assert [file.kind for file in read_files([str(tmp_path / "network.toml")]).files] == ["roce"]

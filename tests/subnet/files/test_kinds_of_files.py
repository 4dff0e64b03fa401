"""Each kind of file is recognized by its content, read without loss, and harmless when it is not what it seems."""

from __future__ import annotations

import json
import os
import random
import re
from pathlib import Path

import pytest

from ibdissect.errors import SubnetFileError
from ibdissect.subnet.file_lines import is_doubtful
from ibdissect.subnet.files import learn, read_files
from ibdissect.subnet.files.kinds_of_files import KINDS
from ibdissect.subnet.files.lines import Lines
from ibdissect.subnet.model import Subnet
from ibdissect.subnet.nodes import Port
from tests import commands
from tests.conftest import REPO
from tests.subnet.files.samples import SAMPLES, SWITCH, A, B


def read(folder: Path, **files: str) -> Subnet:
    """The model after files of a folder; `_` in their names stands for a dot."""
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text, encoding="utf-8")
    subnet = Subnet()
    learn(subnet, read_files([str(folder)]).files)
    return subnet


def port_of(subnet: Subnet, guid: int) -> Port:
    return next(port for port in subnet.ports() if port.guid == guid)


@pytest.mark.parametrize("kind", SAMPLES)
def test_each_kind_is_recognized_and_teaches_the_same(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "sample.txt"
    file.write_text(SAMPLES[kind], encoding="utf-8")
    found = read_files([str(file)])
    assert [one.kind for one in found.files] == [kind]
    assert found.files[0].facts
    assert found.notes == []
    subnet = Subnet()
    learn(subnet, found.files)
    owners = {lid: port.guid for lid in subnet.lids if (port := subnet.by_lid(lid)) is not None and port.guid}
    assert owners.items() <= {2: SWITCH, 3: A, 4: B}.items()
    names = {node.guid: node.name.decode() for node in subnet.nodes.values() if node.name}
    assert names.items() <= {A - 1: 'host A, "fast" lid 99', B - 1: "host B", SWITCH: "edge 1"}.items()
    for node in subnet.nodes.values():
        assert node.kind in (0, 2 if node.guid == SWITCH else 1)
    cables = {(port.number, port.peer.guid) for port in subnet.ports() if port.node.guid == SWITCH and port.peer is not None}
    assert cables <= {(1, A), (2, B)}


def test_all_kinds_together_are_one_subnet(tmp_path: Path) -> None:
    subnet = read(tmp_path, **{kind.replace(".", "_"): text for kind, text in SAMPLES.items()})
    assert {node.guid for node in subnet.slots.values()} == {SWITCH, A - 1, B - 1}
    assert {lid: port.guid for lid in (2, 3, 4) if (port := subnet.by_lid(lid))} == {2: SWITCH, 3: A, 4: B}
    a = port_of(subnet, A)
    assert a.p_keys is not None
    assert {key for key in a.p_keys.keys(1)[0] if key} == {0xFFFF, 0x0010, 0x8020}
    assert a.p_keys.intended is not None
    assert set(a.p_keys.intended.keys) == {0xFFFF, 0x0010}, "the host of the SM is a full member of the default partition"
    assert a.p_key_capacity(1) == 64
    assert a.guard is not None
    assert a.guard.held.now is not None
    assert a.guard.held.now.key == 0x1122334455667788
    assert subnet.listed < 0
    tables = subnet.nodes[SWITCH].forwarding
    assert tables is not None
    assert dict(tables.linear.entries()) == {2: 0, 3: 1, 4: 2}
    assert list(tables.routes()) == [(0xC000, (1, 2))]
    (group,) = subnet.groups.by_mgid.values()
    assert group.facts.now is not None
    assert (group.facts.now.mlid, group.facts.now.p_key, len(group.members)) == (0xC000, 0xFFFF, 1)


def test_a_newer_file_wins(tmp_path: Path) -> None:
    (tmp_path / "new").write_text("0x0002c903000000a1 0x0007 0x0007\n")
    (tmp_path / "old").write_text("0x0002c903000000a1 0x0008 0x0009\n")
    os.utime(tmp_path / "old", (1e9, 1e9))
    subnet = read(tmp_path)
    assert port_of(subnet, A).lids.now == (7, 0)
    assert [port for lid in (8, 9) if (port := subnet.by_lid(lid)) is not None] == []


def test_p_keys_of_a_host_are_joined_with_its_port(tmp_path: Path) -> None:
    at = SAMPLES["sysfs"].index("==> /sys/class/infiniband/mlx5_0/ports/1/pkeys/0")
    for host, guid in (("a", "00a"), ("b", "00b")):
        (tmp_path / f"{host}-port.txt").write_text(
            SAMPLES["sysfs"][:at].replace("00a", guid).replace("0x3", "0x3" if host == "a" else "0x4")
        )
        (tmp_path / f"{host}-pkeys.txt").write_text(SAMPLES["sysfs"][at:].replace("0x0010", "0x0010" if host == "a" else "0x8010"))
    subnet = read(tmp_path)
    tables = {guid: port.p_keys for guid in (A, B) if (port := port_of(subnet, guid))}
    assert {guid: table.keys(1)[0] - {0} for guid, table in tables.items() if table} == {A: {0xFFFF, 0x10}, B: {0xFFFF, 0x8010}}


def test_the_tree_of_sysfs_itself(tmp_path: Path) -> None:
    for path, text in (("node_guid", "0002:c903:0000:00a0"), ("ports/1/lid", "0x3"), ("ports/1/gids/0", "fe80::2:c903:0:a1"),
                       ("ports/1/pkeys/0", "0xffff"), ("ports/1/pkeys/1", "0x0000")):  # fmt: skip
        file = tmp_path / "infiniband/mlx5_0" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")
    subnet = Subnet()
    learn(subnet, read_files([str(tmp_path / "infiniband")]).files)
    port = subnet.by_lid(3)
    assert port is not None
    assert port.guid == A
    assert port.p_keys is not None
    assert port.p_keys.keys(1)[0] == {0xFFFF, 0}
    assert port.p_key_capacity(1) == 2


def test_lines_that_make_no_sense_are_counted_and_named(tmp_path: Path) -> None:
    file = tmp_path / "guid2lid"
    file.write_text("0x0002c903000000a1 0x0003 0x0003\n<redacted> 0x0004 0x0004\n0x0002c903000000b1 0x0004 0x0006\n")
    found = read_files([str(file)])
    assert found.notes == [f"{file}:2: 2 lines not understood, expected a port GUID, its first LID and its last LID"]
    assert len(found.files[0].facts) == 1, "and a file with damage does not list all LIDs"


def test_refusals(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("to do: buy milk\n")
    with pytest.raises(SubnetFileError, match="is of an unknown kind"):
        read_files([str(text)])
    with pytest.raises(SubnetFileError, match=r"notes.txt:1: is not a valid guid2lid file: expected 3 words"):
        read_files([f"guid2lid:{text}"])
    with pytest.raises(SubnetFileError, match="No such file"):
        read_files([str(tmp_path / "absent")])
    with pytest.raises(SubnetFileError, match="matches no file"):
        read_files([str(tmp_path / "*.conf")])
    conf = tmp_path / "partitions.conf"
    conf.write_text("Default=0x7fff : ALL ;\nA=0x1 : 0x1234567812345678, 12x ;\n")
    with pytest.raises(SubnetFileError, match=r"partitions.conf:2: expected a port GUID of 64 bits; opensm ignores the whole file"):
        read_files([str(conf)])
    with pytest.raises(SubnetFileError, match="is not valid JSON"):
        read_files([f"json:{text}"])


def test_hostile_text_does_no_harm() -> None:
    """Parsers of all kinds on broken samples: no exception but the one that names the line."""
    chance = random.Random(5)
    pieces = ["\0", "٣", "²", "9" * 5000, "{", '"', ":", "0x", "\t", "-1", ",", "==>", "..", "[", "/ports/1/pkeys/0:", "\udc80"]
    for kind, sample in SAMPLES.items():
        for _ in range(60):
            text = list(sample)
            for _ in range(chance.randrange(1, 6)):
                at = chance.randrange(len(text))
                text[at : at + chance.randrange(9)] = chance.choice([chance.choice(pieces), "", *chance.sample(sample, 3)])
            parse = KINDS[kind].parse
            if parse is None:
                continue
            try:
                list(parse(Lines(kind, "".join(text).splitlines())))
            except SubnetFileError as error:
                assert error.line


def test_what_is_not_whole_does_not_list_all_lids(tmp_path: Path) -> None:
    text = SAMPLES["ibnetdiscover"]
    assert read(tmp_path, topology=text).listed
    assert not read(tmp_path, topology=text[: text.index("vendid=0x2c9\ndevid=0x1017\nsysimgguid=0x2c903000000b0")]).listed
    assert not read(tmp_path, topology=text.replace("[2]\t", "<redacted>\t")).listed
    (tmp_path / "topology").unlink()
    assert is_doubtful(read(tmp_path, lids=SAMPLES["guid2lid"]).listed), "may have been cut"
    assert not is_doubtful(read(tmp_path, lids=SAMPLES["guid2lid"], cables=SAMPLES["neighbors"]).listed)
    assert is_doubtful(read(tmp_path, lids=SAMPLES["guid2lid"].split("\n")[0]).listed)


HOSTILE = {
    "keys.json": '{"schema":1,"nodes":[{"guid":"0x1","name":"\\ud800","ports":[{"number":1,"p_keys":[{"keys":5}]}],'
    '"forwarding":{"multicast":[{"ports":5}]}}]}',
    "members.json": '{"schema":1,"groups":[{"mgid":"ff12::1","members":[{"port_gid":"fe80::1","join_state":[[1]]}]}]}',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_json_with_values_of_other_types(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(HOSTILE[name])
    learn(Subnet(), read_files([str(tmp_path / name)]).files)


@pytest.mark.parametrize(
    ("argument", "expected"),
    [("empty", "empty: is empty"), ("prose", "prose: is of an unknown kind"), ("partitions:prose", "partitions is not a kind of file")],
)
def test_files_that_are_of_no_use(tmp_path: Path, argument: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").write_text("")
    Path("prose").write_text("a" * 60_000 + "\n" + " " * 60_000)  # a pattern that looks back would take minutes
    with pytest.raises(SubnetFileError, match=expected):
        read_files([argument])


def test_text_in_a_folder_that_only_looks_like_partitions(tmp_path: Path) -> None:
    (tmp_path / "guid2lid").write_text(SAMPLES["guid2lid"])
    (tmp_path / "notes.txt").write_text("guid of the spine: 0x0002c90200400010\nask Anna\n")
    found = read_files([str(tmp_path)])
    assert [file.kind for file in found.files] == ["guid2lid"]
    (note,) = found.notes
    assert note.startswith(f"{tmp_path}/notes.txt:2: expected a port GUID or one of ALL")
    assert note.endswith("it was not used")


def test_a_table_at_the_end_of_a_cut_output_has_no_known_size(tmp_path: Path) -> None:
    record = SAMPLES["saquery"][SAMPLES["saquery"].index("PKeyTableRecord dump:") :]
    blocks = [
        re.sub(r"(Block\.+)\d+", rf"\g<1>{block}", re.sub(r"(LID\.+)\d+", rf"\g<1>{lid}", record))
        for lid, block in ((3, 0), (3, 1), (4, 0))
    ]
    subnet = read(tmp_path, tables="\n".join(blocks))
    assert [port.p_keys.size for lid in (3, 4) if (port := subnet.by_lid(lid)) is not None and port.p_keys is not None] == [64, 0]


def test_options_and_configuration(tmp_path: Path) -> None:
    """--subnet, [site] subnet and --subnet-time of `lint`."""
    capture, files = REPO / "docs/examples/no-sweep.pcap", REPO / "docs/examples/subnet"
    config = tmp_path / "ibdissect.toml"
    config.write_text(f"[site]\nsubnet = ['{files}', 'guid2lid:lids']\n")
    (tmp_path / "lids").write_text("0x0002c903000000d1 0x0009 0x0009\n")

    def lint(*arguments: str) -> tuple[int, list[tuple[str, str]]]:
        done = commands.run("lint", str(capture), "--format", "jsonl", *arguments, cwd=REPO, text=True)
        return done.returncode, [(found["code"], found["severity"]) for found in map(json.loads, done.stdout.splitlines())]

    assert lint("--config", str(config)) == (1, [("PKY001", "error"), ("LNK020", "warning")]), "a cache keeps ports that left"
    assert lint("--subnet", str(files), "--subnet-time", "1969-01-01") == (0, [("PKY001", "info"), ("LNK020", "info")])
    assert lint("--subnet", str(files), "--subnet-time", "noon")[0] == 2
    config.write_text("[site]\nsubnet = 5\n")
    assert lint("--config", str(config))[0] == 2

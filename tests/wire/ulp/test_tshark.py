"""NVMe, iSER with iSCSI, and RPC-over-RDMA messages of kernel captures say here what they say in tshark."""

from __future__ import annotations

import shutil
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

import ibdissect
from ibdissect.wire.catalog import builtin
from tests import smc
from tests.craft import ethernet_pcap

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark")]

NAMES = {
    "ul_iser": (
        "iser.flags.opcode", "iser.flags.rsv", "iser.write_base_offset", "iser.read_base_offset", "iscsi.opcode", "iscsi.initiatortasktag",
        "iscsi.datasegmentlength", "iscsi.scsicommand.expecteddatatransferlength", "iscsi.scsiresponse.residualcount",
    ),
    "ul_nfs_v4_2": (
        "rpcordma.xid", "rpcordma.version", "rpcordma.flow_control", "rpcordma.msg_type", "rpcordma.position", "rpcordma.rdma_length",
        "rpcordma.rdma_offset",
    ),
    "ul_nvme_connect_io": (
        "nvme.cmd.cid", "nvme.cmd.nsid", "nvme.cmd.opc", "nvme.cqe.sqhd", "nvme.cqe.sqid", "nvme.cqe.cid", "nvme.fabrics.cmd.fctype",
        "nvme.fabrics.cmd.connect.sqsize", "nvme.fabrics.cmd.connect.qid", "nvme.cmd.slba", "nvme.cmd.fua", "nvme.cmd.lr",
        "nvme.cmd.prinfo.action", "nvme.cmd.eilbrt", "nvme.cmd.elbat", "nvme.cmd.elbatm", "nvme.cmd.identify.dword10.cns",
        "nvme.cmd.identify.dword10.cntid", "nvme.cmd.get_logpage.dword10.id", "nvme.cmd.get_logpage.dword10.rae",
        "nvme.cmd.get_logpage.dword10.numdl", "nvme.cmd.get_logpage.dword11.numdu", "nvme.cmd.set_features.dword10.fid",
        "nvme.cmd.set_features.dword10.sv",
    ),
}  # fmt: skip
LEFT_OUT = {"ul_nvme_connect_io": {"nvme.cmd.cid", "nvme.cmd.opc"}}
"""tshark has other names for these in Fabrics commands; they are compared where both have a value."""


def ours(path: Path, names: tuple[str, ...]) -> dict[str, dict[int, list[int]]]:
    found: dict[str, dict[int, list[int]]] = {name: defaultdict(list) for name in names}
    with ibdissect.open(str(path), show_keys=True) as capture:
        columns = capture.table()
        columns.read(names)
        for name in names:
            for frame, value in zip(columns[name].frame.tolist(), columns[name].value.tolist(), strict=True):
                found[name][frame].append(int(value))
    return found


def theirs(path: Path, names: tuple[str, ...]) -> dict[str, dict[int, list[int]]]:
    words = [word for name in names for word in ("-e", name)]
    done = subprocess.run(
        ["tshark", "-r", str(path), "-T", "fields", "-e", "frame.number", *words], capture_output=True, text=True, check=True, timeout=60
    )
    found: dict[str, dict[int, list[int]]] = {name: {} for name in names}
    for line in done.stdout.splitlines():
        number, *values = line.split("\t")
        for name, value in zip(names, values, strict=True):
            if value:
                found[name][int(number)] = [int(one, 0) for one in value.split(",")]
    return found


@pytest.mark.parametrize("capture", sorted(NAMES))
def test_messages_say_the_same(shared: Path, capture: str) -> None:
    path, names = shared / f"captures/rxe/{capture}.pcap", NAMES[capture]
    mine, tshark = ours(path, names), theirs(path, names)
    # The first packet of a longer message: its header is shown here, tshark waits for the rest and then does not know the answer.
    codes = ours(path, ("infiniband.bth.opcode",))["infiniband.bth.opcode"]
    firsts = {frame + behind for frame, code in codes.items() if code == [0] for behind in range(4)}
    for name in names:
        assert tshark[name], name
        if name in LEFT_OUT.get(capture, ()):
            both = set(mine[name]) & set(tshark[name])
            assert len(both) > 20 and all(mine[name][frame] == tshark[name][frame] for frame in both), name
        else:
            different = {frame: values for frame, values in tshark[name].items() if mine[name].get(frame) != values}
            assert not different, name
            assert set(mine[name]) - set(tshark[name]) <= firsts, name


def test_smc_r_says_the_same(tmp_path: Path) -> None:
    """Every field that tshark shows of SMC-R, but the keys of Add Link Continuation, which it reads two bytes too early."""
    path = tmp_path / "smc.pcap"
    path.write_bytes(ethernet_pcap(smc.frames()))
    names = with_their_names("smc.")
    mine, tshark = ours(path, names), theirs(path, names)
    compared = {name for name in names if tshark[name]}
    header = {"smc.proposal.smc.version", "smc.proposal.first.contact", "smc.proposal.smc.type"}
    assert len(compared) > 60 and not {name: mine[name] for name in compared - header if dict(mine[name]) != tshark[name]}
    for name in header:  # tshark has other names for these in some messages
        assert tshark[name].items() <= mine[name].items(), name


def test_smc_version_2_says_the_same(tmp_path: Path) -> None:
    """What tshark has a name for; of Accept and Confirm it is one for each, so their new fields are compared by eye."""
    path = tmp_path / "smc.pcap"
    path.write_bytes(ethernet_pcap([smc.segment(smc.PROPOSAL_V2), smc.segment(smc.CONFIRM_V2, at=2000)]))
    names = tuple(name for name in with_their_names("smc.proposal.", "smc.confirm.gid") if name != "smc.proposal.first.contact")
    mine, tshark = ours(path, names), theirs(path, names)
    compared = {name for name in names if tshark[name]}
    assert len(compared) >= 15 and {"smc.proposal.smcv2.type", "smc.confirm.gid.list.entry_count"} <= compared
    for name in compared:
        assert tshark[name].items() <= mine[name].items(), name


def with_their_names(*starts: str) -> tuple[str, ...]:
    """Names of numbers that begin so and that were declared to be tshark's."""
    numbers = {name: fields[0] for name, fields in builtin().names.items() if fields[0].kind in ("uint", "flag")}
    return tuple(name for name, field in numbers.items() if name.startswith(starts) and field.ws.startswith("smc."))


def test_rds_is_known_here_where_tshark_guesses_nfs(shared: Path) -> None:
    path = shared / "captures/rxe/ul_rds.pcap"
    sequence = ours(path, ("infiniband.rds.sequence",))["infiniband.rds.sequence"]
    assert len(sequence) == 73 and all(values[0] < 100 for values in sequence.values())
    assert theirs(path, ("rpcordma.version",))["rpcordma.version"], "tshark takes an RDS message for RPC-over-RDMA"
    assert not ours(path, ("rpcordma.version",))["rpcordma.version"]

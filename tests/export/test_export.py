"""Exported files of every format contain what `show` prints, without keys, and other tools can read them."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path

import pytest

import ibdissect
from ibdissect.capture.writing import CaptureWriter
from tests import commands, craft
from tests.craft import erf_pcap, ethernet_pcap
from tests.dissect.frames import HOSTILE, M_KEY, R_KEY, all_frames, ethernet_frames
from tests.subnet import made

pytestmark = pytest.mark.slow

pa = pytest.importorskip("pyarrow")
if find_spec("duckdb") is None:
    pytest.skip("needs duckdb", allow_module_level=True)

NAMES = (
    "frame.number", "frame.time", "frame.time_relative", "infiniband.lrh.dlid", "infiniband.bth.opcode", "infiniband.bth.a",
    "infiniband.smp.m_key", "infiniband.reth.r_key", "infiniband.grh.sgid", "infiniband.nodedescription.nodestring",
    "infiniband.smp.initialpath",
)  # fmt: skip


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return commands.run(*words, text=True)


def columns(names: tuple[str, ...]) -> list[str]:
    return [word for name in names for word in ("-e", name)]


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("export") / "native.pcap"
    path.write_bytes(erf_pcap(all_frames()))
    return path


@pytest.fixture(scope="module")
def known() -> tuple[str, ...]:
    from ibdissect.wire.catalog import builtin

    return tuple(name for name in NAMES if name.startswith("frame.") or builtin().fields(name))


def test_all_formats_say_the_same(native: Path, known: tuple[str, ...], tmp_path: Path) -> None:
    import pyarrow.ipc
    import pyarrow.parquet

    for ending in ("parquet", "arrow", "jsonl", "csv"):
        result = run("export", str(native), "--output", str(tmp_path / f"x.{ending}"), *columns(known))
        assert result.returncode == 0, result.stderr
        assert "1 key left out" in result.stderr
    parquet = pyarrow.parquet.read_table(tmp_path / "x.parquet")
    assert parquet.equals(pyarrow.ipc.open_file(tmp_path / "x.arrow").read_all())
    assert parquet.num_rows == len(all_frames())
    assert parquet["frame.time"].type == pa.timestamp("ns", "UTC")
    assert parquet["frame.time"].cast(pa.int64()).to_pylist()[:2] == [1_700_000_000_000_000_000, 1_700_000_000_001_000_000]
    assert str(parquet["frame.time_relative"][1].as_py()) == "0.001000000"
    assert parquet["infiniband.lrh.dlid"].type == pa.uint16()
    assert parquet["infiniband.bth.a"].type == pa.bool_()
    assert parquet["infiniband.grh.sgid"].drop_null().to_pylist() == ["fe80::2:c903:0:1491"]
    lines = [json.loads(line) for line in (tmp_path / "x.jsonl").read_text().splitlines()]
    rows = list(csv.DictReader((tmp_path / "x.csv").open(newline="")))
    for name in ("infiniband.lrh.dlid", "infiniband.bth.opcode"):
        values = parquet[name].to_pylist()
        assert [line[name] for line in lines] == values
        assert [row[name] for row in rows] == ["" if value is None else str(value) for value in values]


def test_values_are_those_of_show(native: Path, tmp_path: Path) -> None:
    names = ("infiniband.bth.psn", "infiniband.lrh.slid", "infiniband.mad.attributeid")
    run("export", str(native), "--output", str(tmp_path / "x.jsonl"), *columns(names))
    shown = [json.loads(line) for line in run("show", str(native), "--format", "jsonl").stdout.splitlines()]
    for line, frame in zip((tmp_path / "x.jsonl").read_text().splitlines(), shown, strict=True):
        fields = {f["name"]: f["value"] for layer in frame["layers"] for f in layer["fields"]}
        assert json.loads(line) == {name: fields.get(name) for name in names}


def test_keys_are_masked_unless_asked_for(native: Path, tmp_path: Path) -> None:
    names = columns(("infiniband.reth.r_key", "infiniband.bth.opcode"))
    run("export", str(native), "--output", str(tmp_path / "x.csv"), *names)
    assert str(R_KEY) not in (tmp_path / "x.csv").read_text()
    run("export", str(native), "--output", str(tmp_path / "y.csv"), *names, "--show-keys")
    assert str(R_KEY) in (tmp_path / "y.csv").read_text()


def test_raw_bytes_that_hold_a_key_are_masked(native: Path) -> None:
    from ibdissect.wire.catalog import builtin

    raw = sorted({f.filter_name for s in builtin().structs for f in s.fields if f.kind in ("raw", "rest")})
    found = []
    for show_keys in (False, True):
        with ibdissect.open(str(native), show_keys=show_keys) as opened:
            found.append(str(opened.table().select(*raw).to_arrow().to_pylist()))
    masked, shown = found
    assert f"{M_KEY:016x}" not in masked
    assert len(masked) > 1000 and len(masked) <= len(shown)


@pytest.mark.parametrize("first", [True, False])
def test_every_name_can_be_written(native: Path, first: bool, tmp_path: Path) -> None:
    import pyarrow.parquet

    from ibdissect.dfilter.names import names_of
    from ibdissect.wire.catalog import builtin

    names = [name for name in names_of(builtin()).every() if ".node" not in name]  # which needs files about the subnet
    for ending in ("csv", "jsonl", "parquet", "arrow"):
        path = tmp_path / f"x.{ending}"
        done = run("export", str(native), "--output", str(path), *columns(tuple(names)), *["--first"] * first)
        assert done.returncode == 0 and f"{len(all_frames())} frames written" in done.stderr, done.stderr
        if ending == "parquet":
            table = pyarrow.parquet.read_table(path)
            assert table.num_columns > 1000 and table.num_rows == len(all_frames())
            assert any(str(kind).startswith("list") for kind in table.schema.types) is not first
        elif ending != "arrow":
            lines = path.read_text().splitlines()
            assert len(lines) == len(all_frames()) + (ending == "csv")


CAPTURES = ".pcap", ".cap", ".pcapng", ".ntar"


def endings(repo: Path) -> list[str]:
    """The extensions that `export` knows, as it says itself."""
    said = run("export", str(repo / "captures/pkey-lab.pcap"), "--output", "x.none").stderr
    found = re.findall(r"\.[a-z]+", said.partition("use one of ")[2])
    assert len(found) > 8
    return found


def test_the_page_names_every_extension(repo: Path) -> None:
    page = (repo / "docs/getting-data-out.md").read_text(encoding="utf-8")
    assert [ending for ending in endings(repo) if f"`{ending}`" not in page and ending not in CAPTURES] == []


def test_csv_cells_are_no_formulas(native: Path, tmp_path: Path) -> None:
    run("export", str(native), "--output", str(tmp_path / "x.csv"), "-e", "infiniband.nodedescription.nodestring", "-e", "_ws.col.info")
    text = (tmp_path / "x.csv").read_text()
    assert HOSTILE[0] not in text and "\u202e" not in text and "[bold]" in text


def test_frames_keep_times_interfaces_and_comments(tmp_path: Path) -> None:
    with CaptureWriter(tmp_path / "in.pcapng") as writer:
        for i, frame in enumerate(ethernet_frames()):
            writer.write(frame, link=1, time_ns=10**18 + i, interface=i % 2, length=len(frame) + i, comments=[f"remark {i}"] * (i % 3))
    result = run("export", str(tmp_path / "in.pcapng"), "--output", str(tmp_path / "out.pcapng"), "--frames", "2-")
    assert result.returncode == 0 and "with the keys in them" in result.stderr
    if shutil.which("tshark") is None:
        pytest.skip("needs tshark")
    seen = [
        subprocess.run(
            ["tshark", "-r", str(tmp_path / name), "-T", "fields", "-e", "frame.time_epoch", "-e", "frame.len", "-e", "frame.comment",
             "-e", "frame.cap_len"], capture_output=True, text=True, check=True,
        ).stdout.splitlines()
        for name in ("in.pcapng", "out.pcapng")
    ]  # fmt: skip
    assert len(seen[0]) > 2 and seen[0][1:] == seen[1]
    assert "remark" in seen[1][0]


@pytest.mark.skipif(shutil.which("capinfos") is None, reason="needs capinfos")
def test_tshark_and_capinfos_read_all_that_is_written(native: Path, tmp_path: Path) -> None:
    ethernet = tmp_path / "ethernet.pcap"
    ethernet.write_bytes(ethernet_pcap(ethernet_frames()))
    targets, frames = list[str](), list[int]()
    for source, count in ((native, len(all_frames())), (ethernet, len(ethernet_frames()))):
        for command, name in (
            ("export", "a.pcap"), ("export", "b.pcapng"), ("annotate", "c.pcapng"), ("scrub", "d.pcap"), ("scrub", "e.pcapng"),
        ):  # fmt: skip
            targets.append(str(tmp_path / f"{source.stem}-{name}"))
            frames.append(count)
            assert run(command, str(source), "--output", targets[-1]).returncode == 0
    counted = subprocess.run(["capinfos", "-M", "-c", "-T", "-r", *targets], capture_output=True, text=True, check=True)
    assert [int(line.split()[-1]) for line in counted.stdout.splitlines()] == frames and not counted.stderr
    subprocess.run(["mergecap", "-a", "-w", tmp_path / "all.pcapng", *targets], check=True)
    words = ["tshark", "-n", "-r", tmp_path / "all.pcapng", "-T", "fields", "-e", "frame.number"]
    read = subprocess.run(words, capture_output=True, text=True, check=True)
    assert read.stdout.split() == [str(number + 1) for number in range(sum(frames))]


def test_findings_and_annotations(native: Path, tmp_path: Path) -> None:
    linted = json.loads(run("lint", str(native), "--format", "json", "--max-findings", "none").stdout)["findings"]
    run("export", str(native), "--output", str(tmp_path / "f.jsonl"), "--findings")
    found = [json.loads(line) for line in (tmp_path / "f.jsonl").read_text().splitlines()]
    assert len(linted) > 3
    assert [(f["code"], f["frame"], f["message"]) for f in found] == [(f["code"], f["frame"], f["message"]) for f in linted]
    assert run("export", str(native), "--output", str(tmp_path / "f.csv"), "--findings").returncode == 0
    assert len(list(csv.DictReader((tmp_path / "f.csv").open(newline="")))) == len(linted)
    assert run("annotate", str(native), "--output", str(tmp_path / "a.pcapng")).returncode == 0
    if shutil.which("tshark") is None:
        pytest.skip("needs tshark")
    words = ["tshark", "-r", str(tmp_path / "a.pcapng"), "-T", "fields", "-E", "aggregator=|", "-e", "frame.number", "-e", "frame.comment"]
    lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    comments = dict(line.split("\t", 1) for line in lines)
    for finding in linted:
        if finding["frame"]:
            assert f"{finding['code']} {finding['name']}: " in comments[str(finding["frame"])]


def test_commands_that_read_captures_show_how_far_they_are(native: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ibdissect import cli

    moved: list[int] = []
    monkeypatch.setattr("ibdissect.cli.output.progress_bar", lambda files, quiet: nullcontext(lambda frames, _: moved.append(frames)))
    target, frames = str(tmp_path / "x.pcapng"), len(all_frames())
    for words in (
        ["annotate", str(native), "--output", target], ["scrub", str(native), "--output", target],
        ["export", str(native), "--output", target],
        ["sql", str(native), "select max(frame_len) from packets"], ["sql", str(native), "select count(*) from findings"],
    ):  # fmt: skip
        assert cli.run(words) == 0
        assert moved and set(moved) == {frames}, words
        moved.clear()


def test_sql_sees_its_tables(native: Path) -> None:
    query = "select bth_opcode, count(*) n, epoch_ns(min(frame_time)) t from packets where bth_opcode = 10 group by 1"
    answer = json.loads(run("sql", str(native), query, "--format", "jsonl").stdout)
    assert answer == {"bth_opcode": 10, "n": 1, "t": 1_700_000_000_006_000_000}
    mads = run("show", str(native), "-Y", "infiniband.mad", "--count").stdout.strip()
    assert int(mads) > 3 and run("sql", str(native), "select count(*) from mads").stdout.split()[-1] == mads
    assert run("sql", str(native), "select count(*) from ports").stdout.split()[-1] == "0"
    assert "error" in run("sql", str(native), "select distinct severity from findings").stdout
    refused = run("sql", str(native), "select nothing from packets")
    assert refused.returncode == 2 and refused.stderr.startswith('error: query: Binder Error: Referenced column "nothing" not found')
    for query in ("select * from read_csv('/etc/passwd')", "copy packets to '/tmp/x.csv'", "attach '/tmp/x.db'", "install httpfs"):
        assert "Permission Error" in run("sql", str(native), query).stderr


def test_sql_tables_hold_facts(tmp_path: Path) -> None:
    """`ports` has what ports report, without requests; the status of a MAD is without the D bit, which is a column."""
    asked, told = made.port_info(0, port_state=0), made.port_info(5)
    frames = [
        craft.smp(1, 0x15, asked, slid=1, dlid=5), craft.smp(0x81, 0x15, told, slid=5, dlid=1), craft.smp(2, 0x15, asked, slid=1, dlid=5),
        craft.smp(0x81, 0x15, told, path=[1]), craft.smp(0x81, 0x10, bytes(64), slid=5, dlid=1, header={"status": 0x1C}),
    ]  # fmt: skip
    path = tmp_path / "subnet.erf.pcap"
    path.write_bytes(erf_pcap(frames))
    queries = (
        "select frame_number, portinfo_portstate, mad_method from ports",
        "select mad_status, smpdirected_d from mads order by frame_number",
    )
    answers = []
    for query in queries:
        with ibdissect.open(str(path)) as opened:
            answers.append(opened.sql(query).to_pylist())
    rows, mads = answers
    assert [tuple(row.values()) for row in rows] == [(2, 4, 0x81), (4, 4, 0x81)]
    assert [row["mad_status"] for row in mads] == [0, 0, 0, 0, 0x1C]
    assert [row["smpdirected_d"] for row in mads] == [None, None, None, 1, None]


def test_codes_have_their_meaning_beside_them(native: Path, tmp_path: Path) -> None:
    """A column `x_name`, `x.name` in export, for each field with named values; other fields have none."""
    query = "select distinct bth_opcode c, bth_opcode_name n from packets where bth_opcode is not null order by c"
    found = json.loads(run("sql", str(native), query, "--format", "json").stdout)
    assert {"c": 100, "n": "UD SEND Only"} in found
    assert run("sql", str(native), "select bth_psn_name from packets").returncode == 2
    made = run("export", str(native), "-e", "bth.opcode", "-e", "bth.opcode.name", "-o", str(tmp_path / "x.csv"))
    assert made.returncode == 0
    rows = (tmp_path / "x.csv").read_text().splitlines()
    assert rows[0] == '"infiniband.bth.opcode","infiniband.bth.opcode.name"' and '100,"UD SEND Only"' in rows


SQL_VALUES = """select null::timestamp_ns a, null::decimal(9, 2) b, 0.0 / 0 c, date '2020-02-29' d, interval 3 days e, 'xy'::blob f,
    {'g': [1.5, 1e999]} g, [date '2020-02-29'] h, '1'::enum('1') i, map{'k': 1} j, timestamp_ns '2020-02-29 01:02:03.000000004' k, 7 l"""


def test_sql_reads_only_the_columns_of_the_query(native: Path) -> None:
    from ibdissect.tables.sql import Database

    with ibdissect.open(str(native)) as opened, Database(opened, (), opened.lint) as database:
        assert database._read_by("select count(*) from packets") == {"packets": []}
        assert database._read_by("select m.mad_method from mads m where frame_number > 3") == {"mads": ["frame_number", "mad_method"]}
        assert database._read_by("from ports")["ports"] == list(database.columns["ports"])
        assert database._read_by("create table x as from packets; select * from x").keys() == {"packets"}
        (count,) = database.run("select count(*) from packets").read_all().column(0).to_pylist()
    assert count == len(all_frames())


def test_sql_knows_every_filter_name_and_says_which_tables_there_are(native: Path) -> None:
    lines = run("sql", str(native), "show tables", "--format", "jsonl").stdout.splitlines()
    tables = [json.loads(line) for line in lines]
    assert {each["name"] for each in tables} == {"packets", "mads", "ports", "connections", "messages", "records", "requests", "findings"}
    assert {"name": "packets", "column": "bth_psn", "type": "uinteger", "means": "Packet Sequence Number"} in tables
    assert all(each["means"] for each in tables)
    query = "select p.lrh_lnh, frame_time_delta, ibdissect_code, mad_classversion from packets p order by frame_number limit 1"
    found = json.loads(run("sql", str(native), query, "--format", "json").stdout)
    shown = run("show", str(native), "--frames", "1", "-e", "lrh.lnh", "-e", "frame.time_delta", "-e", "mad.classversion").stdout
    assert [found[0][key] for key in ("lrh_lnh", "frame_time_delta", "mad_classversion")] == [
        float(shown.split("\t")[0]), float(shown.split("\t")[1]), int(shown.split("\t")[2], 16)
    ]  # fmt: skip
    refused = run("sql", str(native), "from packet")
    assert refused.returncode == 2 and refused.stderr == "error: query: there is no table packet; did you mean packets?\n"
    for name in ("bth.psn", '"infiniband.bth.psn"'):
        assert run("sql", str(native), f"select {name} from packets").stderr.endswith(f"; in SQL, {name.strip(chr(34))} is bth_psn\n")
    assert run("sql", str(native), "select 1 a limit 0", "--format", "json").stdout == "[]\n"


def test_standard_output(native: Path, tmp_path: Path) -> None:
    names = columns(("frame.number", "infiniband.bth.psn"))
    assert run("export", str(native), "--output", str(tmp_path / "x.csv"), *names).returncode == 0
    done = run("export", str(native), "--output", "-", *names)
    assert done.stdout == (tmp_path / "x.csv").read_text() and "frames written to standard output" in done.stderr
    pcap = commands.run("export", str(native), "--output", "-", "--format", "pcap")
    assert commands.run("show", "-", "--count", stdin=pcap.stdout, text=True).stdout.strip() == str(len(all_frames()))
    assert run("export", str(native), "--output", "-", "--format", "pcap", "--first").returncode == 2


def test_whatever_sql_answers_is_written(native: Path) -> None:
    """Nulls of every type, and types that no capture has."""
    day = "2020-02-29"
    found = json.loads(run("sql", str(native), SQL_VALUES, "--format", "jsonl").stdout, parse_constant=pytest.fail)
    assert found == {
        "a": None, "b": None, "c": None, "d": day, "e": [0, 3, 0], "f": "7879", "g": {"g": [1.5, None]}, "h": [day], "i": "1",
        "j": [["k", 1]], "k": f"{day}T01:02:03.000000004Z", "l": 7,
    }  # fmt: skip
    (row,) = csv.DictReader(run("sql", str(native), SQL_VALUES, "--format", "csv").stdout.splitlines())
    assert [row[name] for name in "abdefhij"] == ["", "", day, "[0, 3, 0]", "7879", day, "1", '[["k", 1]]']
    text = run("sql", str(native), SQL_VALUES).stdout
    assert day in text and '{"g": [1.5, null]}' in text and "7879" in text


def test_a_request_without_an_answer_has_null_in_every_format(native: Path, tmp_path: Path) -> None:
    names = columns(("frame.number", "ibdissect.response_frame", "ibdissect.response_time"))
    assert run("export", str(native), "--output", str(tmp_path / "x.jsonl"), *names).returncode == 0
    lines = [json.loads(line) for line in (tmp_path / "x.jsonl").read_text().splitlines()]
    assert {"frame.number": 6, "ibdissect.response_frame": None, "ibdissect.response_time": None} in lines


def test_unknown_names_are_reported_without_a_column(native: Path, tmp_path: Path) -> None:
    for words in (["show", str(native)], ["export", str(native), "--output", str(tmp_path / "x.csv")], ["sql", str(native), "select 1"]):
        done = run(*words, "-e", "bth.psnn")
        assert done.returncode == 2 and done.stderr.startswith('error: there is no field "bth.psnn"; did you mean ')
    assert run("fields", "bth.psnn").stderr.startswith('error: no field has "bth.psnn" in its name or label; did you mean ')


def test_errors_leave_the_old_file(native: Path, tmp_path: Path) -> None:
    target = tmp_path / "x.csv"
    target.write_text("old")
    assert run("export", str(native), "--output", str(target), "-e", "no.such").returncode == 2
    assert run("export", str(native), "--output", str(target), "-Y", "((").returncode == 2
    assert run("export", str(tmp_path / "none.pcap"), "--output", str(target)).returncode == 2
    assert run("export", str(native), "--output", str(native)).returncode == 2
    assert run("export", str(native), "--output", str(tmp_path / "x.doc")).returncode == 2
    assert run("export", str(native), "--output", str(tmp_path / "no" / "x.csv")).returncode == 2
    assert (target.read_text(), os.listdir(tmp_path)) == ("old", ["x.csv"])


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("long") / "in.pcap"
    path.write_bytes(ethernet_pcap(ethernet_frames() * 40_000))
    return path


@pytest.mark.parametrize(
    ("command", "name"), [("export", "out.csv"), ("export", "out.parquet"), ("export", "out.pcapng"), ("scrub", "out.pcap")]
)
def test_killed_while_writing_leaves_the_old_file(long: Path, tmp_path: Path, command: str, name: str) -> None:
    target = tmp_path / name
    target.write_text("old")
    child = subprocess.Popen([sys.executable, "-m", "ibdissect", command, str(long), "--output", str(target), "-q"])
    while not list(tmp_path.glob(f".{name}.*")) and child.poll() is None:
        time.sleep(0.001)
    child.send_signal(signal.SIGKILL)
    assert child.wait(60) == -signal.SIGKILL
    assert target.read_text() == "old"


def test_without_the_extra_it_says_what_to_install(native: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pyarrow", "duckdb"):
        monkeypatch.setitem(sys.modules, name, None)

    def said(*words: str) -> str:
        done = commands.run(*words, text=True, here=True)
        assert done.returncode == 2
        return str(done.stderr)

    export = "export", str(native), "--output", str(tmp_path / "x.parquet")
    assert "python -m pip install 'ibdissect[export]'" in said(*export)
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    (tmp_path / "pipx_metadata.json").touch()
    assert "install them: pipx inject ibdissect duckdb pyarrow" in said("sql", str(native), "select 1")
    (tmp_path / "uv-receipt.toml").touch()
    assert "install it: uv pip install --python" in said(*export)


def test_names_of_columns_are_escaped_and_dates_of_no_calendar_are_refused(native: Path) -> None:
    """A query may be a stranger's, too."""
    query = 'select 1 as "a\x1b[31m\u202e\n::error::x"'
    for form in ("text", "csv", "json", "jsonl"):
        done = run("sql", str(native), query, "--format", form)
        assert done.returncode == 0 and all(line.isprintable() for line in done.stdout.splitlines()), (form, done.stdout, done.stderr)
        assert not done.stdout.startswith("::") and "\n::" not in done.stdout
        assert "\\x1b" in done.stdout or "\\u001b" in done.stdout
    for form in ("json", "jsonl"):
        done = run("sql", str(native), "select date '-4000-01-01'", "--format", form)
        assert done.returncode == 2 and "query: date value out of range" in done.stderr and "Traceback" not in done.stderr


def choices(command: str) -> list[str]:
    """The formats that a command offers."""
    found = re.search(r"--format \[([a-z|]+)\]", run(command, "--help").stdout)
    assert found is not None
    return found[1].split("|")


def test_every_format_is_written_and_every_extension_is_one(native: Path, repo: Path, tmp_path: Path) -> None:
    formats = choices("export")
    assert {f".{name}" for name in formats} <= {*endings(repo)}
    written = {}
    for name in (*formats, *(ending.removeprefix(".") for ending in endings(repo))):
        path = tmp_path / f"x.{name}"
        words = [] if f".{name}" in CAPTURES else ["-e", "frame.number"]
        done = run("export", str(native), "--output", str(path), *words)
        assert done.returncode == 0 and path.stat().st_size > 30, (name, done.stderr)
        written[name] = path.read_bytes()[:4]
    assert written["arrow"] == written["feather"] and written["jsonl"] == written["ndjson"] and written["pcapng"] == written["ntar"]
    for name in choices("sql"):
        said = run("sql", str(native), "select 17 as one", "--format", name)
        assert said.returncode == 0 and "one" in said.stdout and "17" in said.stdout, name

"""A plugin's `@on_chunk` handler sees PDUs of a stream, wherever segments cut them, and MADs as before."""

from __future__ import annotations

from pathlib import Path

from ibdissect.lint.chunk_with_pdus import ChunkWithPdus
from ibdissect.python_interface import Capture
from ibdissect.wire.ulp.ip import TCP
from tests import commands
from tests.craft import ethernet_pcap
from tests.decode.made import table_of
from tests.transport.test_tcp_streams import PLUGIN, opening, pdu, segment

RULE = """
from ibdissect.lint.rule import Rule, Seen, each, fault, on_chunk


class Counted(Rule):
    "PDUs are counted. Why. What to do."
    code, name, message, example, reference = "TCX002", "pdu-counted", "{text}", "any", "X 1"

    @on_chunk
    def window(self, table, context):
        found = table.occurrences(Pdu)
        rows, sizes = found.rows.tolist(), table.values(Pdu.length).tolist()
        assert [len(table.chunk.data[a:b]) for a, b in zip(found.at, found.stop)] == sizes
        assert (table.of_rows(Pdu.length)[0][rows] > 0).all() and table.first(Pdu)[0] == -1 and len(table) == 4
        assert table.column(Pdu.length).values.tolist() == table.matrix(Pdu)[:, 1].tolist() == sizes
        assert table.values_at(Pdu.length, found.rows).tolist() == [6, 6, 90]
        assert table.where(Pdu, ((Pdu.length, {90}),)).tolist() == [False, False, True]
        for i, seen, view in each(table, Pdu, table.values(Pdu.length) > 0):
            yield fault(seen, {"text": f"PDU of {view.length} in row {rows[i]}"}, Pdu.length, of=view, key=i)
"""


def test_it_sees_each_pdu_once(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text(PLUGIN + RULE)
    data = pdu(6) + pdu(6) + pdu(90)
    frames = [*opening(), segment(data[:20], 1000), segment(data[20:70], 1020), segment(data[70:], 1070)]
    (tmp_path / "x.pcap").write_bytes(ethernet_pcap(frames))
    words = ("lint", "--plugin", str(tmp_path / "x.py"), str(tmp_path / "x.pcap"), "--select", "TCX", "--format", "github")
    done = commands.run(*words, text=True)
    found = [(line.split("::frame ")[1].split(":")[0], line.rsplit(": ", 1)[1]) for line in done.stdout.splitlines()]
    assert found == [("2", "PDU of 6 in row 1"), ("2", "PDU of 6 in row 1"), ("4", "PDU of 90 in row 3")], done


def test_each_structure_is_asked_of_the_table_that_has_it(tmp_path: Path) -> None:
    """A PDU of the chunk that shows them, whatever is asked; a header of the chunk itself."""
    (tmp_path / "x.py").write_text(PLUGIN)
    frames = [*opening(), segment(pdu(6) + pdu(6)[:3], 1000), segment(pdu(6)[3:], 1009)]
    (tmp_path / "x.pcap").write_bytes(ethernet_pcap(frames))
    with Capture(str(tmp_path / "x.pcap"), plugins=[tmp_path / "x.py"]) as capture:
        (table,) = capture.tables()
        of_pdus = next(one for one in table.catalog.structs if one.__name__ == "Pdu")
        both, shown = ChunkWithPdus(table), table.shown
        assert both.of(of_pdus) is shown and both.of(TCP) is table is not shown and both.chunk is shown.chunk
        assert (len(both), len(both.occurrences(of_pdus)), len(both.occurrences(TCP))) == (3, 2, 3)
        for struct, field, where in ((of_pdus, of_pdus.length, shown), (TCP, TCP.source_port, table)):
            rows = where.occurrences(struct).rows
            assert both.occurrences(struct) is where.occurrences(struct)
            assert both.view(struct, 1).offset == where.view(struct, 1).offset
            assert both.first(struct).tolist() == where.first(struct).tolist()
            assert both.matrix(struct).tolist() == where.matrix(struct).tolist()
            assert both.values(field).tolist() == where.values(field).tolist()
            assert both.values_at(field, rows[1:]).tolist() == where.values_at(field, rows[1:]).tolist()
            assert [part.tolist() for part in both.of_rows(field)] == [part.tolist() for part in where.of_rows(field)]
            wanted = ((field, {int(where.values(field)[0])}),)
            assert both.where(struct, wanted).tolist() == where.where(struct, wanted).tolist() and both.where(struct, wanted).any()
            for repeated in (False, True):
                assert both.column(field, repeated=repeated).values.tolist() == where.column(field, repeated=repeated).values.tolist()


def test_it_has_all_that_a_table_has() -> None:
    table = table_of(ethernet_pcap(opening()))
    both = ChunkWithPdus(table)
    assert both.located is table.located and both.catalog is table.catalog and both.of(TCP) is table and both.chunk is table.chunk

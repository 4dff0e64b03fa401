"""A plugin's `@on_chunk` handler sees PDUs of a stream, wherever segments cut them, and MADs as before."""

from __future__ import annotations

from pathlib import Path

from tests import commands
from tests.craft import ethernet_pcap
from tests.transport.test_tcp_streams import PLUGIN, opening, pdu, segment

RULE = """
from ibdissect.lint.rule import Rule, Seen, each, fault, on_chunk
from ibdissect.wire.ulp.ip import TCP


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
        for struct, field, where, values in ((Pdu, Pdu.length, rows, sizes), (TCP, TCP.source_port, [0, 1, 2, 3], [40000] * 4)):
            assert table.occurrences(struct).rows.tolist() == where and table.values(field).tolist() == values
            assert table.values_at(field, table.occurrences(struct).rows).tolist()[-1] == values[-1]
            assert field.__get__(table.view(struct, 1), struct) == values[1] and table.first(struct)[where[0]] == 0
            assert len(table.matrix(struct)) == len(values) and table.where(struct, ((field, {values[0]}),)).any()
            assert [table.column(field, repeated=one).values.tolist() for one in (False, True)] == [values, values]
        assert table.chunk is table.shown.chunk and table.catalog is table.shown.catalog
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

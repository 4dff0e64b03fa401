"""The messages of conversations are counted, and their filters show them."""

from __future__ import annotations

from pathlib import Path

from ibdissect.pipeline.check import CheckOptions
from ibdissect.tui.screens.conversations import ConversationTable, ExchangeTable
from tests import craft, keyed
from tests.screen_model.made import opened, selected, studied, written


def test_messages_are_counted_and_timed(tmp_path: Path) -> None:
    sent = [craft.rc(code, bytes(8), slid=1, dlid=2, bth={"destqp": 16, "psn": psn}) for psn, code in enumerate((0, 2, 4, 4))]
    ack = craft.rc(0x11, ext={"AETH": {"syndrome": 0x1F, "msn": 2}}, slid=2, dlid=1, bth={"destqp": 32, "psn": 2})
    model = opened(written(tmp_path, *sent[:3], ack, sent[3]))
    (one,) = studied(model)[1].conversations
    assert (one.packets, one.messages) == ((4, 1), 3)
    assert one.times is not None and one.times.count == 2 and 0 < one.times.least < one.times.most
    model.close()


def test_filters_of_conversations_show_their_packets(tmp_path: Path) -> None:
    """Ends are LIDs, IPv4 addresses, also on a VLAN, or IPv6 addresses; the queue pair of a sender is known of datagrams only."""
    native = [
        craft.rc(opcode, bytes(8), slid=1, dlid=2, bth={"destqp": opcode + 1}, **more)
        for opcode, more in ((0x04, {}), (0x64, {"ext": {"DETH": {"srcqp": 0x11}}}), (0x24, {}))
    ]  # fmt: skip
    there = {"source": bytes([10, 9, 9, 1]), "destination": bytes([10, 9, 9, 2])}
    tagged = [
        craft.roce2(opcode, bytes(8), bth={"destqp": opcode + 1}, ip=there, vlan=3, **more)
        for opcode, more in ((0x04, {}), (0x64, {"ext": {"DETH": {"srcqp": 0x11}}}), (0x24, {}))
    ]  # fmt: skip
    roce = [keyed.roce(one, version) for version in (4, 6) for one in native]
    for name, data, count in (("x.pcap", craft.erf_pcap(native * 2), 3), ("y.pcap", craft.ethernet_pcap((roce + tagged) * 2), 9)):
        (tmp_path / name).write_bytes(data)
        _, shot = studied(opened(tmp_path / name), CheckOptions(rules=[]))
        table, model = ConversationTable(shot.conversations), opened(tmp_path / name)
        found = [(one.service, selected(model, table.answer(one))) for one in shot.conversations]
        assert sorted(frames for _, frames in found) == [[frame, frame + count] for frame in range(1, count + 1)]
        assert sorted(service for service, _ in found) == sorted(["RC", "UC", "UD"] * (count // 3))
        model.close()


def test_filters_of_exchanges_show_their_packets(tmp_path: Path) -> None:
    """The other end of a request on a directed route is not known: its filter is that of the class."""
    asks, sweep = craft.gmp(4, 1, 0x12, slid=1, dlid=2), craft.smp(1, 0x11, path=[1])
    path = written(tmp_path, asks, sweep, craft.gmp(4, 0x81, 0x12, slid=2, dlid=1), craft.gmp(3, 1, 0x11, slid=1, dlid=2))
    _, shot = studied(opened(path), CheckOptions(rules=[]))
    table, model = ExchangeTable(shot.exchanges), opened(path)
    texts = {one.kind: table.answer(one) for one in shot.exchanges}
    assert {kind: selected(model, text) for kind, text in texts.items()} == {"PM": [1, 3], "SM (directed)": [2], "SA": [4]}
    assert "infiniband.mad.mgmtclass == 0x81" in texts.values()
    model.close()

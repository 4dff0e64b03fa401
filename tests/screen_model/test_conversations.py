"""The messages of conversations are counted, and their filters are valid."""

from __future__ import annotations

from pathlib import Path

from ibdissect.decode.addresses import End
from ibdissect.dfilter.compile import compile_filter
from ibdissect.mad.response_times import Exchange
from ibdissect.screen_model.conversations import Conversation, conversation_filter, exchange_filter
from tests import craft
from tests.screen_model.made import opened, studied, written


def test_messages_are_counted_and_timed(tmp_path: Path) -> None:
    sent = [craft.rc(code, bytes(8), slid=1, dlid=2, bth={"destqp": 16, "psn": psn}) for psn, code in enumerate((0, 2, 4, 4))]
    ack = craft.rc(0x11, ext={"AETH": {"syndrome": 0x1F, "msn": 2}}, slid=2, dlid=1, bth={"destqp": 32, "psn": 2})
    model = opened(written(tmp_path, *sent[:3], ack, sent[3]))
    (one,) = studied(model)[1].conversations
    assert (one.packets, one.messages) == ((4, 1), 3)
    assert one.times is not None and one.times.count == 2 and 0 < one.times.least < one.times.most
    model.close()


def test_filters_of_conversations_compile() -> None:
    for near, far in ((End(b"\0\1"), End(b"\0\2")), (End(b"\n\0\0\1"), End(b"\n\0\0\2")), (End(bytes(15) + b"\1"), End(bytes(15) + b"\2"))):
        for service, qp in (("RC", 0x11), ("UD", 0x11), ("UC", -1)):
            text = conversation_filter(Conversation(service, near, qp, far, 0x12, (1, 1), (9, 9), (), 1))
            compile_filter(text)
            other = [End(end + b"\0\0\3") for end in (near, far)]  # on another VLAN, say
            assert conversation_filter(Conversation(service, other[0], qp, other[1], 0x12, (1, 1), (9, 9), (), 1)) == text
        compile_filter(exchange_filter(Exchange(near, far, 3)))
    assert exchange_filter(Exchange(End(b"\xff\xff"), "directed routes", 0x81)) == "infiniband.mad.mgmtclass == 0x81"

"""Are the filters of conversations valid?"""

from __future__ import annotations

from ibdissect.dfilter.compile import compile_filter
from ibdissect.flow.exchanges import ROUTES, Exchange
from ibdissect.study.conversations import Conversation, conversation_filter, exchange_filter
from ibdissect.table.addresses import End


def test_filters_of_conversations_compile() -> None:
    for near, far in ((End(b"\0\1"), End(b"\0\2")), (End(b"\n\0\0\1"), End(b"\n\0\0\2")), (End(bytes(15) + b"\1"), End(bytes(15) + b"\2"))):
        for service, qp in (("RC", 0x11), ("UD", 0x11), ("UC", -1)):
            compile_filter(conversation_filter(Conversation(service, near, qp, far, 0x12, (1, 1), (9, 9), (), 1)))
        compile_filter(exchange_filter(Exchange(near, far, 3)))
    assert exchange_filter(Exchange(End(b"\xff\xff"), ROUTES, 0x81)) == "infiniband.mad.mgmtclass == 0x81"

"""A protocol whose requests, answers and remarks are about fields behind parts of variable size."""

from ibdissect.words import (
    ERROR,
    DestQP,
    Hit,
    Rule,
    Seen,
    Struct,
    answer,
    choice,
    column,
    enum,
    nested,
    note,
    on_struct,
    optional,
    repeat,
    summary,
    uint,
)


class Parts(Struct, prefix="parts"):
    """All of it."""


class Ask(Parts):
    what = uint(16, "What", at="0", holds="number")
    info = summary("asks {what}")


class Reply(Parts):
    size_ = uint(8, "Reply Size", at="0", unit="bytes")
    wide = optional(size_ == 4, uint(32, "Wide", holds="number"))
    status = uint(8, "Status", holds="number")
    info = summary("says {status}")
    notes = note(status != 0, "it failed")


class Pdu(Parts):
    op = enum(8, {1: "ask", 2: "reply"}, "Operation", at="0")
    short = optional(op == 1, uint(8, "Short", holds="number"))
    tag = uint(8, "Tag", holds="number")
    late = uint(8, "Late", holds="number")
    body = choice(op, {1: Ask, 2: Reply}, "Body")
    info = summary("tag {tag}")
    answers = answer(asks=op == 1, when=op == 2, by=tag)
    notes = note((late > 5) & (tag != 9), "late")


class Frame(Parts, carried_by=DestQP(0xBCE)):
    count = uint(8, "Count", at="0", holds="number")
    pdus = repeat(nested(Pdu, "PDU"), count=count)
    info = summary("{count} PDUs")


doubled = column(Pdu, "doubled", lambda view: view.tag * 2, "Doubled")


class Late(Rule):
    """A PDU is late.

    Why.

    Do something.
    """

    code, name, severity = "PAR001", "late-pdu", ERROR
    on = Pdu
    when = (Pdu.late > 5) & (Pdu.tag == 2)
    message = "tag {tag}, twice {doubled}, late {late}"
    example = "a late PDU"


class Order(Rule):
    """Structures follow each other.

    Why.

    Do something.
    """

    code, name, severity = "PAR002", "order-of-structures", ERROR
    message = "{said}"
    example = "any"

    @on_struct(Reply, Ask)
    def look(self, view: Struct, seen: Seen) -> list[Hit]:
        return [self.hit(seen, view, said=f"{type(view).__name__} in {seen.frame}")]

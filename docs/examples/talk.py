"""A protocol of requests and replies, with all that a plugin may say of them beside their bytes, and a vendor's management class."""

from ibdissect.lint.rule import ERROR, WARNING, Rule
from ibdissect.lint.sequence import previous, unless, within
from ibdissect.wire.dialogue import VendorClass, answer, note, summary
from ibdissect.wire.places import DestQP
from ibdissect.wire.spec import Struct, enum, uint

acme = VendorClass(0x32, 0x00ACE2, "Acme", methods={0x81: "Reply"}, attributes={0x0200: "Fans"}, status={5: "a fan is broken"})


class Talk(Struct):
    """A request or a reply."""

    prefix, key, section, size = "acme", "talk", "ACME PRM 12", 8
    carried_by = DestQP(0xACE)
    op = enum(8, {1: "read", 2: "reply"}, "Operation", at="0")
    tag = uint(8, "Tag", at="1", holds="number")
    sequence = uint(16, "Sequence", at="2", holds="number")
    celsius = uint(32, "Celsius", at="4", unit="°C")

    info = summary("{op} tag {tag}")
    answers = answer(asks=op == 1, when=op == 2, by=tag)
    notes = note(celsius > 70, "too hot"), note(tag == 0, "tag 0 is reserved")


class TagAgain(Rule):
    """A tag is used again before its reply can be told apart from the one before.

    The client takes the wrong data.

    Update the client.
    """

    code, name, severity = "ACME021", "tag-again", ERROR
    reference = "ACME PRM 12"
    when = (Talk.op == 1) & (previous(Talk.tag, where=Talk.op == 1, same=Talk.tag, one_way=True) == Talk.tag) & within(1.0)
    message = "tag {tag} is used again"
    example = "two reads with one tag within a second"


class NotAnswered(Rule):
    """A read is not answered in time.

    The client waits.

    Look at the server's load.
    """

    code, name, severity = "ACME022", "no-reply", WARNING
    reference = "ACME PRM 12"
    when = (Talk.op == 1) & unless(Talk.op == 2, same=Talk.tag, within=0.5)
    message = "no reply to tag {tag} within half a second"
    example = "a read without a reply, and half a second more"


class SequenceFell(Rule):
    """A sequence number is not larger than the one before.

    Packets were sent in the wrong order.

    Update the client.
    """

    code, name, severity = "ACME023", "sequence-fell", WARNING
    reference = "ACME PRM 12"
    when = Talk.sequence <= previous(Talk.sequence, one_way=True)
    message = "sequence {sequence}"
    example = "two PDUs in the wrong order"

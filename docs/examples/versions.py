"""A protocol whose peers agree on a version first: what a PDU holds depends on what its conversation has shown before."""

from ibdissect.wire.kept import kept
from ibdissect.wire.places import UdpPort
from ibdissect.wire.spec import Struct, enum, secret, text, uint
from ibdissect.wire.tail import choice, optional, repeat

HELLO, READ, LIST, REPLY = 1, 2, 3, 4


class Hello(Struct):
    """What both sides agree on."""

    prefix, key, section, size = "acme", "hello", "ACME PRM 20.1", 2
    version = uint(8, "Version", at="0", holds="number")
    more = uint(8, "Trailer Size", at="1", unit="bytes")


class Old(Struct):
    """A value as version 1 has it."""

    prefix, key, section, size = "acme", "old", "ACME PRM 20.2", 2
    value = uint(16, "Old Value", at="0", holds="number")


class New(Struct):
    """A value as version 2 has it, with the key of its owner."""

    prefix, key, section, size = "acme", "new", "ACME PRM 20.3", 8
    value = uint(32, "New Value", at="0", holds="number")
    key_ = secret(32, "Owner_Key", "Owner Key", at="4")


class Name(Struct):
    """What a request asks for."""

    prefix, key, section, size = "acme", "name", "ACME PRM 20.4", 1
    length = uint(8, "Name Length", at="0", unit="bytes")
    name = text(length, "Name")


class Value(Struct):
    """A reply's value, as the other side's hello says."""

    prefix, key, section, size = "acme", "reply", "ACME PRM 20.5", 1
    count = uint(8, "Row Count", at="0", holds="number")
    value = choice(kept(Hello.version, way="other"), {1: Old, 2: New}, "Value")


class Pdu(Struct):
    """A PDU. The request with its tag decides whether a reply has rows."""

    prefix, key, section, size = "acme", "pdu", "ACME PRM 20", 2
    carried_by = UdpPort(7800)
    op = enum(8, {HELLO: "hello", READ: "read", LIST: "list", REPLY: "reply"}, "Operation", at="0")
    tag = uint(8, "Tag", at="1", holds="number")
    body = choice(op, {HELLO: Hello, READ: Name, LIST: Name, REPLY: Value}, "Body")
    rows = optional((op == REPLY) & (kept(op, where=op != REPLY, same=tag) == LIST), repeat(uint(16, "Row", holds="number"), count=2))
    trailer = optional(op == REPLY, text(kept(Hello.more), "Trailer"))

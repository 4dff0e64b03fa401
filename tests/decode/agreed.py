"""A plugin whose PDUs depend on a hello, over TCP, connections and in a vendor's MADs."""

from __future__ import annotations

from ibdissect.words import CmPayload, Stream, Struct, TcpPort, VendorOui, choice, enum, kept, repeat, secret, uint

PORT, OUI, SERVICE = 7420, 0x00ACE6, 0x0000_00AC_E600_0007
HELLO, VALUES = 1, 2


class Hello(Struct):
    """The version that counts from now on."""

    prefix, key, section, size = "agreed", "hello", "AGREED 1", 2
    version = uint(16, "Version", at="0", holds="number")


class Old(Struct):
    """A value of version 1."""

    prefix, key, section, size = "agreed", "old", "AGREED 2", 4
    value = uint(32, "Old Value", at="0", holds="number")


class New(Struct):
    """A value of version 2."""

    prefix, key, section, size = "agreed", "new", "AGREED 3", 8
    value = uint(32, "New Value", at="0", holds="number")
    key_ = secret(32, "Agreed_Key", "Agreed Key", at="4")


class Value(Struct):
    """A value, as the version says."""

    prefix, key, section, size = "agreed", "value", "AGREED 4", 1
    tag = uint(8, "Value Tag", at="0", holds="number")
    value = choice(kept(Hello.version), {1: Old, 2: New}, "Value")
    rows = repeat(uint(32, "Row", holds="number"))


class Pdu(Struct):
    """A PDU."""

    prefix, key, section, size = "agreed", "pdu", "AGREED 5", 4
    op = enum(16, {HELLO: "hello", VALUES: "values"}, "Operation", at="0")
    length = uint(16, "PDU Length", at="2", unit="bytes")
    body = choice(op, {HELLO: Hello, VALUES: Value}, "Body")
    carried_by = Stream(TcpPort(PORT), length=length), Stream(CmPayload(SERVICE), length=length), VendorOui(OUI, 0x32, 0x0400)

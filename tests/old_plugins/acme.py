"""A whole plugin in one file: a vendor's MAD attribute, a plain Scapy layer, and a rule about each.

    ibdissect show --plugin docs/examples/acme.py --format tree CAPTURE
    ibdissect lint --plugin docs/examples/acme.py CAPTURE

Nothing is registered: the structures appear in the tree, in `ibdissect fields acme`, in filters (`acme.level > 90`), in columns and as
Scapy layers; the rules run with the others.
"""

from scapy.fields import ByteEnumField, IntField, ShortField
from scapy.packet import Packet

from ibdissect.layers.plugin import from_scapy
from ibdissect.lint.rule import ERROR, WARNING, Rule
from ibdissect.wire.mad import MAD
from ibdissect.wire.places import DestQP, Mad
from ibdissect.wire.spec import Struct, array, nested, pad, uint


class AcmeBuffer(Struct):
    """One buffer of an ACME switch port."""

    key, section, size = "acme.buffer", "ACME PRM 7.3", 4
    vl = uint(4, "VL", at="0")
    reserved = pad(4, at="0[4]")
    level = uint(8, "Level", at="1", unit="%")
    drops = uint(16, "Drops", at="2")


class AcmeBuffers(Struct):
    """High-water marks of the buffers of a port (vendor class 0x0B, attribute 0xFF10)."""

    key, section, size = "acme", "ACME PRM 7.3", 36
    carried_by = (Mad(0x0B, 0xFF10, methods=frozenset({0x81})),)
    port = uint(8, "Port", at="0")
    reserved = pad(8, at="1")
    limit = uint(16, "Limit", at="2", unit="%")
    buffers = array(8, nested(AcmeBuffer, "Buffers", at="4"))


class AcmeHeartbeat(Packet):
    """A layer written for Scapy alone; `from_scapy` makes a structure of it."""

    name = "ACME heartbeat"
    fields_desc = [ShortField("sequence", 0), ByteEnumField("state", 0, {0: "idle", 1: "busy", 2: "failed"}), IntField("uptime", 0)]


Heartbeat = from_scapy(AcmeHeartbeat, key="acmebeat", carried_by=(DestQP(0xACE),))


class BufferOverLimit(Rule):
    """A buffer's high-water mark is above the limit of its port.

    ## Why it matters
    Packets of that VL were dropped, or soon will be.

    ## What to do
    Raise the limit, or find the sender that ignores its credits.
    """

    code, name, severity = "ACME001", "buffer-over-limit", WARNING
    reference = "ACME PRM 7.3"
    on = AcmeBuffer
    when = AcmeBuffer.level > AcmeBuffers.limit
    at = AcmeBuffer.level
    message = "port {AcmeBuffers.port}, VL {vl}: {level} % is above the limit of {AcmeBuffers.limit} %"
    example = "GetResp(AcmeBuffers) with a Level above Limit"


class BuffersModifier(Rule):
    """An AcmeBuffers request names no port.

    ## Why it matters
    The agent answers port 0 with stale numbers.

    ## What to do
    Give the port in the attribute modifier.
    """

    code, name, severity = "ACME002", "buffers-without-port", ERROR
    reference = "ACME PRM 7.3"
    on = MAD
    when = (MAD.mgmt_class == 0x0B) & (MAD.attribute_id == 0xFF10) & (MAD.method == 0x01) & (MAD.attribute_modifier == 0)
    at = MAD.attribute_modifier
    message = "AcmeBuffers needs the port in the attribute modifier"
    example = "Get(AcmeBuffers) with AttributeModifier 0"

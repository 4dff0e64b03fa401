"""The fields that tables of packets, MADs and ports have if nobody names others: in Arrow, exports and SQL."""

from __future__ import annotations

DEFAULT = (
    "frame.number", "frame.time", "frame.len", "_ws.col.source", "_ws.col.destination", "_ws.col.protocol",
    "infiniband.bth.opcode", "infiniband.bth.p_key", "infiniband.bth.destqp", "infiniband.bth.psn",
    "infiniband.mad.mgmtclass", "infiniband.mad.method", "infiniband.mad.attributeid", "_ws.col.info",
)  # fmt: skip
"""Columns of an export or an Arrow table if no names are given."""
PACKETS = (
    "frame.number", "frame.time", "frame.len", "frame.cap_len", "frame.interface_id", "_ws.col.source", "_ws.col.destination",
    "_ws.col.protocol", "_ws.malformed", "ip.src", "ip.dst", "infiniband.lrh.slid", "infiniband.lrh.dlid", "infiniband.lrh.vl",
    "infiniband.lrh.sl", "infiniband.grh.sgid", "infiniband.grh.dgid", "infiniband.bth.opcode", "infiniband.bth.p_key",
    "infiniband.bth.destqp", "infiniband.bth.psn", "infiniband.bth.a", "infiniband.deth.srcqp", "infiniband.reth.dmalen",
    "infiniband.aeth.syndrome", "_ws.col.info",
)  # fmt: skip
MADS = (
    "frame.number", "frame.time", "_ws.col.source", "_ws.col.destination", "infiniband.mad.mgmtclass", "infiniband.mad.method",
    "infiniband.mad.status", "infiniband.mad.transactionid", "infiniband.mad.attributeid", "infiniband.mad.attributemodifier",
    "_ws.col.info", "infiniband.smpdirected.d",
)  # fmt: skip
PORTS = (
    "frame.number", "frame.time", "infiniband.portinfo.lid", "infiniband.portinfo.mastersmlid", "infiniband.portinfo.localportnum",
    "infiniband.portinfo.portstate", "infiniband.portinfo.portphysicalstate", "infiniband.portinfo.lmc",
    "infiniband.portinfo.linkwidthactive", "infiniband.portinfo.linkspeedactive", "infiniband.mad.method",
    "infiniband.portinfo.portstate.name", "infiniband.portinfo.portphysicalstate.name", "infiniband.portinfo.linkwidthactive.name",
    "infiniband.portinfo.linkspeedactive.name", "infiniband.portinfo.neighbormtu", "infiniband.portinfo.neighbormtu.name",
)  # fmt: skip
"""One row per frame with a PortInfo that a port or the SA reports: the state of a port at that time. Requests, and answers with an error
status, are no facts."""
TABLES = {"packets": PACKETS, "mads": MADS, "ports": PORTS}

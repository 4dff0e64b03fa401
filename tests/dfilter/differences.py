"""Where a display filter selects other frames than tshark 4.0 does, and why."""

from __future__ import annotations

EXTENSION = "accepted here, refused by tshark 4.0: "
CM_WORD = "tshark reads flow label, reserved bits and rate with masks that do not fit the bytes it takes"
REFUSED = "refused here, accepted by tshark: "

BY_FILTER: dict[str, str] = {
    'infiniband.bth.opcode == "UD Send Only"': EXTENSION + "every enumeration may be compared by name",
    'infiniband.portinfo.portstate == "Active"': EXTENSION + "every enumeration may be compared by name",
    "infiniband.portinfo.portstate == Active": EXTENSION + "every enumeration may be compared by name",
    'infiniband.portinfo.portstate in {"Active", 1}': EXTENSION + "every enumeration may be compared by name",
    'infiniband.portinfo.portstate > "Down"': EXTENSION + "every enumeration may be compared by name",
    "infiniband.lrh.dlid == 1 xor infiniband.lrh.slid == 1": EXTENSION + "xor came with Wireshark 4.2",
    "infiniband.lrh.dlid == 1 ^^ infiniband.lrh.slid == 1": EXTENSION + "xor came with Wireshark 4.2",
    '_ws.col.info contains "UD"': EXTENSION + "columns of the packet list are fields",
    "bth": EXTENSION + "infiniband. may be left out",
    "mad": EXTENSION + "infiniband. may be left out",
    "infiniband.nodeinfo": EXTENSION + "every structure has a name",
    "infiniband.portinfo": EXTENSION + "every structure has a name",
    "infiniband.bth.se == infiniband.bth.psn": EXTENSION + "a flag may be compared with a number from both sides",
    "infiniband.bth.se & 1": EXTENSION + "flags are numbers for &, Wireshark declares them as flags or as numbers at random",
    "infiniband.portinfo.capabilitymask.issm == True": EXTENSION + "every flag may be compared with True",
    "infiniband.nodeinfo.nodeguid == 00:02:c9:03:00:00:14:91": EXTENSION + "GUIDs may be written with colons",
    "infiniband.nodeinfo.nodetype == '\\n'": EXTENSION + "tshark takes the escape for two characters",
    "frame.time > 2008-05-14T19:48:09Z": EXTENSION + "a date needs no quotes",
    "infiniband.lrh.dlid #1 == 4": REFUSED + "layers cannot be numbered",
    "infiniband.lrh.dlid#1 == 4": REFUSED + "layers cannot be numbered",
    "infiniband.linearforwardingtable.port#1 == 255": REFUSED + "layers cannot be numbered",
    "${infiniband.lrh.dlid} == 4": REFUSED + "there is no selected frame to refer to",
    'frame.protocols contains "infiniband"': REFUSED + "the name is not known",
    "_ws.expert": REFUSED + "the name is not known",
    'frame matches "(a)\\\\1"': REFUSED + "needs backtracking, which hostile captures make endless",
    'frame matches "(?=a)"': REFUSED + "needs backtracking, which hostile captures make endless",
    "max(infiniband.grh.sgid) == fe80::": REFUSED + "the greatest of addresses means nothing",
    "frame.time_relative > 1.5.5": REFUSED + "not a number",
    'ip.dsfield.dscp == "Default"': REFUSED + "code points have no names here",
    "ip.dsfield.dscp == Default": REFUSED + "code points have no names here",
    "infiniband.lrh.dlid + -1 == 3": "tshark takes -1 beside a 16-bit field for 65535 and does not cut the sum",
    "len(erf) == 16": "tshark's ERF layer has no bytes",
    "frame.interface_id == 0": "tshark numbers the interfaces of pcap files as they appear, we take the bits of the ERF flags",
    "infiniband.payload contains 00:01": "tshark hands IPoIB payloads on and takes off their header",
}
"""Single filters."""

BY_NAME: dict[str, tuple[str, tuple[str, ...]]] = {
    "infiniband.smpdirected.d": ("tshark masks one byte with 0x8000: always 0", ("",)),
    "erf.ts": ("compared as a time by tshark, as the number that the bytes make here", ("",)),
    "ip.version": ("tshark names the version of IPv6 so, too", ("uc_send_lat_v6", "k612", "real/")),
    "icmpv6": ("extension headers in front of it are not walked here", ("",)),
    "ipoib": ("tshark has the names for another link type only", ("real/",)),
    "infiniband.rwh.etype": ("tshark shows the type of an IPoIB header under the name, too", ("real/",)),
    "infiniband.sa.subnetadmindata": ("tshark shows the bytes only where it knows no attribute", ("real/",)),
    "infiniband.payload": ("tshark shows payloads of RoCE as data", ("rxe/",)),
    "infiniband.immdt": ("bytes in tshark, a number here", ("",)),
    "infiniband.reth": ("tshark 4.0 does not know the OpCode ATOMIC WRITE", ("k612",)),
    "infiniband.invariant.crc": ("tshark 4.0 does not know the OpCode ATOMIC WRITE", ("k612",)),
    "infiniband.aeth": ("tshark 4.0 does not know the OpCode ATOMIC WRITE", ("k612",)),
    "infiniband.atomicacketh": ("tshark 4.0 does not know the OpCode ATOMIC WRITE", ("k612",)),
    "infiniband.ieth": ("bytes in tshark, a number here", ("",)),
    "infiniband.cm.req.serviceid.prefix": ("bytes in tshark, a number here", ("",)),
    "infiniband.cm.req.ip_cm": ("tshark shows only the address family in use", ("rxe/",)),
    "infiniband.cm.req.private": ("tshark shows the bytes only where they are not of the IP CM service", ("rxe/",)),
    "infiniband.cm.req.prim_localgid": ("tshark shows IPv4-mapped GIDs under another name only", ("rxe/",)),
    "infiniband.cm.req.prim_remotegid": ("tshark shows IPv4-mapped GIDs under another name only", ("rxe/",)),
    "infiniband.cm.req.prim_flowlabel": (CM_WORD, ("",)),
    "infiniband.cm.req.prim_reserved0": (CM_WORD, ("",)),
    "infiniband.cm.req.prim_pktrate": (CM_WORD, ("",)),
}
"""Names, each with the names below it: why, and in which captures (a part of the path)."""


def reason(text: str, capture: str) -> str | None:
    """Why the answers to a filter may differ; None: they must not."""
    if text in BY_FILTER:
        return BY_FILTER[text]
    name = text.split(" ")[0]
    while name:
        why, where = BY_NAME.get(name, ("", ()))
        if any(part in capture for part in where):
            return why
        name = name.rpartition(".")[0]
    return None

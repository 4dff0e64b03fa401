"""libibmad, the library of smpquery and perfquery, reads the same numbers out of the same bytes. Skipped without it."""

from __future__ import annotations

import ctypes
import ctypes.util
import random
import re
from collections.abc import Iterator

import pytest

from ibdissect.wire.catalog import builtin
from ibdissect.words import Struct
from tests.wire.names import plain

NAME = ctypes.util.find_library("ibmad")
LIBRARY = ctypes.CDLL(NAME) if NAME else None
ROUNDS = 25

DUMPS: dict[str, tuple[int, int, int]] = {
    # mad_dump_<name>: class, attribute, numbers it prints that we compare
    "nodeinfo": (0x01, 0x11, 11),
    "portinfo": (0x01, 0x15, 33),
    "switchinfo": (0x01, 0x12, 18),
    "portinfo_ext": (0x01, 0x33, 6),
    "mlnx_ext_port_info": (0x01, 0xFF90, 4),
    "classportinfo": (0x04, 0x01, 20),
    "portsamples_control": (0x04, 0x10, 28),
    "portsamples_result": (0x04, 0x11, 17),
    "perfcounters": (0x04, 0x12, 20),
    "perfcounters_rcv_err": (0x04, 0x15, 8),
    "perfcounters_xmt_disc": (0x04, 0x16, 6),
    "perfcounters_port_op_rcv_counters": (0x04, 0x17, 4),
    "perfcounters_port_flow_ctl_counters": (0x04, 0x18, 4),
    "perfcounters_port_vl_op_packet": (0x04, 0x19, 18),
    "perfcounters_port_vl_op_data": (0x04, 0x1A, 18),
    "perfcounters_port_vl_xmit_flow_ctl_update_errors": (0x04, 0x1B, 18),
    "perfcounters_port_vl_xmit_wait_counters": (0x04, 0x1C, 18),
    "perfcounters_ext": (0x04, 0x1D, 25),
    "port_ext_speeds_counters": (0x04, 0x1F, 40),
    "perfcounters_sw_port_vl_congestion": (0x04, 0x30, 18),
    "perfcounters_rcv_con_ctrl": (0x04, 0x31, 4),
    "perfcounters_sl_rcv_fecn": (0x04, 0x32, 18),
    "perfcounters_sl_rcv_becn": (0x04, 0x33, 18),
    "perfcounters_xmit_con_ctrl": (0x04, 0x34, 3),
    "perfcounters_vl_xmit_time_cong": (0x04, 0x35, 17),
    "perfcounters_xmt_sl": (0x04, 0x36, 18),
    "perfcounters_rcv_sl": (0x04, 0x37, 18),
    "cc_congestioninfo": (0x21, 0x11, 2),
    "cc_congestionkeyinfo": (0x21, 0x12, 4),
    "cc_congestionlog": (0x21, 0x13, 2),
    "cc_switchcongestionsetting": (0x21, 0x14, 6),
    "cc_cacongestionsetting": (0x21, 0x16, 2),
    "cc_congestioncontroltable": (0x21, 0x17, 1),
    "cc_timestamp": (0x21, 0x18, 1),
}
SAME = {
    "basevers": "baseversion", "capmask": "capabilitymask", "classvers": "classversion", "defmcastnotprimport":
    "defaultmulticastnotprimaryport", "defmcastprimport": "defaultmulticastprimaryport", "defport": "defaultport", "devid":
    "deviceid", "enhancedport0": "enhancedportzero", "filterrawinb": "filterrawinbound", "filterrawinbound": "filterrawinboundcap",
    "filterrawoutb": "filterrawoutbound", "filterrawoutbound": "filterrawoutboundcap", "guid": "nodeguid", "inboundpartenf":
    "inboundenforcementcap", "initreply": "inittypereply", "lifetime": "lifetimevalue", "localphyserr": "localphyerrors", "localport":
    "localportnum", "mcastfdbcap": "multicastfdbcap", "mcastpkeytrapsuppressionenabled": "multicastpkeytrapsuppressionenabled",
    "optsltovlmapping": "optimizedsltovlmappingprogramming", "outboundpartenf": "outboundenforcementcap", "overrunerr":
    "overrunerrors", "partcap": "partitioncap", "partenforcecap": "partitionenforcementcap", "partenforceinb":
    "partitionenforcementinbound", "partenforceoutb": "partitionenforcementoutbound", "portmalformedpkterrors":
    "portmalformedpacketerrors", "portswhoqlifetimelimitdiscards": "portswhoqlimitdiscards", "protectbits": "mkeyprotectbits",
    "resptimeval": "resptimevalue", "roundtrip": "linkroundtriplatency", "smlid": "mastersmlid", "smsl": "mastersmsl", "statechange":
    "portstatechange", "systemguid": "systemimageguid", "vlarbhighcap": "vlarbitrationhighcap", "vlarblowcap": "vlarbitrationlowcap",
}  # fmt: skip
"""libibmad's name -> ours, both without case and punctuation; the rest agree."""
WRONG = {"qp1dropped": "perfcounters", "hdrfecmodesupported": "portinfo_ext", "hdrfecmodeenabled": "portinfo_ext",
         "ndrfecmodesupported": "portinfo_ext", "ndrfecmodeenabled": "portinfo_ext"}  # fmt: skip
"""Fields that libibmad 44 takes from the other half of their word: its table lacks the macro that all other rows have."""


MTUS, MTU_CODE = ("neighbormtu", "mtucap"), {256: 1, 512: 2, 1024: 3, 2048: 4, 4096: 5}
"""It prints these codes as bytes."""


def numbers(view: Struct) -> Iterator[tuple[str, int]]:
    """All numbers of a structure under their plain names; entries of a repeated field with their index."""
    for field in type(view).fields:
        for index, bit in enumerate(field.entries()):
            if field.kind == "nested":
                yield from numbers(field.read(view, bit))
            elif field.kind in ("uint", "flag"):
                yield plain(field.label) + (str(index) if field.count > 1 else ""), int(field.read(view, bit))


def declared(mgmt_class: int, attr_id: int) -> type[Struct]:
    return next(struct for place, struct in builtin().attributes[mgmt_class, attr_id] if place.base_version == 1)


def printed(dump: str, data: bytes) -> Iterator[tuple[str, int]]:
    """What libibmad prints as a number, under our plain names."""
    assert LIBRARY is not None
    out, source = ctypes.create_string_buffer(1 << 16), ctypes.create_string_buffer(data.ljust(512, b"\0"))
    getattr(LIBRARY, f"mad_dump_{dump}")(out, len(out), source, ctypes.c_int(max(len(data), 64)))
    for name, value in re.findall(r"^([^:\n]+):\.*(0x[0-9a-f]+|\d+)$", out.value.decode("latin-1"), re.M):
        key, number = plain(name), int(value, 0)
        key = re.sub(r"^rcvdatasl(?=\d)", "portrcvdatasl", re.sub(r"^xmtdatasl(?=\d)", "portxmitdatasl", key))
        yield key, MTU_CODE.get(number, number) if key in MTUS else number


@pytest.mark.skipif(LIBRARY is None, reason="needs libibmad")
@pytest.mark.parametrize("dump", DUMPS)
def test_libibmad_reads_the_same(dump: str, capfd: pytest.CaptureFixture[str]) -> None:
    mgmt_class, attr_id, least = DUMPS[dump]
    struct, rnd = declared(mgmt_class, attr_id), random.Random(dump)
    compared: set[str] = set()
    for _ in range(ROUNDS):
        data = rnd.randbytes(struct.size)
        ours = dict(numbers(struct(data)))
        for theirs, value in printed(dump, data):
            name = theirs if theirs in ours else SAME.get(theirs, theirs)
            if name in ours and WRONG.get(name) != dump:
                # libibmad prints masks of widths and speeds as text, a plain number only where no bit is set
                assert ours[name] == value, name
                compared.add(name)
    assert len(compared) >= least, sorted(set(dict(numbers(struct(bytes(struct.size))))) - compared)

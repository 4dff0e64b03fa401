"""The Info line of MADs: method, attribute, port or block, requested components, status."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ibdissect.capture.gather import gather
from ibdissect.decode import ChunkTable, Int
from ibdissect.decode.payloads import VENDOR_DATA_AT, VENDOR_OUI_AT
from ibdissect.wire import numbers
from ibdissect.wire.catalog import Catalog, StructType
from ibdissect.wire.cm import REJ, SIDRRep
from ibdissect.wire.cm_names import MESSAGES
from ibdissect.wire.cut import number_of
from ibdissect.wire.mad import BASE_VERSION_IB, BASE_VERSION_OPA, CLASS_VERSION, CLASSES, MAD, RMPP, RMPP_TYPES, is_response, is_vendor
from ibdissect.wire.names import SM_CONTROL, TRAP_NUMBER
from ibdissect.wire.notice import Notice
from ibdissect.wire.opa import STLSMPDirected
from ibdissect.wire.qos import VL_TYPE
from ibdissect.wire.sa import SAFormat, component_fields, components_set
from ibdissect.wire.sm import DR_MAX_HOPS, SMPDirected
from ibdissect.wire.spec import Field, Struct
from ibdissect.wire.text import counted, number_text, printable
from ibdissect.wire.vendor import oui_text

from .shown_value import Presenter

PROTOCOLS = {number: "SMP" if number in numbers.SMP_CLASSES else CLASSES[number].short for number in CLASS_VERSION}
"""Text of the protocol column by management class; `Vendor` or `MAD` for others."""

SHOWN_COMPONENTS = 8


def _block(modifier: int) -> str:
    return f" block {modifier}"


def _port(modifier: int) -> str:
    return f" port {modifier & 0xFF}"


def _arbitration(modifier: int) -> str:
    table = {1: "low 0-31", 2: "low 32-63", 3: "high 0-31", 4: "high 32-63"}.get(modifier >> 16, str(modifier >> 16))
    return f" port {modifier & 0xFFFF} {table}"


def _bandwidth(modifier: int) -> str:
    what = "VLs" if modifier & VL_TYPE else "VL groups"
    return f" port {modifier & 0xFF} {what} {'minimum' if modifier >> 31 else 'limit'}"


def _sl_to_vl(modifier: int) -> str:
    entry = "all" if modifier & 0x20000 else str(modifier >> 8 & 0xFF)
    out = "all" if modifier & 0x10000 else str(modifier & 0xFF)
    return f" in {entry} out {out}"


MODIFIERS: dict[int, Callable[[int], str]] = {
    0x0014: _block,
    0x0015: _port,
    0x0016: lambda m: f" port {m >> 16} block {m & 0xFFFF}",
    0x0017: _sl_to_vl,
    0x0018: _arbitration,
    0x0019: _block,
    0x001A: _block,
    0x001B: lambda m: f" block {m & 0x1FF} ports {(m >> 28) * 16}-{(m >> 28) * 16 + 15}",
    0x001C: _port,
    0x0033: _port,
    0x0030: lambda m: f" index {m}",
    0x0051: _bandwidth,
    0xFF90: _port,
}
"""What the attribute modifier of a subnet management attribute selects."""


def fill(table: ChunkTable, rows: Int, position: list[int], protocols: list[str], infos: list[str], presenter: Presenter) -> None:
    if not len(rows):
        return
    at = table.located.at("mad")[rows]
    headers = gather(table.chunk.data, at, 24).view("V24").ravel().tolist()
    starts, stops = at.tolist(), table.located.payload_end[rows].tolist()
    heads: dict[tuple[bytes, int], tuple[str, str]] = {}
    begin, end = MAD.transaction_id.span  # all but this decides the text
    for place, header, start, stop in zip(position, headers, starts, stops, strict=True):
        oui = oui_at(table.chunk.data, start, stop) if table.catalog.vendor_classes else NO_OUI
        key = header[:begin] + header[end:], oui
        known = heads.get(key)
        if known is None:
            known = heads[key] = _head(table.catalog, header, oui)
        protocol, info = known
        if header[1] != numbers.LID_ROUTED:
            info += _details(table, header, start, stop, presenter)
        elif header[16:18] == b"\0\x02":
            info += _notice(table.catalog, table.chunk.data[start:stop].tobytes(), numbers.LID_ROUTED)
        protocols[place], infos[place] = protocol, info


def action(table: ChunkTable, row: int) -> tuple[str, str]:
    """What the MAD in a row does, `SubnSet(PortInfo)`, and what its modifier selects, ` port 3`."""
    at = int(table.located.at("mad")[row])
    header = table.chunk.data[at : at + MAD.size].tobytes()
    return _action(table.catalog, header)


NO_OUI = -1


def oui_at(data: Any, mad: int, stop: int) -> int:
    """The OUI of a vendor's MAD of class 0x30 to 0x4F, in any bytes; NO_OUI if it has none."""
    if mad + VENDOR_DATA_AT > stop or not 0x30 <= MAD(bytes(data[mad : mad + MAD.size])).mgmt_class <= 0x4F:
        return NO_OUI
    return int.from_bytes(bytes(data[mad + VENDOR_OUI_AT : mad + VENDOR_DATA_AT]), "big")


def _action(catalog: Catalog, header: bytes, oui: int = NO_OUI) -> tuple[str, str]:
    mad = MAD(header)
    base_version, mgmt_class, method = mad.base_version, mad.mgmt_class, mad.method
    attr_id, modifier = mad.attribute_id, mad.attribute_modifier
    if mgmt_class == numbers.CM_CLASS and attr_id in MESSAGES:
        return MESSAGES[attr_id], ""
    shown = MODIFIERS.get(attr_id) if mgmt_class in numbers.SMP_CLASSES and base_version == 1 else None
    return catalog.request_text(mgmt_class, method, attr_id, base_version, oui), shown(modifier) if shown is not None else ""


def _head(catalog: Catalog, header: bytes, oui: int) -> tuple[str, str]:
    """Protocol, and the info that the common header gives."""
    mad = MAD(header)
    base_version, mgmt_class, method, status = mad.base_version, mad.mgmt_class, mad.method, mad.status
    attr_id, modifier = mad.attribute_id, mad.attribute_modifier
    protocol = PROTOCOLS.get(mgmt_class, "Vendor" if is_vendor(mgmt_class) else "MAD")
    info, selected = _action(catalog, header, oui)
    info += selected
    if mgmt_class in numbers.SMP_CLASSES and base_version == 1:
        if attr_id in MODIFIERS:
            pass
        elif attr_id == numbers.SM_INFO and method == numbers.SET:
            info += f" {SM_CONTROL.get(modifier, f'modifier {modifier}')}"
        elif modifier:
            info += f" modifier 0x{modifier:x}"
    elif modifier and mgmt_class != numbers.CM_CLASS:
        info += f" modifier 0x{modifier:x}"
    text = catalog.status_text(status, mgmt_class, oui)
    if text != "ok" and (is_response(method, modifier, mgmt_class) or mgmt_class != numbers.DIRECTED):
        info += f" status: {text}"
    return protocol, info


def _details(table: ChunkTable, header: bytes, start: int, stop: int, presenter: Presenter) -> str:
    """The info that the bytes after the common header give, by class."""
    mad = MAD(header)
    mgmt_class, method, attr_id = mad.mgmt_class, mad.method, mad.attribute_id
    data = table.chunk.data[start:stop].tobytes()
    if mgmt_class == numbers.DIRECTED:
        path = _path(header, data)
        return (_notice(table.catalog, data, mgmt_class) if attr_id == numbers.NOTICE else "") + path
    if attr_id == numbers.NOTICE:
        return _notice(table.catalog, data, mgmt_class)
    if mgmt_class == numbers.SA_CLASS:
        return _administration(table.catalog, data, method, attr_id, presenter)
    if mgmt_class == numbers.PM_CLASS:
        select = getattr(table.catalog.attribute(mgmt_class, attr_id, method), "port_select", None)
        at = table.catalog.data_at(mgmt_class, mad.base_version) + select.bit // 8 if select is not None else len(data)
        return f" port {data[at]}" if at < len(data) else ""
    if mgmt_class == numbers.CM_CLASS:
        return _connection(data, attr_id)
    if 0x30 <= mgmt_class <= 0x4F and len(data) >= VENDOR_DATA_AT:
        return _vendor(table.catalog, data, mgmt_class, attr_id, method)
    return ""


def _vendor(catalog: Catalog, data: bytes, mgmt_class: int, attr_id: int, method: int) -> str:
    """The vendor's OUI, and the structure's title if known."""
    oui = int.from_bytes(data[VENDOR_OUI_AT:VENDOR_DATA_AT], "big")
    struct = catalog.of_vendor(mgmt_class, attr_id, oui, method)
    named = struct is not None and struct.title != catalog.attribute_name(mgmt_class, attr_id, method, oui=oui)
    return (f" {struct.title}" if struct is not None and named else "") + f" OUI {oui_text(oui)}"


def _path(header: bytes, data: bytes) -> str:
    """The directed route as a list of egress ports: `DR 0-1-3`."""
    hops = number_of(header, SMPDirected.hop_count)
    opa = number_of(header, MAD.base_version) == BASE_VERSION_OPA
    smp: type[SMPDirected | STLSMPDirected] = STLSMPDirected if opa else SMPDirected
    if len(data) < smp.size or hops > DR_MAX_HOPS:
        return f" DR {hops} hops"
    first = smp.initial_path.span[0] + 1
    return " DR " + "-".join(map(str, (0, *data[first : first + hops])))


def _notice(catalog: Catalog, data: bytes, mgmt_class: int) -> str:
    """The number and name of a trap."""
    at = catalog.data_at(mgmt_class, 1)
    if number_of(data, MAD.base_version) != BASE_VERSION_IB or len(data) < at + Notice.size:
        return ""
    notice = Notice(data, at)
    if not notice.is_generic:
        return f" vendor 0x{notice.producer_type:06x} device {notice.trap_number}"
    if notice.type == 0x7F:
        return " empty"
    name = TRAP_NUMBER.get(notice.trap_number) if mgmt_class in {*numbers.SMP_CLASSES, numbers.SA_CLASS} else None
    return f" trap {notice.trap_number}" + (f" ({name})" if name else "")


def _connection(data: bytes, attr_id: int) -> str:
    """Why a connection or a service was refused."""
    if attr_id == 0x12 and len(data) >= 24 + REJ.size:
        reason = REJ(data, 24).reason
        return f" reason {reason} ({(REJ.reason.values or {}).get(reason, 'unknown')})"
    if attr_id == 0x18 and len(data) >= 24 + SIDRRep.size:
        status = SIDRRep(data, 24).status
        return f" status {status} ({(SIDRRep.status.values or {}).get(status, 'unknown')})" if status else ""
    return ""


def _administration(catalog: Catalog, data: bytes, method: int, attr_id: int, presenter: Presenter) -> str:
    """Components of a request, number of records in a response, or the RMPP message."""
    if number_of(data, MAD.base_version) != BASE_VERSION_IB or len(data) < SAFormat.size:
        return ""
    rmpp, head = RMPP(data, 24), SAFormat(data, 0)
    struct = catalog.attribute(numbers.SA_CLASS, attr_id, method)
    if rmpp.active and rmpp.rmpp_type not in (0, 1):
        return f" RMPP {RMPP_TYPES.get(rmpp.rmpp_type, 'unknown')} segment {rmpp.data1}"
    if method & numbers.RESPONSE_BIT:
        failed = number_of(data, MAD.status) & numbers.NO_DATA
        return "" if failed and method == numbers.GET_RESP else _records(rmpp, head, method)
    segment = f" segment {rmpp.data1}" if rmpp.active and rmpp.data1 > 1 else ""
    if segment or struct is None or not head.component_mask or len(data) < 56 + struct.size:
        return segment
    return _components(struct, data, head.component_mask, presenter)


def _records(rmpp: Any, head: SAFormat, method: int) -> str:
    if not rmpp.active:
        return " 1 record" if method == numbers.GET_RESP and head.attribute_offset else " 0 records" if method != numbers.GET_RESP else ""
    if rmpp.data1 != 1:
        return f" segment {rmpp.data1}"
    # PayloadLength of the first segment counts 20 bytes of SA header in every segment (IBA 13.6.2.1, 15.2.1).
    size, segments = head.attribute_offset * 8, max(-(-rmpp.data2 // 220), 1)
    count = max(rmpp.data2 - 20 * segments, 0) // size if size and rmpp.data2 else 0 if rmpp.data2 == 20 else None
    text = "" if count is None else f" {counted(count, 'record')}"
    return text if rmpp.last else f"{text} segment 1"


def _components(struct: StructType, data: bytes, mask: int, presenter: Presenter) -> str:
    """The requested components: `SGID=... DGID=...`."""
    chosen = components_set(struct, mask)
    shown = " ".join(_component(struct(data, 56, len(data)), name, presenter) for name in chosen[:SHOWN_COMPONENTS])
    return f" {shown}" + (" …" if len(chosen) > SHOWN_COMPONENTS else "")


def _component(view: Struct, name: str, presenter: Presenter) -> str:
    """One component as label=value, or the name alone if it is not a field."""
    fields = component_fields(type(view), name)
    if not fields:
        return printable(name)
    for outer in fields[:-1]:
        view = outer.read(view, outer.bit)
    index = name.partition("[")[2].rstrip("]")
    return f"{fields[-1].label}={_short(fields[-1], view, int(index or 0), presenter)}"


def _short(field: Field[Any], view: Struct, index: int, presenter: Presenter) -> str:
    """The bare value, without the explanations in the tree."""
    value = field.read(view, field.bit + index * field.bits)
    plain, text = presenter.present(field, value)
    if plain is None or isinstance(plain, bool) or isinstance(value, (bytes, str)):
        return str(text) if plain is None or not isinstance(plain, bool) else str(int(plain))
    return number_text(field, value)

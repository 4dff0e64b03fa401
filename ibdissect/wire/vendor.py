"""Vendor class MADs (0x09-0x0F, 0x30-0x4F), as far as open tools show."""

from __future__ import annotations

from .mad import OUI_CLASSES, RMPP
from .places import MadFormat, VendorOui
from .spec import Struct, hole, nested, pad, raw, secret, text, uint

OUI_OPENIB = 0x001405
"""OUI of the OpenIB alliance, used by the vendor classes of infiniband-diags (libibmad mad.h)."""

CLASS_PING, CLASS_SYSSTAT = 0x32, 0x33


def oui_text(oui: int) -> str:
    """`00:14:05 (OpenIB)`."""
    plain = ":".join(f"{byte:02x}" for byte in oui.to_bytes(3, "big"))
    return f"{plain} (OpenIB)" if oui == OUI_OPENIB else plain


class VendorFormat(Struct):
    """Vendor range 1 (0x09-0x0F): data directly after the common header."""

    key, section, size = "vendor", "IBA 16.5.1", 256
    carried_by = (MadFormat(*range(0x09, 0x10)),)
    header = hole(24, "MAD header", at="0")
    data = hole(232, "Vendor Data", at="24")


class VendorKeyFormat(Struct):
    """Vendor range 1 as NVIDIA uses it, if no other structure applies: a key before the data in device access, SHARP and node to node."""

    key, section, size = "vendor", "trex-core ib_types.h ib_vs_mad_t, ib_n2n_mad_t; infiniband-diags vendstat", 256
    carried_by = (MadFormat(0x0A, 0x0B, 0x0C, unclaimed=True),)
    header = hole(24, "MAD header", at="0")
    v_key = secret(64, "V_Key", at="24")
    vendor_data = hole(224, "Vendor Data", at="32")


class VendorOuiFormat(Struct):
    """Vendor range 2 (0x30-0x4F): RMPP header, then the OUI of the vendor that defines the data."""

    key, section, size = "vendor", "IBA 16.5.1", 256
    carried_by = (MadFormat(*OUI_CLASSES),)
    header = hole(24, "MAD header", at="0")
    rmpp = nested(RMPP, "RMPP", at="24")
    reserved_288 = pad(8, at="36")
    oui = uint(24, "OUI", at="37", base="hex", show=oui_text)
    data = hole(216, "Vendor Data", at="40")


class OpenIBPing(Struct):
    """ibping: the answer holds host and domain name of the node, the request nothing."""

    key, section, size = "openibping", "infiniband-diags ibping", 216
    carried_by = (VendorOui(OUI_OPENIB, CLASS_PING),)
    host_and_domain = text(216, "HostAndDomain", at="0")


class SystemStatPing(Struct):
    """ibsysstat's ping: the answer returns the request's data."""

    key, section, size = "sysstatping", "infiniband-diags ibsysstat", 216
    carried_by = (VendorOui(OUI_OPENIB, CLASS_SYSSTAT, 0x0010),)
    echoed_data = raw(216, "EchoedData", at="0")


class SystemStatHostInfo(Struct):
    """Host and domain name of a node."""

    key, section, size = "sysstathostinfo", "infiniband-diags ibsysstat", 216
    carried_by = (VendorOui(OUI_OPENIB, CLASS_SYSSTAT, 0x0011),)
    host_and_domain = text(216, "HostAndDomain", at="0")


class SystemStatCPUInfo(Struct):
    """Number, models and speeds of a node's processors, as text."""

    key, section, size = "sysstatcpuinfo", "infiniband-diags ibsysstat", 216
    carried_by = (VendorOui(OUI_OPENIB, CLASS_SYSSTAT, 0x0012),)
    cpu_info = text(216, "CPUInfo", at="0")

"""Application class MADs (0x10-0x2F), as far as they are known: device administration, boot management, boot information, others.

No public source describes their attributes; the formats only locate the data.
"""

from .mad import RMPP
from .numbers import CC_CLASS
from .places import MadFormat
from .spec import Struct, hole, nested, raw


class DeviceAdmFormat(Struct):
    """Device administration and boot information service: an RMPP header, then data at byte 64 (kernel core/mad.c)."""

    key, section, size = "devadm", "kernel core/mad.c (IB_MGMT_DEVICE_HDR)", 256
    carried_by = (MadFormat(0x10, 0x12),)
    header = hole(24, "MAD header", at="0")
    rmpp = nested(RMPP, "RMPP", at="24")
    class_header = raw(28, "ClassHeader", at="36")
    data = hole(192, "Data", at="64")


class ApplicationFormat(Struct):
    """Boot management and every application class without a format of its own: data directly after the common header."""

    key, section, size = "app", "kernel core/mad.c (IB_MGMT_MAD_HDR)", 256
    carried_by = (MadFormat(0x11, *range(0x13, CC_CLASS), *range(CC_CLASS + 1, 0x30)),)
    header = hole(24, "MAD header", at="0")
    data = hole(232, "Data", at="24")

"""Device management MADs (class 0x06): I/O units, their controllers and services."""

from .mad import RMPP
from .places import Mad, MadFormat
from .spec import Struct, array, bit, enum, flag, guid, hole, nested, pad, text, uint

IOC_PRESENCE = {0x0: "no controller", 0x1: "controller present", 0xF: "no such slot"}
"""One entry of ControllerList (OpenSM ib_types.h)."""


class DeviceMgtFormat(Struct):
    """The format of every device management MAD: 192 bytes of attribute at byte 64.

    The standard reserves bytes 24-63; the Linux kernel keeps an RMPP header there (core/mad.c), zero when unused.
    """

    key, section, size = "dm", "IBA 16.3.1", 256
    carried_by = (MadFormat(0x06),)
    header = hole(24, "MAD header", at="0")
    rmpp = nested(RMPP, "RMPP", at="24")
    reserved_288 = pad(224, at="36")
    data = hole(192, "DevMgt Data", at="64")


class IOUnitInfo(Struct):
    """Which I/O controllers are in an I/O unit; ControllerList starts with slot 1 in the upper half of its first byte.

    Slot order as the kernel's SRP target writes it and the SRP daemon reads it; OpenSM's accessor swaps the halves of a byte.
    OpenSM also has OptionROM in the most significant bit; here as in python-rdma.
    """

    key, section, size = "iounitinfo", "IBA 16.3.3.3", 132
    carried_by = (Mad(0x06, 0x0010),)
    change_id = uint(16, "ChangeID", at="0")
    max_controllers = uint(8, "MaxControllers", at="2")
    reserved_24 = pad(6, at="3")
    diag_device_id = flag("DiagDeviceID", at="3[6]")
    option_rom = flag("OptionROM", at="3[7]")
    controller_list = array(256, enum(4, IOC_PRESENCE, "ControllerList", at="4"))


class IOControllerProfile(Struct):
    """What an I/O controller is and can do; the attribute modifier is its slot."""

    key, section, size = "iocontrollerprofile", "IBA 16.3.3.4; bits of ControllerOperationsMask: OpenSM ib_types.h", 128
    carried_by = (Mad(0x06, 0x0011),)
    guid = guid("GUID", at="0")
    vendor_id = uint(24, "VendorID", at="8", base="hex")
    reserved_88 = pad(8, at="11")
    device_id = uint(32, "DeviceID", at="12", base="hex")
    device_version = uint(16, "DeviceVersion", at="16", base="hex")
    reserved_144 = pad(16, at="18")
    subsystem_vendor_id = uint(24, "SubsystemVendorID", at="20", base="hex")
    reserved_184 = pad(8, at="23")
    subsystem_id = uint(32, "SubsystemID", at="24", base="hex")
    io_class = uint(16, "IOClass", at="28", base="hex")
    io_subclass = uint(16, "IOSubclass", at="30", base="hex")
    protocol = uint(16, "Protocol", at="32", base="hex")
    protocol_version = uint(16, "ProtocolVersion", at="34", base="hex")
    reserved_288 = pad(32, at="36")
    send_message_depth = uint(16, "SendMessageDepth", at="40")
    reserved_336 = pad(8, at="42")
    rdma_read_depth = uint(8, "RDMAReadDepth", at="43")
    send_message_size = uint(32, "SendMessageSize", at="44", unit="bytes")
    rdma_transfer_size = uint(32, "RDMATransferSize", at="48", unit="bytes")
    controller_operations_mask = uint(8, "ControllerOperationsMask", at="52", base="hex")
    sends_messages = bit(controller_operations_mask, 0, "Sends Messages")
    accepts_messages = bit(controller_operations_mask, 1, "Accepts Messages")
    requests_reads = bit(controller_operations_mask, 2, "Requests Reads")
    answers_reads = bit(controller_operations_mask, 3, "Answers Reads")
    requests_writes = bit(controller_operations_mask, 4, "Requests Writes")
    accepts_writes = bit(controller_operations_mask, 5, "Accepts Writes")
    requests_atomics = bit(controller_operations_mask, 6, "Requests Atomics")
    answers_atomics = bit(controller_operations_mask, 7, "Answers Atomics")
    reserved_424 = pad(8, at="53")
    service_entries = uint(8, "ServiceEntries", at="54")
    reserved_440 = pad(72, at="55")
    id_string = text(64, "IDString", at="64")


class ServiceEntry(Struct):
    """Name and service id of one service of an I/O controller."""

    key, section, size = "serviceentries", "IBA 16.3.3.5", 48
    service_name = text(40, "ServiceName", at="0")
    service_id = uint(64, "ServiceID", at="40", base="hex", holds="service")


class ServiceEntries(Struct):
    """Up to four services of an I/O controller; the attribute modifier says which."""

    key, section, size = "serviceentries", "IBA 16.3.3.5", 192
    carried_by = (Mad(0x06, 0x0012),)
    service_entry = array(4, nested(ServiceEntry, "ServiceEntry", at="0"))


class DiagnosticTimeout(Struct):
    """The longest duration of a diagnostic test."""

    key, section, size = "diagnostictimeout", "IBA 16.3.3.6", 4
    carried_by = (Mad(0x06, 0x0020),)
    max_diag_time = uint(32, "MaxDiagTime", at="0", unit="ms")


class DiagCode(Struct):
    """The vendor's result of a diagnostic test; PrepareToTest, TestDeviceOnce and TestDeviceLoop carry no data at all."""

    key, section, size = "diagcode", "IBA 16.3.3.10", 4
    carried_by = (Mad(0x06, 0x0024),)
    diag_code = uint(16, "DiagCode", at="0", base="hex")
    reserved_16 = pad(16, at="2")

"""Connection management messages. They set up and end connections, move them to other paths, and find datagram services."""

from . import cm_names as cn
from .classport import ClassPortInfo
from .convert import rate_text, timeout_text
from .names import MTU
from .numbers import CM_CLASS
from .places import Inside, Mad, MadFormat
from .spec import Struct, bit, enum, flag, gid, guid, hole, ip4, lid, nested, pad, part, pkey, qpn, raw, secret, uint

REQ_ID, MRA_ID, REJ_ID, REP_ID, RTU_ID, DREQ_ID, DREP_ID, SIDR_REQ_ID, SIDR_REP_ID, LAP_ID, APR_ID = range(0x0010, 0x001B)
_IP_CM = frozenset({cn.IP_CM_PREFIX >> 24})


class CMFormat(Struct):
    """Communication management MAD: the message after the common header."""

    key, section, size, title = "cm", "IBA 16.7.1; python-rdma CMFormat", 256, "CM"
    carried_by = (MadFormat(CM_CLASS),)
    header = hole(24, "MAD header", at="0")
    data = hole(232, "CM Data", at="24", ws="infiniband.smplid.smpdata")


class REQ(Struct):
    """Request for communication: who wants a connection to which service, over which path.

    tshark 4.0 misreads both flow labels: it takes three bytes with a 32-bit mask, so the last four bits are lost, and reads
    reserved bits and packet rate from the flow label's first byte (bytes 72 55 a0 00 give 0x725, 1 and 0x32 there).
    """

    key, section, size = "cm.req", "IBA 12.6.5; kernel ibta_vol1_c12.h table 106; python-rdma CMREQ", 232
    carried_by = (Mad(CM_CLASS, REQ_ID),)
    local_communication_id = uint(32, "Local Communication ID", at="0", base="hex", ws="infiniband.cm.req")
    vendor_id = uint(24, "Vendor ID", at="..5", base="hex")
    service_id = uint(64, "Service ID", at="8", base="hex", show=cn.service_text, holds="service")
    service_prefix = part(service_id, 63, 24, "Service ID Prefix", base="hex", ws="serviceid.prefix")
    service_protocol = part(
        service_id, 23, 16, "Protocol", values=cn.IP_PROTOCOLS, base="hex", ws="serviceid.protocol", when=(service_prefix, _IP_CM)
    )
    service_port = part(service_id, 15, 0, "Destination Port", show=cn.port_text, ws="serviceid.dport", when=(service_prefix, _IP_CM))
    local_ca_guid = guid("Local CA GUID", at="16")
    local_cm_q_key = secret(32, "Q_Key", "Local CM Q_Key", at="24", ws="localcmqkey")
    local_q_key = secret(32, "Q_Key", "Local Q_Key", at="28", ws="localqkey")
    local_qpn = qpn("Local QPN", at="32")
    responder_resources = uint(8, "Responder Resources", at="35", ws="responderres")
    local_eecn = qpn("Local EECN", at="36")
    initiator_depth = uint(8, "Initiator Depth", at="39", ws="initdepth")
    remote_eecn = qpn("Remote EECN", at="40", ws="remoteeecn")
    remote_cm_response_timeout = uint(5, "Remote CM Response Timeout", at="43", show=timeout_text, ws="remoteresptout")
    transport_service_type = enum(2, cn.TRANSPORT_SERVICE, "Transport Service Type", at="43[5]", ws="transpsvctype")
    end_to_end_flow_control = flag("End-to-End Flow Control", at="43[7]", ws="e2eflowctrl")
    starting_psn = uint(24, "Starting PSN", at="44", ws="startpsn")
    local_cm_response_timeout = uint(5, "Local CM Response Timeout", at="47", show=timeout_text, ws="localresptout")
    retry_count = uint(3, "Retry Count", at="47[5]", ws="retrcount")
    partition_key = pkey("Partition Key", at="48", ws="pkey")
    path_packet_payload_mtu = enum(4, MTU, "Path Packet Payload MTU", at="50", ws="pppmtu")
    rdc_exists = flag("RDC Exists", at="50[4]", ws="rdcexist")
    rnr_retry_count = uint(3, "RNR Retry Count", at="50[5]", show=cn.rnr_retry_text, ws="rnrretrcount")
    max_cm_retries = uint(4, "Max CM Retries", at="51", ws="maxcmretr")
    srq = flag("SRQ", at="51[4]")
    extended_transport_type = enum(3, cn.EXTENDED_TRANSPORT, "Extended Transport Type", at="51[5]", ws="ext_transport")
    primary_local_port_lid = lid("Primary Local Port LID", at="52", ws="prim_locallid")
    primary_remote_port_lid = lid("Primary Remote Port LID", at="54", ws="prim_remotelid")
    primary_local_port_gid = gid("Primary Local Port GID", at="56", ws="prim_localgid")
    primary_local_gid_prefix = part(primary_local_port_gid, 127, 64, "Primary Local GID Prefix", base="hex", ws="prim_localgid.prefix")
    primary_local_gid_mark = part(primary_local_port_gid, 63, 32, "Primary Local GID IPv4 Mark", base="hex", ws="prim_localgid.ipv4mark")
    primary_remote_port_gid = gid("Primary Remote Port GID", at="72", ws="prim_remotegid")
    primary_remote_gid_prefix = part(primary_remote_port_gid, 127, 64, "Primary Remote GID Prefix", base="hex", ws="prim_remotegid.prefix")
    primary_remote_gid_mark = part(
        primary_remote_port_gid, 63, 32, "Primary Remote GID IPv4 Mark", base="hex", ws="prim_remotegid.ipv4mark"
    )
    primary_flow_label = uint(20, "Primary Flow Label", at="88", base="hex", ws="prim_flowlabel", holds="network")
    primary_reserved0 = pad(6, at="90[4]", ws="prim_reserved0")
    primary_packet_rate = uint(6, "Primary Packet Rate", at="91[2]", show=rate_text, ws="prim_pktrate")
    primary_traffic_class = uint(8, "Primary Traffic Class", at="92", base="hex", ws="prim_tfcclass")
    primary_hop_limit = uint(8, "Primary Hop Limit", at="93", ws="prim_hoplim")
    primary_sl = uint(4, "Primary SL", at="94", ws="prim_sl")
    primary_subnet_local = flag("Primary Subnet Local", at="94[4]", ws="prim_subnetlocal")
    primary_reserved1 = pad(3, at="94[5]", ws="prim_reserved1")
    primary_local_ack_timeout = uint(5, "Primary Local ACK Timeout", at="95", show=cn.ack_timeout_text, ws="prim_localacktout")
    primary_reserved2 = pad(3, at="95[5]", ws="prim_reserved2")
    alternate_local_port_lid = lid("Alternate Local Port LID", at="96", ws="alt_locallid")
    alternate_remote_port_lid = lid("Alternate Remote Port LID", at="98", ws="alt_remotelid")
    alternate_local_port_gid = gid("Alternate Local Port GID", at="100", ws="alt_localgid")
    alternate_remote_port_gid = gid("Alternate Remote Port GID", at="116", ws="alt_remotegid")
    alternate_flow_label = uint(20, "Alternate Flow Label", at="132", base="hex", ws="alt_flowlabel", holds="network")
    alternate_reserved0 = pad(6, at="134[4]", ws="alt_reserved0")
    alternate_packet_rate = uint(6, "Alternate Packet Rate", at="135[2]", show=rate_text, ws="alt_pktrate")
    alternate_traffic_class = uint(8, "Alternate Traffic Class", at="136", base="hex", ws="alt_tfcclass")
    alternate_hop_limit = uint(8, "Alternate Hop Limit", at="137", ws="alt_hoplim")
    alternate_sl = uint(4, "Alternate SL", at="138", ws="alt_sl")
    alternate_subnet_local = flag("Alternate Subnet Local", at="138[4]", ws="alt_subnetlocal")
    alternate_reserved1 = pad(3, at="138[5]", ws="alt_reserved1")
    alternate_local_ack_timeout = uint(5, "Alternate Local ACK Timeout", at="139", show=cn.ack_timeout_text, ws="alt_localacktout")
    # Wireshark uses one name for both reserved fields of the alternate path.
    alternate_reserved2 = pad(3, at="139[5]", ws="alt_reserved1")
    sap_supported = bit(alternate_reserved2, 2, "SAP Supported")
    private_data = raw(92, "Private Data", at="140", ws="private")


_MAPPED = frozenset({0xFFFF})
_ZERO = frozenset({0})


class PrimaryLocalIPv4(Struct):
    """A primary local port GID that is an IPv4 address, as RoCE v2 has them."""

    key, section, size, title = "cm.req", "RFC 4291 2.5.5.2; IBA annex A17", 16, "IPv4-mapped GID"
    carried_by = (Inside(REQ.primary_local_port_gid, ((REQ.primary_local_gid_prefix, _ZERO), (REQ.primary_local_gid_mark, _MAPPED))),)
    mapped = hole(12, "IPv4-mapped prefix", at="0", ws="prim_localgid.mapped")
    address = ip4("Primary Local Port IPv4 Address", at="12", ws="prim_localgid_ipv4")


class PrimaryRemoteIPv4(Struct):
    """A primary remote port GID that is an IPv4 address."""

    key, section, size, title = "cm.req", "RFC 4291 2.5.5.2; IBA annex A17", 16, "IPv4-mapped GID"
    carried_by = (Inside(REQ.primary_remote_port_gid, ((REQ.primary_remote_gid_prefix, _ZERO), (REQ.primary_remote_gid_mark, _MAPPED))),)
    mapped = hole(12, "IPv4-mapped prefix", at="0", ws="prim_remotegid.mapped")
    address = ip4("Primary Remote Port IPv4 Address", at="12", ws="prim_remotegid_ipv4")


class OfConnection(Struct):
    """The start of most messages: what both sides call the connection."""

    local_communication_id = uint(32, "Local Communication ID", at="0", base="hex", ws="localcommid")
    remote_communication_id = uint(32, "Remote Communication ID", at="4", base="hex", ws="remotecommid")


class MRA(OfConnection):
    """Message receipt acknowledgement: the answer will take longer."""

    key, section, size = "cm.mra", "IBA 12.6.6; kernel ibta_vol1_c12.h table 107 (222 bytes of private data)", 232
    carried_by = (Mad(CM_CLASS, MRA_ID),)
    message_mraed = enum(2, cn.MESSAGE_MRAED, "Message MRAed", at="8")
    service_timeout = uint(5, "Service Timeout", at="..9", show=timeout_text)
    private_data = raw(222, "Private Data", at="..10", ws="private")


class REJ(OfConnection):
    """Rejection of a request, a reply or a connection."""

    key, section, size = "cm.rej", "IBA 12.6.7; kernel ibta_vol1_c12.h table 108; python-rdma CMREJ", 232
    carried_by = (Mad(CM_CLASS, REJ_ID),)
    message_rejected = enum(2, cn.MESSAGE_REJECTED, "Message REJected", at="8", ws="msgrej")
    reserved0 = pad(6, at="8[2]", ws="reserved0")
    reject_info_length = uint(7, "Reject Info Length", at="9", unit="bytes", ws="rejinfolen")
    reserved1 = pad(1, at="9[7]", ws="reserved1")
    reason = enum(16, cn.REJ_REASONS, "Reason", at="10")
    ari = raw(72, "Additional Reject Information", at="12", ws="ari")
    private_data = raw(148, "Private Data", at="84", ws="private")


class RejectedTimeout(Struct):
    """What a REJ for time-out adds: the CA that gave up, since its peer may not know the communication id yet."""

    key, section, size, title = "cm.rej.timeout", "kernel core/cm.c cm_acquire_rejected_id, ib_send_cm_rej callers", 8, "Timeout"
    carried_by = (Inside(REJ.ari, ((REJ.reason, frozenset({cn.REJ_TIMEOUT})),)),)
    local_ca_guid = guid("Local CA GUID", at="0")


class CMRedirect(Struct):
    """What a REJ for CM redirection adds: the address of the CM to ask."""

    key, section, size, title = "cm.rej.cmredirect", "kernel ib_srp.c srp_ib_cm_rej_handler; IBA 12.6.7.2", 72, "CM redirection"
    carried_by = (Inside(REJ.ari, ((REJ.reason, frozenset({cn.REJ_CM_REDIRECT})),)),)
    class_port_info = nested(ClassPortInfo, "ClassPortInfo", at="0")


class PortRedirect(Struct):
    """What a REJ for port redirection adds: the GID of the port to connect to."""

    key, section, size, title = "cm.rej.portredirect", "kernel ib_srp.c srp_ib_cm_rej_handler; IBA 12.6.7.2", 16, "Port redirection"
    carried_by = (Inside(REJ.ari, ((REJ.reason, frozenset({cn.REJ_PORT_REDIRECT})),)),)
    gid = gid("GID", at="0")


class REP(Struct):
    """Reply to a request for communication: the responder's side of the connection."""

    key, section, size = "cm.rep", "IBA 12.6.8; kernel ibta_vol1_c12.h table 110; python-rdma CMREP", 232
    carried_by = (Mad(CM_CLASS, REP_ID),)
    local_communication_id = uint(32, "Local Communication ID", at="0", base="hex", ws="infiniband.cm.rep")
    remote_communication_id = uint(32, "Remote Communication ID", at="4", base="hex", ws="remotecommid")
    local_q_key = secret(32, "Q_Key", "Local Q_Key", at="8", ws="localqkey")
    local_qpn = qpn("Local QPN", at="12")
    vendor_id_high = uint(8, "Vendor ID High", at="15", base="hex")
    local_eecn = qpn("Local EE Context Number", at="16", ws="localeecn")
    vendor_id_middle = uint(8, "Vendor ID Middle", at="19", base="hex")
    starting_psn = uint(24, "Starting PSN", at="20", ws="startpsn")
    vendor_id_low = uint(8, "Vendor ID Low", at="23", base="hex")
    responder_resources = uint(8, "Responder Resources", at="24", ws="respres")
    initiator_depth = uint(8, "Initiator Depth", at="25", ws="initdepth")
    target_ack_delay = uint(5, "Target ACK Delay", at="26", show=timeout_text, ws="tgtackdelay")
    failover_accepted = enum(2, cn.FAILOVER, "Failover Accepted", at="26[5]", ws="failoveracc")
    end_to_end_flow_control = flag("End-To-End Flow Control", at="26[7]", ws="e2eflowctrl")
    rnr_retry_count = uint(3, "RNR Retry Count", at="27", show=cn.rnr_retry_text, ws="rnrretrcount")
    srq = flag("SRQ", at="27[3]")
    local_ca_guid = guid("Local CA GUID", at="..28")
    private_data = raw(196, "Private Data", at="36", ws="private")


class RTU(OfConnection):
    """Ready to use: the connection is established."""

    key, section, size = "cm.rtu", "IBA 12.6.9; kernel ibta_vol1_c12.h table 111; python-rdma CMRTU", 232
    carried_by = (Mad(CM_CLASS, RTU_ID),)
    private_data = raw(224, "Private Data", at="8", ws="private")


class DREQ(OfConnection):
    """Request to end a connection."""

    key, section, size = "cm.dreq", "IBA 12.6.10; kernel ibta_vol1_c12.h table 112; python-rdma CMDREQ", 232
    carried_by = (Mad(CM_CLASS, DREQ_ID),)
    remote_qpn = qpn("Remote QPN/EECN", at="8", ws="infiniband.cm.req.remoteqpneecn")
    private_data = raw(220, "Private Data", at="..12", ws="private")


class DREP(OfConnection):
    """Reply to a request to end a connection."""

    key, section, size = "cm.drsp", "IBA 12.6.11; kernel ibta_vol1_c12.h table 113; python-rdma CMDREP", 232
    carried_by = (Mad(CM_CLASS, DREP_ID),)
    private_data = raw(224, "Private Data", at="8", ws="private")


class SIDRReq(Struct):
    """Request for the queue pair behind a service id."""

    key, section, size, title = "cm.sidrreq", "IBA 12.11.1; kernel ibta_vol1_c12.h table 119; python-rdma CMSIDR_REQ", 232, "SIDR_REQ"
    carried_by = (Mad(CM_CLASS, SIDR_REQ_ID),)
    request_id = uint(32, "Request ID", at="0", base="hex")
    partition_key = pkey("Partition Key", at="4", ws="pkey")
    service_id = uint(64, "Service ID", at="..8", base="hex", show=cn.service_text, holds="service")
    service_prefix = part(service_id, 63, 24, "Service ID Prefix", base="hex", ws="serviceid.prefix")
    service_protocol = part(
        service_id, 23, 16, "Protocol", values=cn.IP_PROTOCOLS, base="hex", ws="serviceid.protocol", when=(service_prefix, _IP_CM)
    )
    service_port = part(service_id, 15, 0, "Destination Port", show=cn.port_text, ws="serviceid.dport", when=(service_prefix, _IP_CM))
    private_data = raw(216, "Private Data", at="16", ws="private")


class SIDRRep(Struct):
    """The queue pair behind a service id, or why there is none."""

    key, section, size, title = "cm.sidrrep", "IBA 12.11.2; kernel ibta_vol1_c12.h table 120", 232, "SIDR_REP"
    carried_by = (Mad(CM_CLASS, SIDR_REP_ID),)
    request_id = uint(32, "Request ID", at="0", base="hex")
    status = enum(8, cn.SIDR_STATUS, "Status", at="4")
    additional_information_length = uint(8, "Additional Information Length", at="5", unit="bytes", ws="addinfolen")
    vendor_id_high = uint(16, "Vendor ID High", at="6", base="hex")
    qpn = qpn("QPN", at="8")
    vendor_id_low = uint(8, "Vendor ID Low", at="11", base="hex")
    service_id = uint(64, "Service ID", at="12", base="hex", show=cn.service_text, holds="service")
    q_key = secret(32, "Q_Key", at="20", ws="qkey")
    additional_information = raw(72, "Additional Information", at="24")
    private_data = raw(136, "Private Data", at="96", ws="private")


class SIDRRedirect(Struct):
    """What a SIDR_REP adds to redirect the requester."""

    key, section, size, title = "cm.sidrrep.redirect", "IBA 12.11.2; python-rdma CMSIDR_REP", 72, "Redirection"
    carried_by = (Inside(SIDRRep.additional_information, ((SIDRRep.status, frozenset({cn.SIDR_REDIRECT})),)),)
    class_port_info = nested(ClassPortInfo, "ClassPortInfo", at="0")


class LAP(OfConnection):
    """Load alternate path: another path for an existing connection."""

    key, section, size = "cm.lap", "IBA 12.8.1; kernel ibta_vol1_c12.h table 115; python-rdma CMLAP", 232
    carried_by = (Mad(CM_CLASS, LAP_ID),)
    q_key = secret(32, "Q_Key", at="8", ws="qkey")
    remote_qpn = qpn("Remote QPN/EECN", at="12", ws="remoteqpneecn")
    remote_cm_response_timeout = uint(5, "Remote CM Response Timeout", at="15", show=timeout_text, ws="remoteresptout")
    reserved1 = pad(3, at="15[5]")
    reserved2 = pad(32, at="16")
    alternate_local_port_lid = lid("Alternate Local Port LID", at="20", ws="alt_locallid")
    alternate_remote_port_lid = lid("Alternate Remote Port LID", at="22", ws="alt_remotelid")
    alternate_local_port_gid = gid("Alternate Local Port GID", at="24", ws="alt_localgid")
    alternate_remote_port_gid = gid("Alternate Remote Port GID", at="40", ws="alt_remotegid")
    alternate_flow_label = uint(20, "Alternate Flow Label", at="56", base="hex", ws="alt_flowlabel", holds="network")
    alternate_traffic_class = uint(8, "Alternate Traffic Class", at="..59", base="hex", ws="alt_tfcclass")
    alternate_hop_limit = uint(8, "Alternate Hop Limit", at="60", ws="alt_hoplim")
    alternate_packet_rate = uint(6, "Alternate Packet Rate", at="..61[2]", show=rate_text, ws="alt_pktrate")
    alternate_sl = uint(4, "Alternate SL", at="62", ws="alt_sl")
    alternate_subnet_local = flag("Alternate Subnet Local", at="62[4]", ws="alt_subnetlocal")
    alternate_local_ack_timeout = uint(5, "Alternate Local ACK Timeout", at="..63", show=cn.ack_timeout_text, ws="alt_localacktout")
    private_data = raw(168, "Private Data", at="..64", ws="private")


class APR(OfConnection):
    """Alternate path response."""

    key, section, size = "cm.apr", "IBA 12.8.2; kernel ibta_vol1_c12.h table 116; python-rdma CMAPR", 232
    carried_by = (Mad(CM_CLASS, APR_ID),)
    additional_information_length = uint(8, "Additional Information Length", at="8", unit="bytes", ws="addinfolen")
    ap_status = enum(8, cn.AP_STATUS, "AP Status", at="9")
    additional_information = raw(72, "Additional Information", at="..12")
    private_data = raw(148, "Private Data", at="84", ws="private")

"""What do the messages that find a datagram service or change a connection's path contain: SIDR_REQ, SIDR_REP, LAP, APR?"""

from . import cm_names as cn
from .classport import ClassPortInfo
from .cm import CLASS, OfConnection
from .convert import rate_text, timeout_text
from .places import Inside, Mad
from .spec import Struct, enum, flag, gid, lid, nested, pad, part, pkey, qpn, raw, secret, uint

SIDR_REQ_ID, SIDR_REP_ID, LAP_ID, APR_ID = range(0x0017, 0x001B)
_IP_CM = frozenset({cn.IP_CM_PREFIX >> 24})


class SIDRReq(Struct):
    """Request for the queue pair behind a service id."""

    key, section, size, title = "cm.sidrreq", "IBA 12.11.1; kernel ibta_vol1_c12.h table 119; python-rdma CMSIDR_REQ", 232, "SIDR_REQ"
    carried_by = (Mad(CLASS, SIDR_REQ_ID),)
    request_id = uint(32, "Request ID", at="0", base="hex")
    partition_key = pkey("Partition Key", at="4", ws="pkey")
    reserved1 = pad(16, at="6")
    service_id = uint(64, "Service ID", at="8", base="hex", show=cn.service_text)
    service_prefix = part(service_id, 63, 24, "Service ID Prefix", base="hex", ws="serviceid.prefix")
    service_protocol = part(
        service_id, 23, 16, "Protocol", values=cn.IP_PROTOCOLS, base="hex", ws="serviceid.protocol", when=(service_prefix, _IP_CM)
    )
    service_port = part(service_id, 15, 0, "Destination Port", show=cn.port_text, ws="serviceid.dport", when=(service_prefix, _IP_CM))
    private_data = raw(216, "Private Data", at="16", ws="private")


class SIDRRep(Struct):
    """The queue pair behind a service id, or why there is none."""

    key, section, size, title = "cm.sidrrep", "IBA 12.11.2; kernel ibta_vol1_c12.h table 120", 232, "SIDR_REP"
    carried_by = (Mad(CLASS, SIDR_REP_ID),)
    request_id = uint(32, "Request ID", at="0", base="hex")
    status = enum(8, cn.SIDR_STATUS, "Status", at="4")
    additional_information_length = uint(8, "Additional Information Length", at="5", unit="bytes", ws="addinfolen")
    vendor_id_high = uint(16, "Vendor ID High", at="6", base="hex")
    qpn = qpn("QPN", at="8")
    vendor_id_low = uint(8, "Vendor ID Low", at="11", base="hex")
    service_id = uint(64, "Service ID", at="12", base="hex", show=cn.service_text)
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
    carried_by = (Mad(CLASS, LAP_ID),)
    q_key = secret(32, "Q_Key", at="8", ws="qkey")
    remote_qpn = qpn("Remote QPN/EECN", at="12", ws="remoteqpneecn")
    remote_cm_response_timeout = uint(5, "Remote CM Response Timeout", at="15", show=timeout_text, ws="remoteresptout")
    reserved1 = pad(3, at="15[5]")
    reserved2 = pad(32, at="16")
    alternate_local_port_lid = lid("Alternate Local Port LID", at="20", ws="alt_locallid")
    alternate_remote_port_lid = lid("Alternate Remote Port LID", at="22", ws="alt_remotelid")
    alternate_local_port_gid = gid("Alternate Local Port GID", at="24", ws="alt_localgid")
    alternate_remote_port_gid = gid("Alternate Remote Port GID", at="40", ws="alt_remotegid")
    alternate_flow_label = uint(20, "Alternate Flow Label", at="56", base="hex", ws="alt_flowlabel")
    reserved3 = pad(4, at="58[4]")
    alternate_traffic_class = uint(8, "Alternate Traffic Class", at="59", base="hex", ws="alt_tfcclass")
    alternate_hop_limit = uint(8, "Alternate Hop Limit", at="60", ws="alt_hoplim")
    reserved4 = pad(2, at="61")
    alternate_packet_rate = uint(6, "Alternate Packet Rate", at="61[2]", show=rate_text, ws="alt_pktrate")
    alternate_sl = uint(4, "Alternate SL", at="62", ws="alt_sl")
    alternate_subnet_local = flag("Alternate Subnet Local", at="62[4]", ws="alt_subnetlocal")
    reserved5 = pad(3, at="62[5]")
    alternate_local_ack_timeout = uint(5, "Alternate Local ACK Timeout", at="63", show=cn.ack_timeout_text, ws="alt_localacktout")
    reserved6 = pad(3, at="63[5]")
    private_data = raw(168, "Private Data", at="64", ws="private")


class APR(OfConnection):
    """Alternate path response."""

    key, section, size = "cm.apr", "IBA 12.8.2; kernel ibta_vol1_c12.h table 116; python-rdma CMAPR", 232
    carried_by = (Mad(CLASS, APR_ID),)
    additional_information_length = uint(8, "Additional Information Length", at="8", unit="bytes", ws="addinfolen")
    ap_status = enum(8, cn.AP_STATUS, "AP Status", at="9")
    reserved1 = pad(16, at="10")
    additional_information = raw(72, "Additional Information", at="12")
    private_data = raw(148, "Private Data", at="84", ws="private")

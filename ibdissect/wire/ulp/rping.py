"""rping (of librdmacm): the memory that the other side is to read or write next."""

from ..cm_names import IP_CM_PREFIX
from ..places import CmPayload
from ..spec import Struct, secret, uint

SERVICE = IP_CM_PREFIX | 0x06 << 16 | 7174
"""The port that it takes if it is given none."""


class RpingBuffer(Struct):
    """Memory of the sender for the other side's next READ or WRITE. The server's answers have the same size and repeat old bytes."""

    key, section, size, title = "rping", "librdmacm rping.c struct rping_rdma_info", 16, "rping buffer"
    carried_by = CmPayload(SERVICE)
    address = uint(64, "Address", at="0", base="hex")
    r_key = secret(32, "R_Key", at="8")
    length = uint(32, "Length", at="12", unit="bytes")

"""Link types of captures, by their numbers in the registry of pcap (https://www.tcpdump.org/linktypes.html)."""

LINK_NULL, LINK_ETHERNET, LINK_PPP, LINK_LOOP = 0, 1, 9, 108
LINK_SLL, LINK_ERF, LINK_IPOIB, LINK_INFINIBAND, LINK_SLL2 = 113, 197, 242, 247, 276
LINKS_RAW_IP = 12, 14, 101, 228, 229

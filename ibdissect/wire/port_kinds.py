"""Kinds of port, for components that only some of them have.

Sets of kinds, as bits. Table 29-5 of the book on PortInfo says of each component who has it; what a port does not have is undefined when
read and has no effect when written.
"""

ADAPTER_PORT, ROUTER_PORT, PORT_ZERO, EXTERNAL_PORT = 1, 2, 4, 8
"""A port of a channel adapter, a port of a router, the management port of a switch, any other port of a switch."""
ALL_PORTS = ADAPTER_PORT | ROUTER_PORT | PORT_ZERO | EXTERNAL_PORT
END_PORTS = ADAPTER_PORT | ROUTER_PORT | PORT_ZERO
"""Ports with a LID, keys and a management agent of their own."""
LINK_PORTS = ADAPTER_PORT | ROUTER_PORT | EXTERNAL_PORT
"""Ports with a cable; what port 0 of a switch shows there is undefined."""

"""Rules about the common header of management datagrams."""

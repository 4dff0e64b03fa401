"""Rules about attribute modifiers of management datagrams."""

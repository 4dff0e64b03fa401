"""Wireshark's display-filter language, compiled to conditions over the columns of a chunk."""

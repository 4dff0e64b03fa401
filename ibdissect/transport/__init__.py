"""Streams, messages and PDUs that queue pairs and TCP connections exchange, and congestion."""

"""Which streams, messages and PDUs do queue pairs and TCP connections exchange, and where was congestion?"""

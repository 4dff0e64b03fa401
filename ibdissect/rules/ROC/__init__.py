"""Rules about RoCE, and the CRCs of all packets."""

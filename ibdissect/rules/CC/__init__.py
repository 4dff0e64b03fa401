"""Rules about congestion control."""

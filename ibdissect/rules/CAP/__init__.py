"""Rules about the capture itself."""

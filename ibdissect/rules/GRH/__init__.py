"""Rules about the global route header."""

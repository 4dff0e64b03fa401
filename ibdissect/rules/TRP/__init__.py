"""Rules about traps."""

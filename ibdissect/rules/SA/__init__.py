"""Rules about subnet administration."""

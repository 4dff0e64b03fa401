"""Rules about subnet management packets."""

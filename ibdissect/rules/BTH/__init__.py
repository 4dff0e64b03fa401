"""Rules about the base transport header."""

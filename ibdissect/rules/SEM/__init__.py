"""Rules about the contents of subnet management attributes."""

"""Rules about partition keys."""

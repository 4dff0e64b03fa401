"""Rules about queue keys."""

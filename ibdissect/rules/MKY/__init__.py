"""Rules about management keys."""

"""Secrets and identities removed from a capture so that it still gives the same findings."""

"""Rules about connection management."""

"""Rules about performance management."""

"""Rules about Omni-Path."""

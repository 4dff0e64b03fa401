"""Packets between several capture points: their path, their losses and their delays."""

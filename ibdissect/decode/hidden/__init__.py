"""Bytes that may be a key or part of one, and the numbers of masked keys."""

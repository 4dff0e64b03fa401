"""Readers of captures: every container is read into the same arrays (see `chunk`)."""

"""Which captures can be read, and how: every container becomes the same arrays (see `chunk`)."""

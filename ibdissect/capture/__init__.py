"""Which captures can be read, and how? Every container is read into the same arrays (see `chunk`)."""

"""How do the lower packages work together? Reading a capture, checking it, its columns, and the Python interface."""

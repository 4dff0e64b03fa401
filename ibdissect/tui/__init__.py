"""The terminal UI. Everything about the capture itself is in `study`, which does not know the terminal."""

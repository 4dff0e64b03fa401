"""The terminal UI: a capture you can walk. Everything about the capture is in modules that do not know the terminal."""

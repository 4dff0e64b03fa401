"""The terminal UI. Everything about the capture itself is in `screen_model`, which does not know the terminal."""

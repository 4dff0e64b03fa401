"""What does a person who explores a capture ask? Rows, findings, conversations, statistics, notes; nothing here knows the terminal."""

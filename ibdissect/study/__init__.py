"""What does a person who walks a capture ask of it? Rows, findings, conversations, statistics, notes; no terminal here."""

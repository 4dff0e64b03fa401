"""The model of an explored capture: rows, findings, conversations, statistics, notes; nothing here knows the terminal."""

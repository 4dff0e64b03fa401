"""The fate of each connection, and where its time went."""

"""How is a capture exported? As tables, by SQL, or as frames with comments."""

"""Reading a capture and checking it: the composition of the rooms below."""

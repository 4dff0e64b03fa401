"""The parts of the main screen: each shows one thing and says what was chosen in it."""

"""The parts of the main screen: each shows one thing and sends a message when something is selected."""

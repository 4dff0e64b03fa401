"""How much of what does a capture contain, and what did it miss? Statistics of all traffic."""

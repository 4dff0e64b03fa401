"""Statistics of all traffic: the packets of a capture counted, and those that it missed."""

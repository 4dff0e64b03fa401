"""Where did a packet go between several capture points, and how long did it take?"""

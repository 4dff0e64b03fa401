"""Which path did packets take between several capture points, and how long did they take?"""

"""Which bytes may be a key, or part of one, and how are masked keys numbered?"""

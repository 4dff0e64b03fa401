"""How does a capture lose its secrets and identities, and still lint the same?"""

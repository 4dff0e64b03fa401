"""Conversations: who asked, who answered, what got lost."""

"""Rules about reliable and unreliable connections."""

"""Rules about multicast groups."""

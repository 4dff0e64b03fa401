"""Rules about the local route header, links and LIDs."""

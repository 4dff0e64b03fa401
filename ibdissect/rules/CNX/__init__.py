"""Rules about what became of connections, as `ibdissect diagnose` tells it."""

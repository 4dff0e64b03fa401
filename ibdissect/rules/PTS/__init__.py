"""Rules about packets between several capture points. Silent outside `ibdissect points`."""

"""Rules about what happened to packets between several capture points. Silent outside of `ibdissect points`."""

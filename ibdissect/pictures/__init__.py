"""The pictures of a capture on the page of `ibdissect report`."""

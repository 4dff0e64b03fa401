"""What does a capture look like on the page of `ibdissect report`?"""

"""Tests of the pictures on the page of `ibdissect report`."""

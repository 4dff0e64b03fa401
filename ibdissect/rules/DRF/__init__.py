"""Rules about what the capture shows and a subnet file says otherwise. Silent without --subnet."""

"""Rules about contradictions between the capture and subnet files. Silent without --subnet."""

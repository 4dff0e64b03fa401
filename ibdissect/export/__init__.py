"""Export of captures: as tables, by SQL, or as frames with comments."""

"""Building blocks of panes and screens: lists of lines, tables, splitters, input."""

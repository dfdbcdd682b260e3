"""One partition at work: its stream, how it is stopped, and how its failure travels as data."""

"""Push tables: the channel that producers write to and one query reads from, and everything that waits in it."""

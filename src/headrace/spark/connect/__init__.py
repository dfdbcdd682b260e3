"""A Spark Connect session: Spark's driver is a server, which asks this process for plans."""

"""A classic session: Spark's driver is a JVM beside this process, reached through Py4J."""

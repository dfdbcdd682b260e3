"""Everything that touches pyspark: session, planner callback, errors, explain, results."""

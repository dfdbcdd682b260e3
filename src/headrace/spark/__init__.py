"""Everything that touches pyspark: session, planner callback, errors, explain, results."""

from headrace.spark import versions

versions.check()

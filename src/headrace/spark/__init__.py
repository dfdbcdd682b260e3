"""Everything that touches pyspark: session, planner, errors, explain, results."""

from headrace.spark import versions

versions.check()

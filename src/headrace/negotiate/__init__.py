"""What Spark offers for a scan, what the provider answers, and what was planned; no pyspark and no JSON of Spark's."""

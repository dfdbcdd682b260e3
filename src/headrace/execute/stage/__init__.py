"""The work that Headrace does in Arrow between a provider's batches and Spark: filters, groups, first rows."""

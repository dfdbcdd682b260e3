"""PySpark's own Python Data Source, both ways: one of its sources as a provider, a provider as one of its sources."""

"""Benchmarks: Headrace and its rivals, alternately, in one session, on the same data."""

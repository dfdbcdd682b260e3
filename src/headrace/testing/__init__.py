"""The testing kit: whether a provider keeps its promises, without Spark; importing it does not import pyspark."""

from headrace.testing.check import check_provider
from headrace.testing.pytest_tests import provider_tests
from headrace.testing.report import BrokenPromise, Finding, Promise, Report, Severity
from headrace.testing.writes import check_writer

__all__ = [
    "BrokenPromise",
    "Finding",
    "Promise",
    "Report",
    "Severity",
    "check_provider",
    "check_writer",
    "provider_tests",
]

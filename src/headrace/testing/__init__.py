"""The testing kit: whether a provider keeps its promises, without Spark; importing it does not import pyspark."""

from headrace.testing.check import check_provider
from headrace.testing.pytest_tests import provider_tests
from headrace.testing.report import BrokenPromise, Finding, Promise, Report, Severity

__all__ = ["BrokenPromise", "Finding", "Promise", "Report", "Severity", "check_provider", "provider_tests"]

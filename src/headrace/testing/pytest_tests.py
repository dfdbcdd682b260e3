"""provider_tests: the checks of a provider as pytest tests, one per promise; runs in the test's process."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from headrace.provider import TableProvider
from headrace.testing.check import check_provider
from headrace.testing.report import READ_PROMISES, Promise, Report, Severity


def provider_tests(factory: Callable[[], TableProvider], **options: Any) -> Callable[[Promise], None]:
    """A pytest test function with one test per promise.

        test_my_table = provider_tests(lambda: MyTable("testdata"))

    gives ``test_my_table[schema]``, ``test_my_table[filters]`` and so on. The provider is made and checked once,
    when the first of them runs; a promise that the provider does not make, or that could not be checked because another
    is broken, is skipped.
    ``options`` are those of ``check_provider``. For a provider that needs fixtures, write a test that calls
    ``check_provider(provider).raise_if_failed()``. Needs pytest.
    """
    import pytest

    report: Callable[[], Report] = functools.cache(lambda: check_provider(factory(), **options))

    @pytest.mark.parametrize("promise", list(READ_PROMISES), ids=str)
    def test_promise(promise: Promise) -> None:
        __tracebackhide__ = True
        found = report().about(promise)
        found.raise_if_failed()
        for finding in found.of(Severity.UNCHECKED):
            pytest.skip(finding.message)
        if found.outcome(promise) == "not offered":
            pytest.skip(f"{found.provider} does not offer this")

    return test_promise

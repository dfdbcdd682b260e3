"""The mark of tests that run with each ``placement``: the plan executed by Spark's workers, and by the driver."""

from __future__ import annotations

import pytest

from producing import BOTH_PLACEMENTS

placements = pytest.mark.parametrize("placement", BOTH_PLACEMENTS, ids=lambda placement: placement.name)

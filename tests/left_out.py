"""Tests that do not run here. In CI a skipped test has failed, since .ci/run brings what the tests need.

So a test that lacks something calls `pytest.skip`, here as there. Only what .ci/run does not promise is left out with
`leave_out`, in CI too, and counted at the end of the run.
"""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def is_ci() -> bool:
    """Whether all tests are asked for, and nothing may be missing."""
    return os.environ.get("CI", "").lower() in {"1", "true"}


class LeftOut(pytest.skip.Exception):
    """A skip that CI takes."""


def leave_out(reason: str) -> NoReturn:
    """End the running test as skipped, in CI too."""
    raise LeftOut(reason)

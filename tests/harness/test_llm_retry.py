"""How long to wait, as a function."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.llm.price import Price
from harness.llm.retry import RetryPolicy, retry_after

NOW = datetime(2030, 1, 1, 12, 0, 0, tzinfo=UTC)


def test_waits_double_up_to_the_cap() -> None:
    policy = RetryPolicy(base_sec=1.0, cap_sec=10.0)
    assert [policy.wait(retry, 0.0, None) for retry in range(6)] == [1, 2, 4, 8, 10, 10]


@given(retry=st.integers(0, 500), chance=st.floats(0, 1, exclude_max=True), asked=st.none() | st.floats(0, 1e6))
def test_a_wait_is_never_shorter_than_asked_and_jitter_only_adds(
    retry: int, chance: float, asked: float | None
) -> None:
    policy = RetryPolicy()
    wait = policy.wait(retry, chance, asked)
    assert wait >= policy.wait(retry, 0.0, asked) >= (asked or 0.0)
    assert wait <= max(policy.cap_sec, asked or 0.0) + policy.cap_sec * policy.jitter


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "7", "retry-after-ms": "1500"}, 1.5),
        ({"retry-after": "Tue, 01 Jan 2030 12:00:30 GMT"}, 30.0),
        ({"retry-after": "Tue, 01 Jan 2030 11:00:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
    ],
)
def test_retry_after_is_seconds_or_a_date(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, NOW) == seconds


@pytest.mark.case("C7")
def test_a_price_without_token_counts_is_no_cost() -> None:
    price = Price(input=3.0, output=15.0)
    assert price.of(None, None, 5) is None
    assert price.of(1_000_000, 400_000, 100_000) == pytest.approx(3.0 + 1.5)
    assert Price(input=3.0, output=15.0, cached=0.3).of(1_000_000, 400_000, 0) == pytest.approx(1.8 + 0.12)

"""Student's t by its closed form agrees with tables and with scipy."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import stdtr, stdtrit

from harness.job.student import central_probability, t_quantile


@pytest.mark.parametrize(
    ("df", "value"),
    [
        (1, 12.706204736),
        (2, 4.30265273),
        (5, 2.570581836),
        (7, 2.364624252),
        (11, 2.20098516),
        (29, 2.045229642),
        (99, 1.984216952),
    ],
)
def test_the_two_sided_95_percent_quantiles_of_the_tables(df: int, value: float) -> None:
    assert t_quantile(0.975, df) == pytest.approx(value, abs=5e-9)
    assert t_quantile(0.025, df) == -t_quantile(0.975, df)


@given(st.floats(0.001, 0.999), st.integers(1, 3000))
def test_quantiles_agree_with_scipy(p: float, df: int) -> None:
    assert t_quantile(p, df) == pytest.approx(stdtrit(df, p), rel=1e-9, abs=1e-9)


@given(st.floats(0, 50), st.integers(1, 3000))
def test_probabilities_agree_with_scipy(t: float, df: int) -> None:
    assert central_probability(t, df) == pytest.approx(2 * stdtr(df, t) - 1, abs=1e-12)


@pytest.mark.parametrize(("p", "df"), [(0, 3), (1, 3), (0.5, 0), (float("nan"), 3)])
def test_nonsense_is_refused(p: float, df: int) -> None:
    with pytest.raises(ValueError, match="no Student"):
        t_quantile(p, df)

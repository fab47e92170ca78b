"""Many categories at once: Holm and Benjamini-Hochberg."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import false_discovery_control

from evals.stats.multiplicity import benjamini_hochberg, holm

P = [0.001, 0.008, 0.012, 0.019, 0.03, 0.041, 0.06, 0.2, 0.35, 0.5, 0.7, 0.9]


def test_the_worked_example_of_twelve_categories() -> None:
    assert holm(P) == pytest.approx([0.012, 0.088, 0.12, 0.171, 0.24, 0.287, 0.36, 1, 1, 1, 1, 1])
    expected = [0.012, 0.048, 0.048, 0.057, 0.072, 0.082, 0.102857, 0.3, 0.466667, 0.6, 0.763636, 0.9]
    assert benjamini_hochberg(P) == pytest.approx(expected, abs=5e-7)
    assert sum(p <= 0.05 for p in holm(P)) == 1
    assert sum(p <= 0.05 for p in benjamini_hochberg(P)) == 3


def test_twelve_tests_without_correction_raise_an_alarm_nearly_half_of_the_time() -> None:
    assert pytest.approx(0.4596, abs=5e-5) == 1 - 0.95**12


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_adjusting_agrees_with_scipy_never_helps_and_keeps_the_order(values: list[float]) -> None:
    discoveries, family = benjamini_hochberg(values), holm(values)
    assert discoveries == pytest.approx(list(false_discovery_control(values)))
    for raw, q, adjusted in zip(values, discoveries, family, strict=True):
        assert raw <= q * (1 + 1e-12) <= adjusted * (1 + 1e-9) + 1e-12
    order = sorted(range(len(values)), key=values.__getitem__)
    assert [family[i] for i in order] == sorted(family)
    assert holm(values[::-1]) == family[::-1]


def test_no_tests_need_no_adjusting() -> None:
    assert holm([]) == benjamini_hochberg([]) == []

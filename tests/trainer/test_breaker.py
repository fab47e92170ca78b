"""When dropping broken groups has to stop."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trainer.samples.breaker import CumulativeBreaker, WindowBreaker


def decisions(pattern: str) -> list[bool]:
    breaker = CumulativeBreaker()
    return [breaker.drops(letter == "b") for letter in pattern]


def test_the_published_rule_drops_every_other_bad_group() -> None:
    assert decisions("bbbbbb") == [False, True, False, True, False, True]
    assert decisions("gbbbgb") == [False, True, False, True, False, True]
    assert sum(decisions("b" * 1000)) == 500


@given(st.lists(st.booleans(), max_size=200))
def test_the_published_rule_never_drops_more_than_half_nor_a_good_group(pattern: list[bool]) -> None:
    breaker = CumulativeBreaker()
    for bad in pattern:
        assert not breaker.drops(bad) or bad
        assert breaker.dropped * 2 <= breaker.total


def test_a_long_good_past_does_not_hide_a_broken_present() -> None:
    breaker = WindowBreaker(window=64, minimum=16)
    for _ in range(1000):
        breaker.drops(False)
    for number in range(64):
        breaker.drops(True)
        assert (breaker.reason is not None) is (number >= 32)
    assert breaker.reason is not None and "33 of the last 64" in breaker.reason


def test_a_few_early_failures_do_not_open_it() -> None:
    breaker = WindowBreaker(minimum=16)
    assert [breaker.drops(True) for _ in range(15)] == [True] * 15
    assert breaker.reason is None

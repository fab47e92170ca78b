"""Windowed FIFO: the published example, its bounds as properties, and heads that never come."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.schedule.window import WindowedFifo, window_of


def play(window: int | None, *, slots: int = 8, items: int = 40, slow: int = 7) -> Iterator[tuple[int, int]]:
    """One update for each item taken, a new item for each slot that becomes free; `slow` finishes when nothing else
    can be taken. Yields what was taken and how many updates old it was."""
    fifo: WindowedFifo[None] = WindowedFifo(window)
    born: dict[int, int] = {}
    for version in range(items):
        while fifo.unconsumed < slots and len(born) < items:
            number = fifo.start()
            born[number] = version
            if number != slow:
                fifo.finish(number, None)
        taken = fifo.take()
        if taken is None:
            fifo.finish(slow, None)
            taken = fifo.take()
        assert taken is not None
        yield taken[0], version - born[taken[0]]


@pytest.mark.parametrize(("window", "lag"), [(1, 7), (4, 10), (8, 14), (None, 39)])
def test_the_largest_lag_of_the_published_example(window: int | None, lag: int) -> None:
    assert max(lag for _, lag in play(window)) == lag


def test_the_order_of_the_published_example() -> None:
    assert [number for number, _ in play(1)][:12] == list(range(12))
    assert [number for number, _ in play(4)][:12] == [0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 7, 11]
    assert [number for number, _ in play(None)][-1] == 7


@settings(max_examples=50)
@given(
    random=st.randoms(use_true_random=False),
    slots=st.integers(1, 8),
    window=st.integers(1, 12),
    updates=st.integers(1, 40),
)
def test_whatever_finishes_when_no_item_is_older_than_the_bound(
    random: Random, slots: int, window: int, updates: int
) -> None:
    fifo: WindowedFifo[int] = WindowedFifo(window)
    born: dict[int, int] = {}
    running: set[int] = set()
    version = 0
    while version < updates:
        while fifo.unconsumed < slots:
            number = fifo.start()
            born[number] = version
            running.add(number)
        head = fifo.head
        taken = fifo.take()
        if taken is not None:
            assert taken[0] == taken[1] and head <= taken[0] < head + window
            assert version - born[taken[0]] <= slots + window - 2
            version += 1
        elif running:
            number = random.choice(sorted(running))
            running.remove(number)
            if random.random() < 0.7:
                fifo.finish(number, number)
            else:
                fifo.give_up(number)
        else:
            raise AssertionError("everything finished, and nothing may be taken: the window is dead")


def test_a_head_that_failed_counts_as_consumed() -> None:
    fifo: WindowedFifo[str] = WindowedFifo(2)
    for _ in range(4):
        fifo.start()
    fifo.finish(2, "c")
    fifo.finish(1, "b")
    assert fifo.blocked == 1
    assert fifo.take() == (1, "b") and fifo.take() is None and fifo.head == 0
    fifo.give_up(0)
    assert fifo.head == 2 and fifo.take() == (2, "c") and fifo.head == 3
    with pytest.raises(KeyError):
        fifo.finish(0, "late")


def test_the_window_is_a_share_of_the_slots_and_at_least_the_head() -> None:
    assert [window_of(slots) for slots in (1, 8, 8192)] == [1, 2, 2457]
    with pytest.raises(ValueError, match="at least its head"):
        WindowedFifo[str](0)

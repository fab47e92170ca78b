"""pass@k, that one of k attempts succeeds, and pass^k, that all of them do: unbiased, from n >= k attempts.

pass@k = 1 - C(n-c, k)/C(n, k)   Chen et al. 2021, arXiv 2107.03374
pass^k = C(c, k)/C(n, k)         tau-bench, arXiv 2406.12045

Fewer than k attempts say nothing: None, never an extrapolation, and the mean says over how many tasks it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import comb

Estimator = Callable[[int, int, int], float | None]


def pass_at_k(n: int, c: int, k: int) -> float | None:
    """That at least one of `k` succeeds, from `c` successes in `n`; None for n < k."""
    _require(n, c, k)
    return None if n < k else (comb(n, k) - comb(n - c, k)) / comb(n, k)


def pass_hat_k(n: int, c: int, k: int) -> float | None:
    """That all of `k` succeed, from `c` successes in `n`; None for n < k."""
    _require(n, c, k)
    return None if n < k else comb(c, k) / comb(n, k)


def _require(n: int, c: int, k: int) -> None:
    if not (0 <= c <= n and k >= 1):
        raise ValueError(f"no pass@k: {c} of {n}, k = {k}")


@dataclass(frozen=True, slots=True)
class OverTasks:
    """A mean over the tasks where it is defined: `n_defined` of `n_tasks`. None where it is defined for none."""

    value: float | None
    n_defined: int
    n_tasks: int


def over_tasks(estimator: Estimator, counts: Iterable[tuple[int, int]], k: int) -> OverTasks:
    """The mean of `pass_at_k` or `pass_hat_k` over tasks, each given as (attempts, successes)."""
    estimates = [estimator(n, c, k) for n, c in counts]
    defined = [value for value in estimates if value is not None]
    return OverTasks(sum(defined) / len(defined) if defined else None, len(defined), len(estimates))

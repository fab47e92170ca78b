"""The numbers that compare two policies on the same tokens, from differences of log-probabilities. None is unknown."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Numbers = dict[str, float | int | None]

_LARGEST = 30.0
"""exp of more is beyond what a ratio can mean, and would make every mean infinite."""
_PERCENTILES = ("p01", 1), ("p50", 50), ("p99", 99)


def ratio_numbers(log_ratio: ArrayLike) -> Numbers:
    """Mean, range and percentiles of exp(log_ratio), and the effective share of samples (`effective_share`)."""
    known = _known(log_ratio).clip(-_LARGEST, _LARGEST)
    if not len(known):
        return dict.fromkeys(("ratio_mean", "ratio_min", "ratio_max", "ratio_p01", "ratio_p50", "ratio_p99", "ess"))
    ratio = np.exp(known)
    return {
        "ratio_mean": float(ratio.mean()),
        "ratio_min": float(ratio.min()),
        "ratio_max": float(ratio.max()),
        **{f"ratio_{name}": float(np.percentile(ratio, at)) for name, at in _PERCENTILES},
        "ess": effective_share(ratio),
    }


def effective_share(weights: ArrayLike) -> float | None:
    """Kish's effective sample size of importance weights, as a share of their number: (sum w)^2 / (n sum w^2)."""
    w = np.asarray(weights, dtype=np.float64)
    return float(w.sum() ** 2 / (np.square(w).sum() * len(w))) if np.square(w).sum() > 0 else None


def divergence(name: str, difference: ArrayLike) -> Numbers:
    """Schulman's estimators of KL(sampler || trainer), from d = log pi - log mu on tokens that mu sampled.

    k1 = mean(-d),  k3 = mean(exp(d) - 1 - d), both without bias; k3 is never negative. And the largest |d|.
    """
    known = _known(difference)
    if not len(known):
        return dict.fromkeys((f"{name}_k1", f"{name}_k3", f"{name}_max_abs"))
    return {
        f"{name}_k1": float(-known.mean()),
        f"{name}_k3": float((np.expm1(known.clip(max=_LARGEST)) - known).mean()),
        f"{name}_max_abs": float(np.abs(known).max()),
    }


def _known(values: ArrayLike) -> NDArray[np.float64]:
    found = np.asarray(values, dtype=np.float64)
    return found[np.isfinite(found)]

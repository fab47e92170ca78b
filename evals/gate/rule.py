"""The rule on one set of paired counts, without any file: what the gate decides, and what the simulation simulates.

FAIL          a drop of at least the minimum effect that chance explains with probability <= alpha (exact sign-flip)
PASS          the lower bound of the difference excludes a drop of the margin: no worse, not merely not proven worse;
              where it is asked for, also if nothing fell
INCONCLUSIVE  neither
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from evals.difference import Totals, flips_of, t_interval_of
from evals.gate.policy import Policy


class Verdict(StrEnum):
    """What a gate says."""

    PASS = "pass"  # noqa: S105
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"
    INVALID = "invalid"


@dataclass(frozen=True, slots=True)
class Reading:
    """One application of the rule. `difference` is new minus base; `lower` its one-sided bound at 1 - alpha."""

    verdict: Verdict
    difference: float
    p: float
    lower: float


def read(pairs: Sequence[tuple[Totals, Totals]], policy: Policy) -> Reading:
    """Apply the rule to (successes or summed rewards, attempts) per task, as (base, new)."""
    value = sum(c1 / n1 - c0 / n0 for (c0, n0), (c1, n1) in pairs) / len(pairs)
    p = flips_of(pairs).worse
    lower, _ = t_interval_of(pairs, 1 - 2 * policy.alpha)
    if p <= policy.alpha and -value >= policy.min_effect - 1e-12:
        verdict = Verdict.FAIL
    elif lower > -policy.margin or (policy.pass_if_not_worse and value >= 0):
        verdict = Verdict.PASS
    else:
        verdict = Verdict.INCONCLUSIVE
    return Reading(verdict, value, p, lower)

"""What a crash most likely begins with, looked for in the order in which it is worth mending.

1. extreme failures      the longest failures jump while there are no more of them, or a few attempts weigh too much
2. negatives dominate    failures become the larger part, or outweigh what succeeded
3. bad patterns          more and more tool calls go round in circles, or are refused for their form
4. moves too fast        nothing of that, and yet the policy left what it is trained on, or its entropy is gone

Each finding has its evidence in numbers, and its remedies from the mildest to the strongest, in the end always a lower
learning rate and a tighter clip. The order is that of ROLL's terminal agents: extreme attempts are few and cheap to
leave out, and what they cause looks like the later two.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from trainer.config import TrainConfig
from trainer.monitor.history import History, median, rising_p
from trainer.monitor.invariants import Reading
from trainer.monitor.remedy import (
    Remedy,
    mask_long_failures,
    mask_tool_errors,
    slow_down,
    tighten,
    weigh_failures_less,
)
from trainer.monitor.settings import DiagnosisConfig, Invariant

_FEW = 3
"""Steps that confirm a jump: one alone may be chance."""
_PAIRS = 50
"""Attempts from which 1 % of them is a statement."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One suspicion."""

    name: str
    evidence: str
    remedies: tuple[Remedy, ...]


def diagnose(history: History, config: TrainConfig, readings: Mapping[Invariant, Reading]) -> list[Finding]:
    """What is found now, the first to be mended first."""
    settings = config.monitor.diagnosis
    less, last = weigh_failures_less(config), (tighten(config), slow_down(config))
    found = []
    extreme = _long_failures(history, settings) or _heavy_attempts(history, settings)
    if extreme is not None:
        evidence, tokens = extreme
        found.append(_finding("extreme_failures", evidence, mask_long_failures(config, tokens), less, *last))
    dominating = _negatives(history, settings)
    if dominating is not None:
        found.append(_finding("negatives_dominate", dominating, less, *last))
    pattern = _patterns(history, settings)
    if pattern is not None:
        found.append(_finding("bad_patterns", pattern, mask_tool_errors(config), *last))
    fast = _too_fast(readings)
    if fast is not None and not found:
        found.append(_finding("moves_too_fast", fast, slow_down(config), tighten(config)))
    return found


def _finding(name: str, evidence: str, *remedies: Remedy | None) -> Finding:
    return Finding(name, evidence, tuple(remedy for remedy in remedies if remedy is not None))


def _long_failures(history: History, settings: DiagnosisConfig) -> tuple[str, int] | None:
    """The evidence, and the length beyond which to mask."""
    longest, counts = (
        history.last(name, settings.window + _FEW) for name in ("length_negative_max", "negative_rollouts")
    )
    if min(len(longest), len(counts)) < settings.window // 2 + _FEW:
        return None
    usual, present = median(longest[:-_FEW]), longest[-_FEW:]
    before, now = _mean(counts[:-_FEW]), _mean(counts[-_FEW:])
    jumped = sum(length >= settings.long_factor * usual for length in present) > _FEW // 2
    if not jumped or not usual or abs(now - before) > settings.same_count * before:
        return None
    evidence = (
        f"the longest failure went from {usual:,.0f} to {max(present):,.0f} tokens (x{max(present) / usual:.1f}) "
        f"while failures stayed at {now:.0f} a step (before: {before:.0f})"
    )
    return evidence, _limit([usual, max(present)], settings)


def _limit(lengths: list[float], settings: DiagnosisConfig) -> int:
    """The published limit where it divides the usual from the extreme; else twice what is usual."""
    usual = median(lengths[:-1] or lengths)
    return (
        settings.failed_limit if usual < settings.failed_limit < max(lengths) else round(settings.long_factor * usual)
    )


def _heavy_attempts(history: History, settings: DiagnosisConfig) -> tuple[str, int] | None:
    share, attempts = (history.recent(name, _FEW) for name in ("top_gradient_share", "rollouts"))
    if share is None or attempts is None or attempts < _PAIRS or share < settings.heavy_share:
        return None
    longest = history.last("length_negative_max", settings.window) or [settings.failed_limit]
    return f"the heaviest 1 % of attempts carry {share:.0%} of the gradient's weight", _limit(longest, settings)


def _negatives(history: History, settings: DiagnosisConfig) -> str | None:
    weight = history.recent("negative_gradient_share", settings.window // 4)
    if weight is not None and weight > settings.negative_share:
        return f"attempts that failed carry {weight:.0%} of the gradient's weight"
    good, bad = (history.last(name, settings.window) for name in ("positive_rollouts", "negative_rollouts"))
    if len(good) != len(bad):
        return None
    shares = [b / (a + b) for a, b in zip(good, bad, strict=True) if a + b]
    risen = _risen(shares, settings)
    if risen is None or risen[1] < 0.5:
        return None
    return f"failures rose from {risen[0]:.0%} to {risen[1]:.0%} of attempts within {settings.window} steps"


_SPEED = frozenset({"behaviour_k3", "ess", "ratio_mean", "entropy"})
"""What a policy that moves too fast loses; staleness and mismatch are not its doing."""


def _too_fast(readings: Mapping[Invariant, Reading]) -> str | None:
    lost = [words for reading in readings.values() for name, words in reading.alarms if name in _SPEED]
    return "; ".join(lost) or None


_PATTERNS = {
    "looped_call_share": "tool calls in unproductive loops",
    "invalid_call_share": "tool calls refused for their form",
}


def _patterns(history: History, settings: DiagnosisConfig) -> str | None:
    for name, words in _PATTERNS.items():
        risen = _risen(history.last(name, settings.window), settings)
        if risen is not None and risen[1] >= settings.bad_calls:
            return f"{words} rose from {risen[0]:.0%} to {risen[1]:.0%} within {settings.window} steps"
    return None


def _risen(values: list[float], settings: DiagnosisConfig) -> tuple[float, float] | None:
    """The means of the window's first and last quarter, if they rose, and by a trend."""
    if len(values) < settings.window:
        return None
    quarter = settings.window // 4
    first, last = _mean(values[:quarter]), _mean(values[-quarter:])
    rose = last - first >= settings.rise and rising_p(values) < settings.trend_p
    return (first, last) if rose else None


def _mean(values: Iterable[float]) -> float:
    known = list(values)
    return math.fsum(known) / len(known)

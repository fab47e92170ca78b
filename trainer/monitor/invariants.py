"""The three things that training must not lose, each watched through several numbers.

exploration   attempts at a task still differ, so that there is something to choose from
signal        rewards still tell attempts apart, and no few attempts decide alone
drift         what is trained on was sampled by nearly the policy that is trained

Each number has a warning and an alarm: absolute, or relative to what it was in the run's first steps. An invariant is
as bad as its worst number. The defaults are what practice reports, and else this project's choice.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

from trainer.monitor.history import History
from trainer.monitor.settings import Invariant, MonitorConfig, Threshold

INVARIANTS: tuple[Invariant, ...] = ("exploration", "signal", "drift")


class Level(IntEnum):
    """How an invariant stands. Numbers that are unknown are no reason to worry, and none to be sure: `UNKNOWN`."""

    UNKNOWN = 0
    OK = 1
    WARN = 2
    ALARM = 3

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One number of one invariant.

    Attributes:
        side: on which side of the threshold it is bad.
        of_start: the threshold is a share of what the number began with.
        attempts: so many attempts a step are needed to judge it.
        unless_solved: a number that has to be bad once nearly everything is solved; then it is not judged.
    """

    invariant: Invariant
    metric: str
    side: Literal["above", "below"]
    warn: float | None
    alarm: float | None
    of_start: bool = False
    unless_solved: bool = False
    attempts: int = 0


SOLVED = 0.9
"""Mean reward from which a step that has nothing to tell apart has done its work."""

RULES: tuple[Rule, ...] = (
    # A relative fall: no entropy is universally too low (project default).
    Rule(invariant="exploration", metric="entropy", side="below", warn=0.5, alarm=0.3, of_start=True),
    Rule(invariant="exploration", metric="unique_sequences", side="below", warn=0.3, alarm=0.2, unless_solved=True),
    Rule(invariant="exploration", metric="strategies", side="below", warn=1.3, alarm=1.1, unless_solved=True),
    Rule(invariant="exploration", metric="invalid_call_share", side="above", warn=2.0, alarm=3.0, of_start=True),
    # More than half of all groups may be without signal in a sound run (Reinforce-Ada).
    Rule(invariant="signal", metric="effective_group_ratio", side="below", warn=0.4, alarm=0.3, unless_solved=True),
    Rule(invariant="signal", metric="negative_token_share", side="above", warn=0.7, alarm=0.8),
    Rule(invariant="signal", metric="top_gradient_share", side="above", warn=0.25, alarm=0.5, attempts=50),
    # verl's bounds for importance weights and KL; the staleness of prime-rl. Same weights in fp32 agree to 1e-8.
    Rule(invariant="drift", metric="mismatch_k3", side="above", warn=1e-3, alarm=1e-2),
    Rule(invariant="drift", metric="mismatch_max_abs", side="above", warn=0.5, alarm=1.0),
    Rule(invariant="drift", metric="behaviour_k3", side="above", warn=0.03, alarm=0.1),
    Rule(invariant="drift", metric="ess", side="below", warn=0.5, alarm=0.3),
    Rule(invariant="drift", metric="ratio_mean", side="above", warn=1.5, alarm=2.0),
    Rule(invariant="drift", metric="staleness_max", side="above", warn=4, alarm=8),
)


@dataclass(frozen=True, slots=True)
class Reading:
    """How an invariant stands after a step, and the numbers that make it no better. Empty where all is well.

    Attributes:
        alarms: of the numbers that are in alarm, the name and the evidence.
    """

    level: Level
    evidence: tuple[str, ...] = ()
    alarms: tuple[tuple[str, str], ...] = ()


def read(history: History, config: MonitorConfig) -> dict[Invariant, Reading]:
    """All three invariants."""
    judged = [(rule, *_judged(rule, history, config)) for rule in RULES]
    found: dict[Invariant, Reading] = {}
    for invariant in INVARIANTS:
        own = [(level, words) for rule, level, words in judged if rule.invariant == invariant]
        alarms = [(rule.metric, words) for rule, level, words in judged if level is Level.ALARM]
        worst = max(level for level, _ in own)
        evidence = tuple(words for level, words in sorted(own, key=lambda each: -each[0]) if level >= Level.WARN)
        found[invariant] = Reading(worst, evidence, tuple(each for each in alarms if each[1] in evidence))
    return found


def _judged(rule: Rule, history: History, config: MonitorConfig) -> tuple[Level, str]:
    value = history.recent(rule.metric, config.window)
    if value is None:
        return Level.UNKNOWN, ""
    if rule.attempts and (history.recent("rollouts", config.window) or 0) < rule.attempts:
        return Level.UNKNOWN, ""
    reward = history.recent("reward_mean", config.window)
    if rule.unless_solved and reward is not None and reward >= SOLVED:
        return Level.OK, ""
    start = history.began(rule.metric) if rule.of_start else 1.0
    if not start:
        return Level.UNKNOWN, ""
    given = config.thresholds.get(rule.metric, Threshold(warn=rule.warn, alarm=rule.alarm))
    for level, bound in ((Level.ALARM, given.alarm), (Level.WARN, given.warn)):
        if bound is not None and (value / start > bound if rule.side == "above" else value / start < bound):
            return level, _words(rule, value, start, bound, level, config)
    return Level.OK, ""


def _words(rule: Rule, value: float, start: float, bound: float, level: Level, config: MonitorConfig) -> str:
    over = "in the last step" if config.window == 1 else f"over the last {config.window} steps"
    said = f"{rule.metric} {value:.3g} {over}"
    if rule.of_start:
        return f"{said}, {100 * value / start:.3g}% of what it began with ({level} {rule.side} {100 * bound:g}%)"
    return f"{said} ({level} {rule.side} {bound:g})"

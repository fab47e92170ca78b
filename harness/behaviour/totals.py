"""The behaviour of many trials as rates and means, each with the number that it is over."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from harness.records import Behaviour


class Unit(StrEnum):
    """How a value is to be read."""

    SHARE = "share"
    NUMBER = "number"
    SECONDS = "seconds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What is known of one trial. `environment_sec`: starting and preparing the sandbox, and verifying."""

    behaviour: Behaviour
    environment_sec: float | None = None
    total_sec: float | None = None
    out_of_time: bool = False

    @property
    def other_sec(self) -> float | None:
        """What is neither the model's, the tools' nor the environment's; None where any of these is unknown."""
        parts = (self.behaviour.model_sec, self.behaviour.tool_sec, self.environment_sec)
        known = [part for part in parts if part is not None]
        if self.total_sec is None or len(known) < len(parts):
            return None
        return max(0.0, self.total_sec - sum(known))


@dataclass(frozen=True, slots=True)
class Measure:
    """One number: `n` is how many `of` it is over; None where there are none."""

    key: str
    label: str
    value: float | None
    n: int
    of: str
    unit: Unit = Unit.NUMBER


def measures(trials: Sequence[Observed]) -> list[Measure]:
    """All numbers, always the same ones in the same order. A trial that does not tell one is not in its n."""
    table = _Table(trials)
    return [
        table.mean("tool_calls", "tool calls per trial"),
        table.mean("turns", "turns with calls, per trial"),
        table.mean("subagents", "sub-agents per trial"),
        table.ratio("width", "calls per turn", "tool_calls", "turns", "turns", Unit.NUMBER),
        table.ratio("parallel_rate", "turns with parallel calls", "parallel_turns", "turns", "turns"),
        table.ratio(
            "parallel_inspections", "inspections, of parallel calls", "parallel_inspections", "parallel_calls", "calls"
        ),
        table.mean("early_inspections", "parallel inspections before a change"),
        table.ratio("invalid_rate", "calls refused for their form", "invalid_calls", "tool_calls", "calls"),
        table.ratio("error_rate", "calls that failed", "failed_calls", "judged_calls", "calls"),
        table.ratio("repeat_rate", "repeated after the same failure", "repeated_failures", "judged_calls", "calls"),
        table.ratio("timeout_rate", "calls that timed out", "timeouts", "judged_calls", "calls"),
        table.ratio(
            "timeout_retry_rate", "time-outs repeated as they were", "timeout_retries", "timeouts", "time-outs"
        ),
        table.having("loop_rate", "trials with an unproductive loop", "loops"),
        table.ratio("wasted_rate", "calls in loops", "looped_calls", "tool_calls", "calls"),
        table.most("longest_loop", "longest loop, in calls"),
        table.having("test_touch_rate", "trials that name the verifier's files", "test_touches"),
        table.having("history_read_rate", "trials that look in git for other commits", "history_reads"),
        table.ratio("background_rate", "calls that leave something running", "background_calls", "tool_calls", "calls"),
        table.mean("context_first", "first prompt, in tokens"),
        table.mean("context_last", "last prompt, in tokens"),
        table.mean("context_max", "largest prompt, in tokens"),
        table.mean("compactions", "compactions per trial"),
        table.seconds("model_sec", "model", lambda trial: trial.behaviour.model_sec),
        table.seconds("tool_sec", "tools", lambda trial: trial.behaviour.tool_sec),
        table.seconds("environment_sec", "environment and verifier", lambda trial: trial.environment_sec),
        table.seconds("other_sec", "anything else", lambda trial: trial.other_sec),
        table.share("out_of_time_rate", "trials that ran out of time", [trial.out_of_time for trial in trials]),
    ]


class _Table:
    """Builds the measures from one sequence of trials."""

    def __init__(self, trials: Sequence[Observed]) -> None:
        self._trials = trials

    def mean(self, name: str, label: str) -> Measure:
        """The mean of a count."""
        return self._mean(name, label, self._known(name))

    def most(self, name: str, label: str) -> Measure:
        """The largest of a count."""
        values = self._known(name)
        return Measure(name, label, max(values, default=None), len(values), "trials")

    def seconds(self, key: str, label: str, value: Callable[[Observed], float | None]) -> Measure:
        """The mean of a time."""
        values = [found for trial in self._trials if (found := value(trial)) is not None]
        return self._mean(key, f"{label}, seconds per trial", values, Unit.SECONDS)

    def having(self, key: str, label: str, name: str) -> Measure:
        """The share of trials in which a count is not 0."""
        return self.share(key, label, [value > 0 for value in self._known(name)])

    def share(self, key: str, label: str, flags: Sequence[bool]) -> Measure:
        """The share of trials of which something is true."""
        return self._mean(key, label, flags, Unit.SHARE)

    def ratio(self, key: str, label: str, part: str, whole: str, of: str, unit: Unit = Unit.SHARE) -> Measure:
        """One count over another, both summed over the trials that tell them."""
        pairs = [(getattr(trial.behaviour, part), getattr(trial.behaviour, whole)) for trial in self._trials]
        known = [(a, b) for a, b in pairs if a is not None and b is not None]
        n = sum(b for _, b in known)
        return Measure(key, label, sum(a for a, _ in known) / n if n else None, n, of, unit)

    def _known(self, name: str) -> list[int]:
        values: Iterable[int | None] = (getattr(trial.behaviour, name) for trial in self._trials)
        return [value for value in values if value is not None]

    def _mean(self, key: str, label: str, values: Sequence[float], unit: Unit = Unit.NUMBER) -> Measure:
        return Measure(key, label, sum(values) / len(values) if values else None, len(values), "trials", unit)

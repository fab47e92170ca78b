"""A job in numbers: counts that add up, a rate with its interval, and what infrastructure took away, apart.

    total = scored + agent_failed + infra_error + task_error + cancelled + pending

The success rate is over what says something of the agent: scored and agent_failed, the latter a failure. Next to it
stands the worst case, in which everything unscored failed; the truth lies between.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from harness.failures import Outcome
from harness.job.interval import clustered_wilson
from harness.records import TrialResult

MIN_COVERAGE = 0.5
"""The share of attempts that must count for a rate to be shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """What is kept in memory of a finished execution."""

    name: str
    task_name: str
    source: str | None
    attempt: int
    retry: int
    outcome: Outcome
    reward: float | None
    rewards: dict[str, float] | None
    tag: str | None
    category: str | None
    exception: str | None
    categories: tuple[str, ...]
    seconds: float | None
    tokens_in: int | None
    tokens_cached: int | None
    tokens_out: int | None
    cost: float | None
    digest: str
    difficulty: str | None
    task_tags: tuple[str, ...]
    agent: str
    model: str | None

    @classmethod
    def of(cls, result: TrialResult) -> Finished:
        """The essence of a record."""
        usage = result.agent_result
        steps = result.step_results or []
        parts = [usage] if usage else [step.agent_result for step in steps if step.agent_result]
        seconds = None
        if result.started_at and result.finished_at:
            seconds = (result.finished_at - result.started_at).total_seconds()
        return cls(
            name=result.trial_name,
            task_name=result.task_name,
            source=result.source,
            attempt=result.attempt,
            retry=result.retry,
            outcome=result.outcome or Outcome.INFRA_ERROR,
            reward=result.reward,
            rewards=result.verifier_result.rewards if result.verifier_result and result.reward_valid else None,
            tag=result.failure.tag if result.failure else None,
            category=result.failure.category.value if result.failure else None,
            exception=result.exception_info.exception_type if result.exception_info else None,
            categories=tuple(result.categories),
            seconds=seconds,
            tokens_in=_total(part.n_input_tokens for part in parts),
            tokens_cached=_total(part.n_cache_tokens for part in parts),
            tokens_out=_total(part.n_output_tokens for part in parts),
            cost=_total(part.cost_usd for part in parts),
            digest=result.task_checksum.removeprefix("sha256:"),
            difficulty=result.difficulty,
            task_tags=tuple(result.task_tags),
            agent=result.agent_info.name,
            model=result.agent_info.model_info.name if result.agent_info.model_info else None,
        )

    @property
    def counted(self) -> bool:
        """Whether it says something of the agent: what a rate is over. Everything else is missing data."""
        return self.outcome in (Outcome.SCORED, Outcome.AGENT_FAILED)


def _total(values: Iterable[float | None]) -> Any:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


@dataclass(slots=True)
class JobSummary:
    """Running totals over the finished executions of a job. The last execution of an attempt is the one that counts.

    `decided` says why a stop rule ended the job; what is pending then is not missing, since nothing more was asked.
    """

    n_total: int
    pass_mark: float = 1.0
    decided: str | None = None
    last: dict[tuple[str, int], Finished] = field(default_factory=dict)
    n_executions: int = 0
    spent: dict[str, float | None] = field(default_factory=lambda: dict.fromkeys(("in", "cached", "out", "cost")))

    def add(self, result: TrialResult | Finished) -> Finished:
        """Count one more execution; its tokens and cost are spent whatever became of it."""
        finished = result if isinstance(result, Finished) else Finished.of(result)
        self.n_executions += 1
        for name, value in (
            ("in", finished.tokens_in),
            ("cached", finished.tokens_cached),
            ("out", finished.tokens_out),
            ("cost", finished.cost),
        ):
            if value is not None:
                self.spent[name] = (self.spent[name] or 0) + value
        key = (finished.task_name, finished.attempt)
        known = self.last.get(key)
        if known is None or finished.retry >= known.retry:
            self.last[key] = finished
        return finished

    @property
    def counts(self) -> dict[str, int]:
        """Attempts by outcome, and those still pending; they add up to `n_total`."""
        by_outcome = Counter(finished.outcome for finished in self.last.values())
        counts = {outcome.value: by_outcome.get(outcome, 0) for outcome in Outcome}
        counts["pending"] = max(0, self.n_total - len(self.last))
        return counts

    @property
    def n_asked(self) -> int:
        """The attempts that the rate over all is of: pending ones are missing, unless a stop rule spared them."""
        return len(self.last) if self.decided else self.n_total

    @property
    def n_retries(self) -> int:
        return self.n_executions - len(self.last)

    def passed(self, finished: Finished) -> bool:
        """Whether an attempt is a success."""
        return finished.reward is not None and finished.reward >= self.pass_mark

    def rate(self, category: str | None = None) -> Rate:
        """The success rate, of one category or of all."""
        groups: dict[str, list[bool]] = defaultdict(list)
        rewards: list[float] = []
        total = 0
        for finished in self.last.values():
            if category is not None and category not in finished.categories:
                continue
            total += 1
            if finished.counted:
                groups[finished.task_name].append(self.passed(finished))
                rewards.append(finished.reward or 0.0)
        n = len(rewards)
        successes = sum(sum(group) for group in groups.values())
        return Rate(
            successes=successes,
            n=n,
            total=total if category is not None else self.n_asked,
            value=successes / n if n else None,
            interval=clustered_wilson(groups.values()),
            mean_reward=sum(rewards) / n if n else None,
        )

    def categories(self) -> list[str]:
        """All categories of the tasks, sorted."""
        return sorted({category for finished in self.last.values() for category in finished.categories})

    def failures(self) -> list[tuple[str, str, int]]:
        """Failures as (category, tag, attempts), the most frequent first.

        A record of Harbor's has neither; where it ended without a verdict they are its outcome and its exception.
        """
        found = (
            (finished.category or finished.outcome.value, finished.tag or finished.exception or "no_valid_reward")
            for finished in self.last.values()
            if finished.category or finished.outcome is not Outcome.SCORED
        )
        return [(category, tag, count) for (category, tag), count in Counter(found).most_common()]

    @property
    def infra_rate(self) -> float:
        """The share of attempts that ended with an infrastructure error; 0 before any ended."""
        ended = sum(1 for finished in self.last.values() if finished.outcome is not Outcome.CANCELLED)
        infra = sum(1 for finished in self.last.values() if finished.outcome is Outcome.INFRA_ERROR)
        return infra / ended if ended else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A success rate: `n` attempts say something of the agent, out of `total`. None where nothing does."""

    successes: int
    n: int
    total: int
    value: float | None
    interval: tuple[float, float] | None
    mean_reward: float | None

    @property
    def worst_case(self) -> float | None:
        """The rate if everything unscored had failed."""
        return self.successes / self.total if self.total else None

    @property
    def incomplete(self) -> bool:
        """Whether so much is missing that a rate over the rest would mislead."""
        return self.coverage is None or self.n == 0 or self.coverage < MIN_COVERAGE

    @property
    def coverage(self) -> float | None:
        """The share of attempts that say something of the agent."""
        return self.n / self.total if self.total else None

"""Attempts and their groups, as the filters and the advantages see them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from harness.export.schema import RLSample

INFRASTRUCTURE = frozenset({"infra_oom", "infra_timeout", "infra_sandbox", "unknown"})
"""Failure categories that say nothing about the policy."""


@dataclass(frozen=True, kw_only=True)
class Rollout:
    """One attempt: its rows, and what it may still contribute.

    Attributes:
        reward: None where none is valid: then it enters no mean and no count.
        excluded: the filter that took it out of the loss; None while it is in. An attempt whose *reward* is still valid
            (too long, say) stays in its group's mean.
    """

    rows: tuple[RLSample, ...]
    reward: float | None
    excluded: str | None = None

    @property
    def rollout_id(self) -> str:
        return self.rows[0].rollout_id

    @cached_property
    def sampled(self) -> int:
        """Tokens that the policy sampled and that may be trained on; a row's first one is predicted by nothing."""
        return sum(sum(row.loss_mask[1:]) for row in self.rows)

    @property
    def truncated(self) -> bool:
        """Whether the token limit cut its last answer."""
        return any(row.finish_reason == "length" for row in self.rows)

    @property
    def oldest_version(self) -> int | None:
        """The oldest weights that sampled any of it; None where a version is no number."""
        versions = [version for row in self.rows for version in row.policy_versions]
        return min(map(int, versions)) if versions and all(each.isdecimal() for each in versions) else None

    def without(self, reason: str, *, reward_too: bool = False) -> Rollout:
        """The same attempt, out of the loss; `reward_too` takes it out of all means as well."""
        return replace(self, excluded=self.excluded or reason, reward=None if reward_too else self.reward)


@dataclass(frozen=True, kw_only=True)
class Group:
    """The attempts of one task.

    Attributes:
        size: attempts that were meant to be.
    """

    group_id: str
    rollouts: tuple[Rollout, ...]
    size: int

    @property
    def rewards(self) -> list[float | None]:
        return [rollout.reward for rollout in self.rollouts]

    @property
    def valid(self) -> int:
        """Attempts with a valid reward."""
        return sum(rollout.reward is not None for rollout in self.rollouts)

    @property
    def broken(self) -> int:
        """Attempts that infrastructure took."""
        return sum(each.rows[0].failure_category in INFRASTRUCTURE and each.reward is None for each in self.rollouts)


def group_of(rows: Sequence[RLSample]) -> Group:
    """The rows of one group as attempts, in order of appearance."""
    attempts: dict[str, list[RLSample]] = {}
    for row in rows:
        attempts.setdefault(row.rollout_id, []).append(row)
    return Group(
        group_id=rows[0].group_id,
        rollouts=tuple(_rollout(tuple(own)) for own in attempts.values()),
        size=max(row.group_size for row in rows),
    )


def _rollout(rows: tuple[RLSample, ...]) -> Rollout:
    reward = rows[0].reward
    if any(row.trainable for row in rows):
        return Rollout(rows=rows, reward=reward)
    reason = rows[0].untrainable_reason or "untrainable"
    infrastructure = rows[0].failure_category in INFRASTRUCTURE
    return Rollout(rows=rows, reward=None if infrastructure else reward, excluded=reason)

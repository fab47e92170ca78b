"""What is left out of the loss, and under which name it is counted. One filter, one reason, one counter.

A filter of attempts takes one out of the loss; whether it also leaves the group's mean is part of its definition. What
says nothing about the policy leaves both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from trainer.samples.rollouts import Group, Rollout
from trainer.schedule.ada import AdaRule


class FilterConfig(BaseModel):
    """Which filters are on. Lengths are tokens; ratios and rewards are plain numbers."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_staleness: int | None = Field(default=None, ge=0)
    """Versions between the oldest weights that sampled an attempt and the current ones."""
    mask_failed_longer_than: int | None = Field(default=None, ge=1)
    """Sampled tokens of an attempt without a positive outcome."""
    mask_truncated: bool = False
    """Attempts whose last answer the token limit cut (DAPO's overlong filtering)."""
    mask_tool_errors: bool = False
    """Turns whose tool calls failed, all or some of them; the attempt's other turns are trained."""
    max_row_tokens: int | None = Field(default=None, ge=2)
    """Rows longer than this are refused. The policy's own limit holds as well."""
    allow_truncated_sampling: bool = False
    """Train on top-p or top-k samples although their log-probabilities are those of a smaller vocabulary."""
    difficulty: tuple[float, float] | None = None
    """Keep groups whose share of positive attempts lies within, bounds included."""
    zero_variance: Literal["drop", "keep"] = "drop"
    """Groups whose rewards, before they are shaped by length, tell attempts apart by nothing: they teach nothing."""
    incomplete: Literal["keep", "pad", "drop"] = "keep"
    """Groups that lost attempts: kept as they are, or padded by repetition where more than half are valid (GLM-5,
    arXiv 2602.15763) and dropped otherwise, or dropped."""
    pick: int | None = Field(default=None, ge=2)
    """Attempts of a group that are trained, half of either outcome as far as there are so many; the others stay in the
    group's mean (Reinforce-Ada's pool, arXiv 2510.04996)."""
    positive_only: bool = False
    """Attempts without a positive outcome stay out of the loss."""


def filter_rollouts(
    group: Group,
    config: FilterConfig,
    *,
    positive_reward: float,
    version: int | None,
    max_tokens: int | None,
    needs_logprobs: bool = True,
) -> Group:
    """The group with what is left out marked. `version` is of the current weights, `max_tokens` the policy's limit."""
    limit = min((each for each in (config.max_row_tokens, max_tokens) if each is not None), default=None)

    def judged(rollout: Rollout) -> Rollout:
        if rollout.excluded is not None:
            return rollout
        oldest = rollout.oldest_version
        stale = config.max_staleness is not None and version is not None and oldest is not None
        positive = rollout.reward is not None and rollout.reward >= positive_reward
        if stale and version - oldest > config.max_staleness:  # type: ignore[operator]
            return rollout.without("stale", reward_too=True)
        if needs_logprobs and any(row.ids_from != "sampled" for row in rollout.rows if row.trainable):
            return rollout.without("no_logprobs")
        if limit is not None and any(len(row.token_ids) > limit for row in rollout.rows):
            return rollout.without("too_long")
        smaller = any(_smaller_vocabulary(row.top_p, row.top_k) for row in rollout.rows)
        if smaller and not config.allow_truncated_sampling:
            return rollout.without("truncated_sampling")
        if any(row.logprobs_mode is None and row.temperature not in (None, 1.0) for row in rollout.rows):
            return rollout.without("unknown_logprobs_mode")
        if config.mask_truncated and rollout.truncated:
            return rollout.without("truncated")
        failed_longer = config.mask_failed_longer_than
        if failed_longer is not None and not positive and rollout.sampled > failed_longer:
            return rollout.without("failed_too_long")
        if config.positive_only and not positive:
            return rollout.without("not_positive")
        return rollout

    return replace(group, rollouts=tuple(map(judged, group.rollouts)))


def refuse_group(group: Group, config: FilterConfig, *, positive_reward: float, signal: bool) -> str | None:
    """Why a whole group is left out; None if it is not. `signal` says whether its rewards differ."""
    known = [reward for reward in group.rewards if reward is not None]
    if not known:
        return "no_valid_reward"
    if config.difficulty is not None:
        low, high = config.difficulty
        if not low <= sum(reward >= positive_reward for reward in known) / len(known) <= high:
            return "difficulty"
    if config.zero_variance == "drop" and not signal:
        return "single" if len(known) == 1 else "zero_variance"
    if config.incomplete == "keep" or group.valid >= group.size:
        return None
    return "incomplete" if config.incomplete == "drop" or group.valid * 2 <= group.size else None


def picked(group: Group, number: int, *, positive_reward: float, random: Random) -> Group:
    """The group with at most so many attempts in the loss, drawn for balance; the others stay in its mean."""
    free = [rollout for rollout in group.rollouts if rollout.excluded is None]
    outcomes = [float(rollout.reward is not None and rollout.reward >= positive_reward) for rollout in free]
    chosen = {free[place].rollout_id for place in AdaRule(keep=number).picked(outcomes, random)}

    def judged(rollout: Rollout) -> Rollout:
        left = rollout.excluded is None and rollout.rollout_id not in chosen
        return rollout.without("not_picked") if left else rollout

    return replace(group, rollouts=tuple(map(judged, group.rollouts)))


def padded(group: Group) -> Group:
    """The group with valid attempts repeated, in order, until it is complete."""
    valid = [rollout for rollout in group.rollouts if rollout.reward is not None]
    missing = group.size - len(valid)
    copies = [_copy(valid[number % len(valid)], number // len(valid) + 1) for number in range(missing)]
    return replace(group, rollouts=(*valid, *copies))


def counted(group: Group) -> Iterator[str]:
    """The name of the filter behind each attempt that is out of the loss."""
    return (rollout.excluded for rollout in group.rollouts if rollout.excluded is not None)


def count(group: Group) -> Counter[str]:
    """How many attempts each filter took."""
    return Counter(counted(group))


def _smaller_vocabulary(top_p: float | None, top_k: int | None) -> bool:
    return (top_p is not None and top_p < 1) or (top_k is not None and top_k > 0)


def _copy(rollout: Rollout, number: int) -> Rollout:
    rows = tuple(
        replace(row, rollout_id=f"{row.rollout_id}#{number}", sample_id=f"{row.sample_id}#{number}")
        for row in rollout.rows
    )
    return replace(rollout, rows=rows)

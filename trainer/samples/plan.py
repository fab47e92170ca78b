"""From groups to the batch of one optimiser step: filter, reward, compare, weigh."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.errors import UsageError
from harness.export.schema import RLSample
from trainer import advantages as adv
from trainer.config import TrainConfig
from trainer.credit import settled
from trainer.losses.recipes import Advantage
from trainer.losses.weights import StepCounts, row_weights
from trainer.samples.batch import StepBatch, TrainingRow
from trainer.samples.breaker import CumulativeBreaker, WindowBreaker
from trainer.samples.conduct import counts_of, sequences_of, without_tool_errors
from trainer.samples.filters import count, filter_rollouts, padded, refuse_group
from trainer.samples.rollouts import Group, Rollout, group_of
from trainer.shaping import length_rewards, overlong_penalty


@dataclass(slots=True)
class _Draft:
    """Groups gathered for one step."""

    groups: list[Group] = field(default_factory=list)
    filtered: Counter[str] = field(default_factory=Counter)
    seen: int = 0
    rewards: list[float] = field(default_factory=list)
    sequences: list[tuple[tuple[str, ...], ...]] = field(default_factory=list)
    calls: Counter[str] = field(default_factory=Counter)


class Planner:
    """Makes batches. `halted` says why no more may be made."""

    def __init__(self, config: TrainConfig, *, max_tokens: int | None = None) -> None:
        """`max_tokens`: the longest row that the policy takes."""
        self._config = config
        self._max_tokens = max_tokens
        rule = config.breaker
        self._breaker: WindowBreaker | CumulativeBreaker = (
            CumulativeBreaker(rule.limit)
            if rule.rule == "cumulative"
            else WindowBreaker(rule.limit, window=rule.window, minimum=rule.minimum)
        )

    @property
    def halted(self) -> str | None:
        """Why training has to stop; None while it may go on."""
        return self._breaker.reason if isinstance(self._breaker, WindowBreaker) else None

    def batches(
        self, groups: Iterable[Sequence[RLSample]], *, first_step: int = 0, version: int | None = None
    ) -> Iterator[StepBatch]:
        """One batch for every `groups_per_step` groups that pass; the last may hold fewer. Ends early once halted.

        A batch without rows is no step. `version` is that of the weights before step 0; every step makes the next one.
        """
        step, draft = first_step, _Draft()
        for rows in groups:
            current = None if version is None else version + step
            self._take(draft, group_of(rows), step, current)
            if self.halted:
                return
            if len(draft.groups) == self._config.groups_per_step:
                batch = self._batch(draft, step, current)
                step, draft = step + bool(batch.rows), _Draft()
                yield batch
        if draft.groups or draft.seen:
            yield self._batch(draft, step, None if version is None else version + step)

    def use(self, config: TrainConfig) -> None:
        """Go on under another request: from the next group on, other filters and weights hold."""
        self._config = config

    def state(self) -> dict[str, Any]:
        """What outlives a batch, for a checkpoint."""
        return self._breaker.state()

    def restore(self, state: dict[str, Any]) -> None:
        """Go on where another planner's `state` was taken."""
        self._breaker.restore(state)

    def _take(self, draft: _Draft, group: Group, step: int, version: int | None) -> None:
        config = self._config
        draft.seen += 1
        draft.rewards += [reward for reward in group.rewards if reward is not None]
        draft.sequences.append(sequences_of(group))
        draft.calls += counts_of(group.rollouts)
        bad = group.broken >= config.breaker.broken_share * group.size
        if self._breaker.drops(bad):
            draft.filtered["broken_group"] += 1
            return
        filters = config.filters
        if step < config.positive_only_steps:
            filters = filters.model_copy(update={"positive_only": True, "zero_variance": "keep"})
        by_group = self._advantage(step) not in ("batch_mean", "none")
        if not by_group:
            filters = filters.model_copy(update={"zero_variance": "keep"})
        positive = config.rewards.positive
        group = filter_rollouts(
            group,
            filters,
            positive_reward=positive,
            version=version,
            max_tokens=self._max_tokens,
            needs_logprobs=config.needs_logprobs,
        )
        draft.filtered += count(group)
        if filters.mask_tool_errors:
            group, turns = without_tool_errors(group)
            draft.filtered += Counter(tool_error_turns=turns)
        refused = refuse_group(group, filters, positive_reward=positive)
        if refused is not None:
            draft.filtered[refused] += 1
            return
        if filters.incomplete == "pad" and group.valid < group.size:
            group = padded(group)
            draft.filtered["padded"] += 1
        if not by_group or any(rollout.excluded is None for rollout in group.rollouts):
            # A group without anything to train still counts in the mean of the batch.
            draft.groups.append(group)
        else:
            draft.filtered["nothing_to_train"] += 1

    def _advantage(self, step: int) -> Advantage:
        if self._config.critic is not None:
            return "none"  # the reward itself, until the critic has judged it
        # Centring a group of successes on itself would leave nothing of them.
        if step < self._config.positive_only_steps:
            return "batch_mean"
        return self._config.advantage or self._config.recipe.advantage

    def _batch(self, draft: _Draft, step: int, version: int | None) -> StepBatch:
        config = self._config
        _require_parts(draft.groups, config.rewards.parts)
        rewards = [self._rewards(group) for group in draft.groups]
        estimate = _estimate(self._advantage(step), rewards)
        kept = [
            (rollout, advantage)
            for group, own in zip(draft.groups, rewards, strict=True)
            for rollout, advantage in zip(group.rollouts, estimate(own), strict=True)
            if rollout.excluded is None and rollout.sampled
        ]
        counts = StepCounts(tokens=sum(rollout.sampled for rollout, _ in kept), rollouts=len(kept))
        rows = [
            (row, rollout, advantage) for rollout, advantage in kept for row in rollout.rows if any(row.loss_mask[1:])
        ]
        weights = row_weights(
            config.weighting or config.recipe.weighting,
            rollout_tokens=[rollout.sampled for _, rollout, _ in rows],
            counts=counts,
            max_tokens=config.max_tokens,
        )
        made = tuple(
            self._row(row, rollout, advantage, weight, version)
            for (row, rollout, advantage), weight in zip(rows, weights, strict=True)
        )
        # Successes alone have no mean to be centred on.
        whiten = config.whitened and step >= config.positive_only_steps
        if config.critic is None:
            made = settled(made, whiten=whiten, negative_weight=config.negative_weight)
        return StepBatch(
            rows=made,
            counts=counts,
            groups=len(draft.groups),
            whiten=whiten and config.critic is not None,
            filtered=draft.filtered,
            rewards=tuple(draft.rewards),
            sequences=tuple(draft.sequences),
            calls=draft.calls,
        )

    def _rewards(self, group: Group) -> list[float | None]:
        """What is learned from: the headline or weighted parts, shaped by length."""
        config = self._config.rewards
        rewards = [_reward(rollout, config.parts) for rollout in group.rollouts]
        known = [number for number, reward in enumerate(rewards) if reward is not None]
        if config.overlong is not None:
            longest, cache = config.overlong
            for number in known:
                length = group.rollouts[number].sampled
                rewards[number] = (rewards[number] or 0.0) + overlong_penalty(length, max_length=longest, cache=cache)
        if config.length_weight and known:
            lengths = [group.rollouts[number].sampled for number in known]
            right = [(group.rollouts[number].reward or 0.0) >= config.positive for number in known]
            for number, extra in zip(known, length_rewards(lengths, right), strict=True):
                rewards[number] = (rewards[number] or 0.0) + config.length_weight * extra
        return rewards

    def _row(
        self, row: RLSample, rollout: Rollout, advantage: float, weight: float, version: int | None
    ) -> TrainingRow:
        config = self._config
        oldest = rollout.oldest_version
        positive = rollout.reward is not None and rollout.reward >= config.rewards.positive
        chunk = np.asarray(row.chunk_ids, dtype=np.int32)
        processed = row.logprobs_mode != "raw" and row.temperature is not None
        return TrainingRow(
            sample_id=row.sample_id,
            rollout_id=row.rollout_id,
            group_id=row.group_id,
            token_ids=np.asarray(row.token_ids, dtype=np.int32),
            mask=np.asarray(row.loss_mask, dtype=np.bool_),
            behaviour=np.asarray(row.logprobs, dtype=np.float32),
            advantage=self._by_token(chunk, advantage),
            chunk=chunk,
            weight=weight,
            positive=positive,
            reward=rollout.reward or 0.0,
            # Raw log-probabilities are those of the logits as they are, whatever temperature the sampler used.
            temperature=float(row.temperature) if processed and row.temperature else 1.0,
            staleness=None if version is None or oldest is None else version - oldest,
            truncated=rollout.truncated,
        )

    def _by_token(self, chunk: NDArray[np.int32], advantage: float) -> NDArray[np.float32]:
        if not self._config.recipe.by_chunk or self._config.gamma == 1 or not len(chunk) or chunk.max() < 0:
            return np.full(len(chunk), advantage, dtype=np.float32)
        outcome = [0.0] * int(chunk.max()) + [advantage]
        returns = np.asarray(adv.chunk_returns(outcome, self._config.gamma), dtype=np.float32)
        return returns[np.maximum(chunk, 0)]


def _require_parts(groups: Sequence[Group], parts: dict[str, float]) -> None:
    """Raises UsageError where no attempt has any of the parts: all rewards would be 0."""
    told = {key for group in groups for rollout in group.rollouts for key in rollout.rows[0].reward_parts}
    if groups and parts and not told & parts.keys():
        known = ", ".join(sorted(told)) or "none at all"
        raise UsageError(f"rewards.parts: no attempt has the part {' or '.join(parts)}; there is {known}")


def _reward(rollout: Rollout, parts: dict[str, float]) -> float | None:
    if rollout.reward is None or not parts:
        return rollout.reward
    own = rollout.rows[0].reward_parts
    return sum(weight * own[key] for key, weight in parts.items() if key in own)


def _estimate(name: Advantage, groups: Sequence[adv.Rewards]):  # type: ignore[no-untyped-def]
    if name == "group_mean":
        return adv.group_mean
    if name == "group_std":
        return adv.group_std
    if name == "leave_one_out":
        return adv.leave_one_out
    baseline = adv.batch_mean(groups) if name == "batch_mean" else 0.0
    return lambda rewards: adv.fixed_baseline(rewards, baseline)

"""From groups to the batch of one optimiser step: filter, reward, compare, weigh."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.export.schema import RLSample
from trainer import advantages as adv
from trainer.config import TrainConfig
from trainer.credit import settled
from trainer.losses.recipes import Advantage
from trainer.losses.weights import StepCounts, row_weights
from trainer.samples.batch import StepBatch, TrainingRow
from trainer.samples.breaker import CumulativeBreaker, WindowBreaker
from trainer.samples.conduct import counts_of, sequences_of, without_tool_errors
from trainer.samples.curriculum import Curriculum
from trainer.samples.filters import count, filter_rollouts, padded, picked, refuse_group
from trainer.samples.rewards import Rewards
from trainer.samples.rollouts import Group, Rollout, group_of


@dataclass(slots=True)
class _Draft:
    """Groups gathered for one step."""

    positive_only: bool
    groups: list[Group] = field(default_factory=list)
    filtered: Counter[str] = field(default_factory=Counter)
    seen: int = 0
    rewards: list[float] = field(default_factory=list)
    solved: list[tuple[bool, ...]] = field(default_factory=list)
    signal: list[bool] = field(default_factory=list)
    parts: set[str] = field(default_factory=set)
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
        self._curriculum = Curriculum(
            steps=config.positive_only_steps, quality=config.positive_only_until, window=rule.window
        )
        self._rewards = Rewards(config.rewards)

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
        step, draft = first_step, self._draft(first_step)
        for rows in groups:
            current = None if version is None else version + step
            self._take(draft, group_of(rows), step, current)
            if self.halted:
                return
            if len(draft.groups) == self._config.groups_per_step:
                batch = self._batch(draft, step, current)
                step += bool(batch.rows)
                draft = self._draft(step)
                yield batch
        if draft.groups or draft.seen:
            yield self._batch(draft, step, None if version is None else version + step)

    def use(self, config: TrainConfig) -> None:
        """Go on under another request: from the next group on, other filters and weights hold."""
        self._config = config

    def state(self) -> dict[str, Any]:
        """What outlives a batch, for a checkpoint."""
        return {
            "breaker": self._breaker.state(),
            "curriculum": self._curriculum.state(),
            "rewards": self._rewards.state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on where another planner's `state` was taken."""
        self._breaker.restore(state["breaker"])
        self._curriculum.restore(state["curriculum"])
        self._rewards.restore(state["rewards"])

    def _draft(self, step: int) -> _Draft:
        return _Draft(positive_only=self._curriculum.positive_only(step))

    def _take(self, draft: _Draft, group: Group, step: int, version: int | None) -> None:
        config = self._config
        draft.seen += 1
        positive = config.rewards.positive
        known = [reward for reward in group.rewards if reward is not None]
        draft.rewards += known
        draft.solved.append(tuple(reward >= positive for reward in known))
        draft.signal += [adv.has_signal(self._rewards.earned(group))] if known else []
        draft.parts.update(key for rollout in group.rollouts for key in rollout.rows[0].reward_parts)
        self._curriculum.saw(group.valid / group.size)
        draft.sequences.append(sequences_of(group))
        draft.calls += counts_of(group.rollouts)
        bad = group.broken >= config.breaker.broken_share * group.size
        if self._breaker.drops(bad):
            draft.filtered["broken_group"] += 1
            return
        filters = config.filters
        if draft.positive_only:
            filters = filters.model_copy(update={"positive_only": True, "zero_variance": "keep"})
        by_group = self._advantage(draft) not in ("batch_mean", "none")
        if not by_group:
            filters = filters.model_copy(update={"zero_variance": "keep"})
        group = filter_rollouts(
            group,
            filters,
            positive_reward=positive,
            version=version,
            max_tokens=self._max_tokens,
            needs_logprobs=config.needs_logprobs,
        )
        if filters.pick is not None:
            random = Random(f"{config.seed}:{step}:{group.group_id}")  # noqa: S311 - no secret
            group = picked(group, filters.pick, positive_reward=positive, random=random)
        draft.filtered += count(group)
        if filters.mask_tool_errors:
            group, turns = without_tool_errors(group)
            draft.filtered += Counter(tool_error_turns=turns)
        refused = refuse_group(
            group, filters, positive_reward=positive, signal=adv.has_signal(self._rewards.earned(group))
        )
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

    def _advantage(self, draft: _Draft) -> Advantage:
        if self._config.critic is not None:
            return "none"  # the reward itself, until the critic has judged it
        chosen = self._config.advantage or self._config.recipe.advantage
        # Centring a group of successes on itself would leave nothing of them.
        return "batch_mean" if draft.positive_only and chosen != "none" else chosen

    def _batch(self, draft: _Draft, step: int, version: int | None) -> StepBatch:
        config = self._config
        self._rewards.require(draft.parts)
        rewards = self._rewards.of(draft.groups, step)
        estimate = _estimate(self._advantage(draft), rewards)
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
        whiten = config.whitened and not draft.positive_only
        if config.critic is None:
            made = settled(made, whiten=whiten, negative_weight=config.negative_weight)
        return StepBatch(
            rows=made,
            counts=counts,
            groups=len(draft.groups),
            whiten=whiten and config.critic is not None,
            filtered=draft.filtered,
            rewards=tuple(draft.rewards),
            solved=tuple(draft.solved),
            signal=tuple(draft.signal),
            sequences=tuple(draft.sequences),
            calls=draft.calls,
        )

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


def _estimate(name: Advantage, groups: Sequence[adv.Rewards]):  # type: ignore[no-untyped-def]
    if name == "group_mean":
        return adv.group_mean
    if name == "group_std":
        return adv.group_std
    if name == "group_std_population":
        return partial(adv.group_std, flavour="population")
    if name == "leave_one_out":
        return adv.leave_one_out
    baseline = adv.batch_mean(groups) if name == "batch_mean" else 0.0
    return lambda rewards: adv.fixed_baseline(rewards, baseline)

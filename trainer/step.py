"""One step of training: from a batch to new weights, and the numbers to judge it by."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainer import distributed
from trainer.config import TrainConfig
from trainer.credit import by_critic, gathered, settled
from trainer.losses.correction import correction_weight
from trainer.losses.diversity import diversity_bonus
from trainer.losses.kl import kl_estimate
from trainer.losses.tokens import Tokens
from trainer.losses.value import value_loss
from trainer.measure import Meter, Metrics
from trainer.optimizer import add_critic, clip_gradient, learning_rate, make_optimizer, set_rate
from trainer.policy.protocol import Policy
from trainer.samples.batch import StepBatch, TrainingRow
from trainer.samples.collate import MicroBatch, buckets, collate, packs, share


class Learner:
    """A policy, its optimiser, and how to step. `updates` counts the optimiser's."""

    def __init__(self, policy: Policy, config: TrainConfig, reference: Policy | None = None) -> None:
        """`reference` is what `config.kl` measures against."""
        self._policy, self._config, self._reference = policy, config, reference
        self._objective = config.objective_config
        head = policy.value_head
        self._critic = [] if head is None else list(head.parameters())
        own = set(map(id, self._critic))
        self._parameters = [p for p in policy.module.parameters() if p.requires_grad and id(p) not in own]
        self.optimizer = make_optimizer(self._parameters, config.optimizer)
        if head is not None and config.critic is not None:
            add_critic(self.optimizer, head, config.critic.lr)
        self.updates = 0

    def use(self, config: TrainConfig) -> None:
        """Go on under another request; the optimiser keeps what it remembers."""
        self._config = config
        self._objective = config.objective_config

    @property
    def policy(self) -> Policy:
        return self._policy

    def step(self, batch: StepBatch) -> Metrics:
        """Train on a batch that has rows. An update without a finite gradient is skipped and counted: `skipped`."""
        began = time.perf_counter()
        batch = self._judged(batch)
        meter = Meter(batch)
        parts = batch.split(self._config.updates_per_step, self._config.weighting or self._config.recipe.weighting)
        work = [self._micro_batches(part) for part in parts]
        # With one update the policy at its beginning is the policy itself.
        recompute = self._config.proximal == "recompute" and len(parts) > 1
        proximal = [[self._frozen(micro) if recompute else None for micro in each] for each in work]
        for micros, olds in zip(work, proximal, strict=True):
            self._update(micros, olds, meter)
        return meter.result(seconds=time.perf_counter() - began)

    def gradient(self, batch: StepBatch) -> float:
        """Add the gradient of one batch to the parameters', without an update; the loss."""
        batch = self._judged(batch)
        meter = Meter(batch)
        for micro in self._micro_batches(batch):
            self._backward(micro, None, meter)
        return meter.loss

    def _update(self, micros: Sequence[Sequence[TrainingRow]], olds: Sequence[Tensor | None], meter: Meter) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        for rows, old in zip(micros, olds, strict=True):
            self._backward(rows, old, meter)
        norm = clip_gradient(self._parameters, self._config.optimizer.max_grad_norm)
        rate = learning_rate(self._config.optimizer, self.updates)
        also = clip_gradient(self._critic, self._config.optimizer.max_grad_norm) if self._critic else 0.0
        # A loss that is not finite has such a gradient, and all ranks see the same norm.
        finite = math.isfinite(norm) and math.isfinite(also)
        meter.updated(grad_norm=norm, rate=rate, skipped=not finite)
        if finite:
            set_rate(self.optimizer, rate)
            self.optimizer.step()
            self.updates += 1
        self.optimizer.zero_grad(set_to_none=True)

    def _backward(self, rows: Sequence[TrainingRow], old: Tensor | None, meter: Meter) -> None:
        micro = self._collated(rows)
        scores = self._policy.score(micro)
        tokens = self._tokens(micro, scores.logp, old)
        out = self._config.recipe.objective(tokens, self._objective)
        losses, flags = {"policy": out.loss}, dict(out.flags)
        if self._config.correction is not None:
            weight, flags["corrected"] = correction_weight(tokens, self._config.correction)
            losses["policy"] = weight * out.loss
        if self._config.kl is not None and tokens.reference is not None:
            estimate = kl_estimate(tokens.logp, tokens.reference, self._config.kl.estimator)
            losses["kl"] = self._config.kl.weight * estimate
        if self._config.diversity is not None:
            losses["diversity"] = diversity_bonus(tokens, self._config.diversity)
        if self._config.critic is not None and scores.value is not None:
            old_value, returns = (gathered(micro.rows, name, scores.value) for name in ("values", "returns"))
            losses["value"] = value_loss(scores.value, old_value, returns, self._config.critic.clip)
        weight = micro.weight.to(scores.logp.dtype)
        sums = {name: (weight * each).sum() for name, each in losses.items()}
        # Gradients are averaged over ranks, and this is a sum.
        (sum(sums.values()) * distributed.world()).backward()  # type: ignore[union-attr]
        meter.add(micro, tokens, scores.entropy, sums, flags)

    def _tokens(self, micro: MicroBatch, logp: Tensor, old: Tensor | None) -> Tokens:
        if self._config.proximal == "recompute" and old is None:
            old = logp.detach()
        return Tokens(
            logp=logp,
            behaviour=micro.behaviour.to(logp.dtype),
            advantage=micro.advantage.to(logp.dtype),
            row=micro.row,
            chunk=micro.chunk,
            positive=micro.positive,
            proximal=old,
            reference=None if self._reference is None else self._scored(self._reference, micro),
        )

    def _judged(self, batch: StepBatch) -> StepBatch:
        """The batch with the advantages of the critic as it is before the step; without one, as it is."""
        if self._config.critic is None:
            return batch
        own: dict[str, NDArray[np.float32]] = {}
        for rows in self._micro_batches(batch):
            with torch.no_grad():
                value = self._policy.score(self._collated(rows)).value
            assert value is not None
            ends = np.cumsum([row.trained for row in rows])[:-1]
            pieces = np.split(value.float().cpu().numpy(), ends)
            own |= {row.sample_id: piece for row, piece in zip(rows, pieces, strict=True)}
        values = {name: each for part in distributed.gathered(own) for name, each in part.items()}
        judged = by_critic(batch, values, self._config.critic)
        return replace(
            judged,
            rows=settled(judged.rows, whiten=batch.whiten, negative_weight=self._config.negative_weight),
        )

    def _frozen(self, rows: Sequence[TrainingRow]) -> Tensor:
        return self._scored(self._policy, self._collated(rows))

    @staticmethod
    def _scored(policy: Policy, micro: MicroBatch) -> Tensor:
        with torch.no_grad():
            return policy.score(micro).logp

    def _collated(self, rows: Sequence[TrainingRow]) -> MicroBatch:
        return collate(rows, packed=self._policy.packs).to(self._parameters[0].device)

    def _micro_batches(self, batch: StepBatch) -> list[list[TrainingRow]]:
        """This rank's. Sharded weights are fetched together, so that all ranks need the same number."""
        world, budget = distributed.world(), self._config.token_budget
        cut = packs if self._policy.packs else buckets
        shares = [cut(share(batch.rows, rank, world), budget) for rank in range(world)]
        own = shares[distributed.rank()]
        # What fills up has no weight.
        filler = [replace(min(batch.rows, key=len), weight=0.0)]
        return own + [filler] * (max(map(len, shares)) - len(own))

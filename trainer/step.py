"""One step of training: from a batch to new weights, and the numbers to judge it by."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from trainer import distributed
from trainer.config import TrainConfig
from trainer.losses.correction import correction_weight
from trainer.losses.diversity import diversity_bonus
from trainer.losses.kl import kl_estimate
from trainer.losses.tokens import Tokens
from trainer.measure import Meter, Metrics
from trainer.optimizer import clip_gradient, learning_rate, make_optimizer
from trainer.policy.protocol import Policy
from trainer.samples.batch import StepBatch, TrainingRow
from trainer.samples.collate import MicroBatch, buckets, collate, share


class Learner:
    """A policy, its optimiser, and how to step. `updates` counts the optimiser's."""

    def __init__(self, policy: Policy, config: TrainConfig, reference: Policy | None = None) -> None:
        """`reference` is what `config.kl` measures against."""
        self._policy, self._config, self._reference = policy, config, reference
        self._objective = config.objective_config
        self._parameters = [each for each in policy.module.parameters() if each.requires_grad]
        self.optimizer = make_optimizer(self._parameters, config.optimizer)
        self.updates = 0

    def use(self, config: TrainConfig) -> None:
        """Go on under another request; the optimiser keeps what it remembers."""
        self._config = config
        self._objective = config.objective_config

    @property
    def policy(self) -> Policy:
        return self._policy

    @property
    def config(self) -> TrainConfig:
        """The present request."""
        return self._config

    def step(self, batch: StepBatch) -> Metrics:
        """Train on a batch that has rows. An update without a finite gradient is skipped and counted: `skipped`."""
        began = time.perf_counter()
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
        # A loss that is not finite has such a gradient, and all ranks see the same norm.
        finite = math.isfinite(norm)
        meter.updated(grad_norm=norm, rate=rate, skipped=not finite)
        if finite:
            for group in self.optimizer.param_groups:
                group["lr"] = rate
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

    def _frozen(self, rows: Sequence[TrainingRow]) -> Tensor:
        return self._scored(self._policy, self._collated(rows))

    @staticmethod
    def _scored(policy: Policy, micro: MicroBatch) -> Tensor:
        with torch.no_grad():
            return policy.score(micro).logp

    def _collated(self, rows: Sequence[TrainingRow]) -> MicroBatch:
        return collate(rows).to(self._parameters[0].device)

    def _micro_batches(self, batch: StepBatch) -> list[list[TrainingRow]]:
        """This rank's. Sharded weights are fetched together, so that all ranks need the same number."""
        world, budget = distributed.world(), self._config.token_budget
        shares = [buckets(share(batch.rows, rank, world), budget) for rank in range(world)]
        own = shares[distributed.rank()]
        # What fills up has no weight.
        filler = [replace(min(batch.rows, key=len), weight=0.0)]
        return own + [filler] * (max(map(len, shares)) - len(own))

"""The numbers of one step: flat, by name, None where unknown. What the monitor and the log are made from.

Per-token numbers are over all trained tokens of the step, of all ranks. Losses are the step's, as weighted.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainer import distributed
from trainer.losses.tokens import Tokens
from trainer.monitor.conduct import conduct_numbers, pass_numbers
from trainer.monitor.estimators import Numbers, divergence, ratio_numbers
from trainer.samples.batch import StepBatch, TrainingRow
from trainer.samples.collate import MicroBatch

Metrics = Numbers


class Meter:
    """Gathers over the micro-batches and updates of one step."""

    def __init__(self, batch: StepBatch) -> None:
        self._batch = batch
        self._losses: dict[str, float] = defaultdict(float)
        self._columns: dict[str, list[NDArray[np.float32]]] = defaultdict(list)
        self._flags: dict[str, int] = defaultdict(int)
        self._norms: list[float] = []
        self._rate = 0.0
        self._skipped = 0
        self._padded = 0

    @property
    def loss(self) -> float:
        """The sum of what was added on this rank."""
        return sum(self._losses.values())

    def add(
        self,
        micro: MicroBatch,
        tokens: Tokens,
        entropy: Tensor,
        losses: Mapping[str, Tensor],
        flags: Mapping[str, Tensor],
    ) -> None:
        """Take one micro-batch. What only fills up a rank's work, without weight, counts nowhere."""
        if all(row.weight == 0 for row in micro.rows):
            return
        for name, value in losses.items():
            self._losses[name] += float(value.detach())
        for name, flag in flags.items():
            self._flags[name] += int(flag.sum())
        columns = {
            "ratio": tokens.log_ratio,
            "drift": tokens.logp - tokens.behaviour,
            "entropy": entropy,
            "advantage": tokens.advantage,
        }
        if not self._norms:
            # Between the same weights, before any update: what differs is the sampler's arithmetic.
            same = torch.tensor([row.staleness == 0 for row in micro.rows], device=tokens.row.device)[tokens.row]
            columns["mismatch"] = columns["drift"][same]
        for name, column in columns.items():
            self._columns[name].append(column.detach().float().cpu().numpy())
        self._padded += micro.input_ids.numel()

    def updated(self, *, grad_norm: float, rate: float, skipped: bool) -> None:
        """Take one update."""
        self._norms.append(grad_norm)
        self._rate = rate
        self._skipped += skipped

    def result(self, *, seconds: float) -> Metrics:
        """The step's numbers; all ranks have to ask for them."""
        own = (self._losses, self._flags, {name: np.concatenate(each) for name, each in self._columns.items()})
        everyone = distributed.gathered((*own, self._padded))
        losses = _summed(each[0] for each in everyone)
        flags = _summed(each[1] for each in everyone)
        column = {name: np.concatenate([each[2][name] for each in everyone if name in each[2]]) for name in _COLUMNS}
        number = len(column["advantage"])
        return {
            "loss": _finite(math.fsum(losses.values())),
            **{f"loss_{name}": _finite(value) for name, value in losses.items()},
            "grad_norm": _finite(max(self._norms, default=math.nan)),
            "learning_rate": self._rate,
            "updates": len(self._norms) - self._skipped,
            "skipped": self._skipped,
            **ratio_numbers(column["ratio"]),
            **divergence("behaviour", column["drift"]),
            **divergence("mismatch", column["mismatch"]),
            **{f"share_{name}": value / number if number else None for name, value in flags.items()},
            "entropy": _mean(column["entropy"]),
            **_signs(column["advantage"]),
            **_rewards(self._batch),
            **_critic(self._batch.rows),
            **_lengths(self._batch.rows),
            **_staleness(self._batch.rows),
            **conduct_numbers(self._batch.sequences, self._batch.calls),
            **{f"filtered_{name}": value for name, value in sorted(self._batch.filtered.items())},
            "seconds": seconds,
            "tokens": (real := sum(map(len, self._batch.rows))),
            "trained_tokens": self._batch.counts.tokens,
            "tokens_per_second": real / seconds if seconds else None,
            "padding_efficiency": real / padded if (padded := sum(each[3] for each in everyone)) else None,
        }


_COLUMNS = ("ratio", "drift", "mismatch", "entropy", "advantage")


def _signs(advantage: NDArray[np.float32]) -> Metrics:
    size = np.abs(advantage)
    total = float(size.sum())
    return {
        "advantage_mean": _mean(advantage),
        "advantage_abs_mean": _mean(size),
        "positive_token_share": _mean(advantage > 0),
        "negative_token_share": _mean(advantage < 0),
        "negative_gradient_share": float(size[advantage < 0].sum()) / total if total else None,
    }


def _rewards(batch: StepBatch) -> Metrics:
    """Over all valid rewards, those without signal included."""
    rewards = np.asarray(batch.rewards)
    weight: dict[str, float] = defaultdict(float)
    for row in batch.rows:
        weight[row.rollout_id] += float(np.abs(row.advantage[row.mask]).sum())
    top = sorted(weight.values(), reverse=True)[: max(1, len(weight) // 100)]
    total = math.fsum(weight.values())
    return {
        "reward_mean": _mean(rewards),
        "reward_std": float(rewards.std()) if len(rewards) else None,
        "groups": batch.groups,
        "rollouts": batch.counts.rollouts,
        "rows": len(batch.rows),
        "branches_per_rollout": len(batch.rows) / batch.counts.rollouts if batch.counts.rollouts else None,
        "effective_group_ratio": _mean(batch.signal),
        **pass_numbers(batch.solved),
        "top_gradient_share": math.fsum(top) / total if total else None,
    }


def _critic(rows: Sequence[TrainingRow]) -> Metrics:
    """What the critic expected at the step's beginning, and how much of the returns' variance that tells."""
    judged = [
        (row.values[row.places], row.returns[row.places])
        for row in rows
        if row.values is not None and row.returns is not None
    ]
    if not judged:
        return {}
    values, returns = (np.concatenate(each).astype(np.float64) for each in zip(*judged, strict=True))
    variance = float(returns.var())
    return {
        "value_mean": float(values.mean()),
        "explained_variance": 1 - float((returns - values).var()) / variance if variance > 1e-12 else None,
    }


def _lengths(rows: Sequence[TrainingRow]) -> Metrics:
    """Sampled tokens of attempts by outcome, and their turns."""
    sampled: dict[str, int] = defaultdict(int)
    turns: dict[str, int] = defaultdict(int)
    positive = {row.rollout_id: row.positive for row in rows}
    truncated = {row.rollout_id: row.truncated for row in rows}
    for row in rows:
        sampled[row.rollout_id] += row.trained
        turns[row.rollout_id] += len(np.unique(row.chunk[row.mask]))
    found: Metrics = {
        "turns_mean": _mean(list(turns.values())),
        "truncated_share": _mean(list(truncated.values())),
        "positive_rollouts": sum(positive.values()),
        "negative_rollouts": len(positive) - sum(positive.values()),
    }
    for name, wanted in (("positive", True), ("negative", False)):
        lengths = [size for rollout, size in sampled.items() if positive[rollout] is wanted]
        found |= {
            f"length_{name}_p50": float(np.percentile(lengths, 50)) if lengths else None,
            f"length_{name}_p99": float(np.percentile(lengths, 99)) if lengths else None,
            f"length_{name}_max": max(lengths, default=None),
        }
    return found


def _staleness(rows: Sequence[TrainingRow]) -> Metrics:
    known = [row.staleness for row in rows if row.staleness is not None]
    return {
        "staleness_min": min(known, default=None),
        "staleness_mean": _mean(known),
        "staleness_max": max(known, default=None),
    }


def _summed(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    total: dict[str, float] = defaultdict(float)
    for part in parts:
        for name, value in part.items():
            total[name] += value
    return dict(total)


def _mean(values: NDArray[np.generic] | Sequence[float]) -> float | None:
    return float(np.mean(np.asarray(values, dtype=np.float64))) if len(values) else None


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None

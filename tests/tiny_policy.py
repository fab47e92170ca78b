"""A policy small enough for exact arithmetic, and batches for it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from rl_rows import row

from harness.export.schema import RLSample
from trainer.config import TrainConfig, parse_config
from trainer.policy.config import PolicyConfig
from trainer.policy.huggingface import HuggingFacePolicy
from trainer.policy.tiny import make_tiny, save_tiny
from trainer.samples.batch import StepBatch
from trainer.samples.plan import Planner
from trainer.step import Learner

VOCAB = 40


def save_policy(folder: Path) -> str:
    """A checkpoint of such a model, without a tokenizer: rows are made of token ids."""
    save_tiny(folder, width=16, heads=2, vocab_size=VOCAB, max_tokens=256)
    for path in folder.glob("*token*"):
        path.unlink()
    return str(folder)


def policy(*, seed: int = 0) -> HuggingFacePolicy:
    """Two layers of width 16 over 40 tokens, in fp64 throughout: transformers' own norm computes in fp32."""
    model = make_tiny(seed=seed, width=16, layers=2, heads=2, vocab_size=VOCAB, max_tokens=256).double()
    for layer in model.model.layers:
        layer.input_layernorm = torch.nn.RMSNorm(16, eps=1e-6, dtype=torch.float64)
        layer.post_attention_layernorm = torch.nn.RMSNorm(16, eps=1e-6, dtype=torch.float64)
    model.model.norm = torch.nn.RMSNorm(16, eps=1e-6, dtype=torch.float64)
    return HuggingFacePolicy(model.train(), None, PolicyConfig())


def groups(number: int = 2, *, attempts: int = 4, seed: int = 0, turns: int = 3) -> list[list[RLSample]]:
    """Groups of attempts of uneven length; half of each succeeds."""
    rng = random.Random(seed)

    def ids(low: int, high: int) -> list[int]:
        return [rng.randrange(VOCAB) for _ in range(rng.randint(low, high))]

    return [
        [
            row(
                float(attempt <= attempts // 2),
                task=f"t{task}",
                attempt=attempt,
                group_size=attempts,
                prompt=ids(3, 9),
                turns=[ids(1, 12) for _ in range(rng.randint(1, turns))],
                logprob=-rng.uniform(2.0, 5.0),
            )
            for attempt in range(1, attempts + 1)
        ]
        for task in range(number)
    ]


def request(**settings: Any) -> TrainConfig:
    """A configuration of one step over everything."""
    tables: dict[str, Any] = {"groups_per_step": 64, "optimizer": {"warmup_steps": 0, "lr": 1e-2}, **settings}
    if settings.get("algo") == "dr_grpo":
        tables.setdefault("max_tokens", 64)
    return parse_config(tables)


def batch_of(given: Sequence[Sequence[RLSample]], config: TrainConfig) -> StepBatch:
    """All groups as one batch."""
    (batch,) = Planner(config).batches(given)
    return batch


def gradient(batch: StepBatch, config: TrainConfig, using: HuggingFacePolicy) -> tuple[float, torch.Tensor]:
    """The loss of a batch and its gradient, as one vector."""
    using.module.zero_grad()
    loss = Learner(using, config).gradient(batch)
    grads = [each.grad for each in using.module.parameters()]
    return loss, torch.cat([each.flatten() for each in grads if each is not None])


def cut(batch: StepBatch, keep: Sequence[bool]) -> StepBatch:
    """Some rows of a batch, weighed as before."""
    return replace(batch, rows=tuple(each for each, kept in zip(batch.rows, keep, strict=True) if kept))

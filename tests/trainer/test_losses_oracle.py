"""Objectives against implementations that are not ours, on the same numbers: values and gradients to 1e-5.

Witnesses are TRL and verl, where they are installed; neither is needed otherwise.
"""

from __future__ import annotations

import importlib
import math
import warnings
from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from left_out import leave_out
from torch import Tensor

from trainer.config import parse_config
from trainer.losses.tokens import Tokens
from trainer.losses.weights import StepCounts, row_weights

CONSTANT = 32
SETTINGS: dict[str, dict[str, Any]] = {
    "grpo": {"objective": {"ratio_min": 0.8, "ratio_max": 1.2}},
    "dapo": {"objective": {"ratio_min": 0.8, "ratio_max": 1.28}},
    "dr_grpo": {"objective": {"ratio_min": 0.8, "ratio_max": 1.2}, "max_tokens": CONSTANT},
    "cispo": {"objective": {"ratio_min": 0.0, "ratio_max": 5.0}},
    "gspo": {"objective": {"ratio_min": 1 - 3e-4, "ratio_max": 1 + 4e-4}},
}


def module(name: str) -> Any:
    """A package's module; the test is skipped, in one line, where there is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return importlib.import_module(name)
        except Exception as error:  # noqa: BLE001 - whatever a foreign package raises, it cannot be asked
            leave_out(f"{name.partition('.')[0]} cannot be imported: {str(error).splitlines()[0]}")


def numbers(*, spread: float, masked_row: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Log-probabilities now and then [6, 17], a mask, and one advantage a row."""
    generator = torch.Generator().manual_seed(0)
    old = -torch.rand(6, 17, generator=generator, dtype=torch.float64) * 3
    logp = old + spread * torch.randn(6, 17, generator=generator, dtype=torch.float64)
    mask = torch.rand(6, 17, generator=generator) < 0.6
    mask[:, 0] = True
    if masked_row:
        mask[2] = False
    return logp, old, mask, torch.randn(6, generator=generator, dtype=torch.float64)


def ours(algo: str, logp: Tensor, old: Tensor, mask: Tensor, advantage: Tensor) -> tuple[float, Tensor]:
    config = parse_config({"algo": algo, **SETTINGS[algo]})
    leaf = logp.clone().requires_grad_()
    row = torch.arange(len(mask))[:, None].expand_as(mask)[mask]
    _, row = torch.unique(row, return_inverse=True)
    counts = mask.sum(1).tolist()
    weights = row_weights(
        config.weighting or config.recipe.weighting,
        rollout_tokens=counts,
        counts=StepCounts(tokens=sum(counts), rollouts=sum(count > 0 for count in counts)),
        max_tokens=config.max_tokens,
    )
    tokens = Tokens(
        logp=leaf[mask],
        behaviour=old[mask],
        advantage=advantage[:, None].expand_as(mask)[mask],
        row=row,
        chunk=row,
        positive=torch.ones_like(row, dtype=torch.bool),
    )
    out = config.recipe.objective(tokens, config.objective_config)
    weight = torch.tensor(weights, dtype=torch.float64)[:, None].expand_as(mask)[mask]
    loss = (weight * out.loss).sum()
    loss.backward()  # type: ignore[no-untyped-call]
    assert leaf.grad is not None
    return float(loss.detach()), leaf.grad


def trls(algo: str, logp: Tensor, old: Tensor, mask: Tensor, advantage: Tensor) -> tuple[float, Tensor]:
    trainer = module("trl.trainer.grpo_trainer").GRPOTrainer
    leaf = logp.clone().requires_grad_()
    bounds = SETTINGS[algo]["objective"]
    high = bounds["ratio_max"] if algo == "cispo" else bounds["ratio_max"] - 1  # TRL's is absolute for cispo alone
    stand_in = SimpleNamespace(
        _get_per_token_logps_and_entropies=lambda *_, **__: (leaf, torch.zeros_like(leaf), None),
        loss_type="grpo" if algo == "gspo" else algo,
        importance_sampling_level="sequence" if algo == "gspo" else "token",
        epsilon_low=1 - bounds["ratio_min"],
        epsilon_high=high,
        max_completion_length=CONSTANT,
        beta=0.0,
        top_entropy_quantile=1.0,
        off_policy_mask_threshold=None,
        use_vllm=False,
        aux_loss_enabled=False,
        _entropy_bonus_enabled=False,
        current_gradient_accumulation_steps=1,
        model=SimpleNamespace(training=True),
        args=SimpleNamespace(delta=None, steps_per_generation=1, use_bias_correction_kl=False),
        accelerator=SimpleNamespace(num_processes=1, gather=lambda x: x, reduce=lambda x, reduction: x),
        _metrics={"train": defaultdict(list)},
    )
    prompt = torch.zeros(len(mask), 1, dtype=torch.long)
    loss = trainer._compute_loss(
        stand_in,
        None,
        {
            "prompt_ids": prompt,
            "prompt_mask": prompt + 1,
            "completion_ids": torch.zeros_like(mask, dtype=torch.long),
            "completion_mask": mask.long(),
            "advantages": advantage,
            "old_per_token_logps": old,
            "num_items_in_batch": mask.sum(),
        },
    )
    loss.backward()
    assert leaf.grad is not None
    return float(loss.detach()), leaf.grad


def verls(algo: str, logp: Tensor, old: Tensor, mask: Tensor, advantage: Tensor) -> tuple[float, Tensor]:
    algos = module("verl.trainer.ppo.core_algos")
    leaf = logp.clone().requires_grad_()
    bounds = SETTINGS[algo]["objective"]
    config = module("verl.workers.config").ActorConfig(
        strategy="fsdp",
        rollout_n=1,
        ppo_mini_batch_size=1,
        ppo_micro_batch_size_per_gpu=1,
        clip_ratio_low=1 - bounds["ratio_min"],
        clip_ratio_high=bounds["ratio_max"] - 1,
        clip_ratio_c=1e9,
    )
    how = {"grpo": "vanilla", "dapo": "vanilla", "dr_grpo": "vanilla"}.get(algo, algo)
    mode = {"grpo": "seq-mean-token-mean", "gspo": "seq-mean-token-mean", "dr_grpo": "seq-mean-token-sum-norm"}
    loss, *_ = algos.get_policy_loss_fn(how)(
        old_log_prob=old,
        log_prob=leaf,
        advantages=advantage[:, None].expand_as(mask),
        response_mask=mask.double(),
        loss_agg_mode=mode.get(algo, "token-mean"),
        config=config,
    )
    loss.backward()
    assert leaf.grad is not None
    # verl divides by the padded width where no other number is given.
    scale = mask.shape[1] / CONSTANT if algo == "dr_grpo" else 1.0
    return float(loss.detach()) * scale, leaf.grad * scale


@pytest.mark.slow
@pytest.mark.timeout(400)  # importing a witness may take minutes
@pytest.mark.parametrize("algo", SETTINGS)
@pytest.mark.parametrize("spread", [0.05, 0.6])
@pytest.mark.parametrize("witness", [trls, verls])
def test_an_objective_is_what_others_compute(witness: Any, algo: str, spread: float) -> None:
    # TRL counts a row that is masked throughout in the mean over rows, which this project does not.
    given = numbers(spread=spread, masked_row=witness is verls or algo in ("dapo", "cispo"))
    if algo == "dr_grpo":
        given = numbers(spread=spread, masked_row=False)
    value, gradient = ours(algo, *given)
    theirs, their_gradient = witness(algo, *given)
    assert math.isfinite(value) and gradient.any()
    assert value == pytest.approx(theirs, abs=1e-5)
    assert torch.allclose(gradient, their_gradient, atol=1e-5)

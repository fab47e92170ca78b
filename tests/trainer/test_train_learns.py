"""A recorded store makes a policy better on tasks that it has not seen, by the gate's own test."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from find_key import rollouts, row_of, scripted
from rl_rows import export
from transformers import AutoModelForCausalLM

from evals.stats.paired import sign_flip
from trainer.config import parse_config
from trainer.loop import train

TASKS, ATTEMPTS, HELD_OUT = 192, 8, 256


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_cispo_on_recorded_attempts_improves_held_out_success(tmp_path: Path) -> None:
    torch.set_num_threads(1)
    demonstrations = [
        row_of(scripted(seed, expert=seed % 5 < 2), task=seed, attempt=1, attempts=1) for seed in range(4096)
    ]
    warm = train(
        export(tmp_path / "demonstrations", demonstrations),
        "tiny",
        tmp_path / "warm",
        parse_config(
            {
                "algo": "sft",
                "objective": {"positive_only": False},
                "groups_per_step": 32,
                "steps": 250,
                "optimizer": {"lr": 3e-3},
                "checkpoint_every": 250,
            }
        ),
    )
    assert warm.model is not None
    before = AutoModelForCausalLM.from_pretrained(warm.model)
    generator = torch.Generator().manual_seed(0)
    tasks = [task for task in range(10_000, 10_000 + TASKS) for _ in range(ATTEMPTS)]
    recorded = rollouts(before, tasks, generator=generator)
    rows = [
        row_of(episode, task=episode.seed, attempt=number % ATTEMPTS + 1, attempts=ATTEMPTS)
        for number, episode in enumerate(recorded)
    ]
    trained = train(
        export(tmp_path / "store", rows),
        str(warm.model),
        tmp_path / "trained",
        parse_config(
            {"algo": "cispo", "groups_per_step": 16, "optimizer": {"lr": 5e-4, "warmup_steps": 2}, "steps": 12}
        ),
    )
    assert trained.model is not None
    after = AutoModelForCausalLM.from_pretrained(trained.model)
    # No setting above was chosen by looking at these tasks.
    held_out = list(range(70_000, 70_000 + HELD_OUT))
    was = [each.reward for each in rollouts(before, held_out, generator=torch.Generator().manual_seed(7))]
    now = [each.reward for each in rollouts(after, held_out, generator=torch.Generator().manual_seed(7))]
    differences = [int(late - early) for early, late in zip(was, now, strict=True)]
    print(f"\nheld-out success {sum(was) / HELD_OUT:.3f} -> {sum(now) / HELD_OUT:.3f}: {sign_flip(differences)}")
    assert sum(now) > sum(was) and sign_flip(differences).better < 0.05

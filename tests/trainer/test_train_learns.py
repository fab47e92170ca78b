"""A recorded store makes a policy better on tasks that it has not seen, by the gate's own test."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from find_key import rollouts, row_of, scripted
from rl_rows import export
from transformers import AutoModelForCausalLM

from evals.stats.paired import sign_flip
from trainer.config import parse_config
from trainer.loop import train

TASKS, ATTEMPTS = 192, 8
HELD_OUT = range(90_000, 90_512)
"""What judges. The settings below were chosen on tasks 50,000 to 50,255, and never on these."""
SETTINGS: dict[str, dict[str, Any]] = {
    "cispo": {"algo": "cispo"},
    "grpo": {"algo": "grpo"},
    "ppo with a critic": {"algo": "ppo", "critic": {}, "whiten": False},
}


@dataclass(frozen=True)
class Recorded:
    """A warmed-up policy, what it did at its tasks, and how it does on those held out."""

    model: str
    store: Path
    was: list[float]


def success(model: str) -> list[float]:
    loaded = AutoModelForCausalLM.from_pretrained(model)
    return [each.reward for each in rollouts(loaded, HELD_OUT, generator=torch.Generator().manual_seed(7))]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("recorded")
    demonstrations = [
        row_of(scripted(seed, expert=seed % 5 < 2), task=seed, attempt=1, attempts=1) for seed in range(4096)
    ]
    request = {
        "algo": "sft",
        "objective": {"positive_only": False},
        "groups_per_step": 32,
        "steps": 250,
        "optimizer": {"lr": 3e-3},
        "checkpoint_every": 250,
    }
    data = export(folder / "demonstrations", demonstrations)
    model = str(train(data, "tiny", folder / "warm", parse_config(request)).model)
    generator = torch.Generator().manual_seed(0)
    tasks = [task for task in range(10_000, 10_000 + TASKS) for _ in range(ATTEMPTS)]
    did = rollouts(AutoModelForCausalLM.from_pretrained(model), tasks, generator=generator)
    rows = [
        row_of(episode, task=episode.seed, attempt=number % ATTEMPTS + 1, attempts=ATTEMPTS)
        for number, episode in enumerate(did)
    ]
    return Recorded(model, export(folder / "store", rows), success(model))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", SETTINGS)
def test_recorded_attempts_improve_held_out_success(tmp_path: Path, recorded: Recorded, name: str) -> None:
    optimizer = {"lr": 5e-4, "warmup_steps": 2}
    request = parse_config({**SETTINGS[name], "groups_per_step": 16, "steps": 12, "optimizer": optimizer})
    trained = train(recorded.store, recorded.model, tmp_path / "trained", request)
    now = success(str(trained.model))
    differences = [int(late - early) for early, late in zip(recorded.was, now, strict=True)]
    tested = sign_flip(differences)
    print(f"\n{name}: {sum(recorded.was) / len(now):.3f} -> {sum(now) / len(now):.3f} on {len(now)} tasks: {tested}")
    assert sum(now) > sum(recorded.was) and tested.better < 0.05

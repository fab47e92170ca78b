"""A run under watch: what is told lies in its folder, remedies take effect, and a resumed run has them, too."""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch
from rl_rows import export
from safetensors.torch import load_file
from tiny_policy import VOCAB, groups, request

from trainer.loop import Outcome, train
from trainer.monitor.metrics import metric_of
from trainer.policy.tiny import save_tiny

# What these rows say of their sampler is made up, and far from the model.
NOT_JUDGED: dict[str, Any] = {name: {} for name in ("behaviour_k3", "ess", "ratio_mean", "entropy")}
# Half of all attempts fail, which this threshold takes for too many: found at once, and remedied every second step.
HASTY = {
    "auto_remedy": True,
    "patience": 2,
    "window": 1,
    "diagnosis": {"negative_share": 0.01},
    "thresholds": NOT_JUDGED,
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("model")
    save_tiny(folder, width=16, heads=2, vocab_size=VOCAB, max_tokens=256)
    for path in folder.glob("*token*"):
        path.unlink()
    return str(folder)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export(tmp_path_factory.mktemp("d") / "data", list(chain.from_iterable(groups(10))))


def go(data: Path, model: str, out: Path, *, steps: int, resume: bool = False, **monitor: Any) -> Outcome:
    config = request(groups_per_step=1, seed=3, steps=steps, optimizer={"lr": 1e-3}, monitor={**HASTY, **monitor})
    return train(data, model, out, config, resume=resume)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.slow
def test_a_resumed_run_has_the_remedies_of_the_one_that_was_not_interrupted(
    tmp_path: Path, data: Path, model: str
) -> None:
    go(data, model, tmp_path / "whole", steps=9)
    go(data, model, tmp_path / "parts", steps=7)
    go(data, model, tmp_path / "parts", steps=9, resume=True)
    told = lines(tmp_path / "whole" / "events.jsonl")
    assert [event["change"] for event in told if event["kind"] == "remedy"][:2] == [
        "negative_weight=0.5",
        "negative_weight=0.25",
    ]
    assert lines(tmp_path / "parts" / "events.jsonl") == told
    one, other = (load_file(tmp_path / name / "model" / "model.safetensors") for name in ("whole", "parts"))
    assert all(torch.equal(one[name], other[name]) for name in one)
    log = lines(tmp_path / "whole" / "metrics.jsonl")
    shares = [line["negative_gradient_share"] for line in log]
    assert max(shares[-2:]) < min(shares[:3]), "failures weigh less once the remedy holds"
    assert {name for line in log for name in line if metric_of(name) is None} == set()


def test_without_leave_nothing_is_changed_and_the_remedy_is_told(tmp_path: Path, data: Path, model: str) -> None:
    go(data, model, tmp_path / "out", steps=6, auto_remedy=False)
    told = lines(tmp_path / "out" / "events.jsonl")
    assert "remedy" not in {event["kind"] for event in told}
    assert {event["change"] for event in told if event["level"] == "found"} == {"negative_weight=0.5"}


def test_an_alarm_that_is_to_end_the_run_does(tmp_path: Path, data: Path, model: str) -> None:
    outcome = go(data, model, tmp_path / "out", steps=8, halt_on=["drift"], thresholds={"ess": {"alarm": 1.0}})
    assert outcome.halted is not None and outcome.halted.startswith("drift is lost: ") and outcome.model is None
    assert outcome.steps == 1 and "in the last step (alarm below 1)" in outcome.halted

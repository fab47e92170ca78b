"""`harness train diagnose` on logs whose trouble is known, on what is no log, and on a run that is really broken."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import typer
from find_key import rollouts, row_of
from rl_rows import export
from training_logs import Log, log
from transformers import AutoModelForCausalLM

from harness.errors import UsageError
from trainer.cli import app
from trainer.config import parse_config
from trainer.loop import train
from trainer.policy.tiny import save_tiny

NOISE = random.Random(0)
TROUBLE: dict[str, tuple[Log, str, str]] = {
    "extreme failures": (
        log(60, length_negative_max=lambda step: 26_000 if step >= 50 else 8_000),
        "suspected: extreme failures: the longest failure went from 8,000 to 26,000 tokens (x3.2)",
        "try --set filters.mask_failed_longer_than=20000",
    ),
    "negatives dominate": (
        log(
            100,
            negative_rollouts=lambda step: 128 * (0.4 + 0.3 * min(max(step - 40, 0), 60) / 60) + NOISE.randint(-3, 3),
            positive_rollouts=lambda step: 128 * (0.6 - 0.3 * min(max(step - 40, 0), 60) / 60),
        ),
        "suspected: negatives dominate",
        "try --set negative_weight=0.5",
    ),
    "bad patterns": (
        log(60, looped_call_share=lambda step: 0.05 + 0.006 * max(0, step - 30)),
        "suspected: bad patterns: tool calls in unproductive loops",
        "try --set filters.mask_tool_errors=true",
    ),
    "exploration": (log(60, entropy=lambda step: 1.0 if step < 40 else 0.2), "exploration: alarm: entropy 0.2", ""),
    "signal": (
        log(60, effective_group_ratio=lambda step: 0.7 if step < 40 else 0.0),
        "signal: alarm: effective_group_ratio",
        "",
    ),
    "drift": (log(60, ess=lambda step: 0.9 if step < 40 else 0.1), "drift: alarm: ess", ""),
}


def written(folder: Path, rows: Sequence[dict[str, Any]]) -> Path:
    folder.mkdir()
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def diagnosed(*arguments: str | Path) -> int:
    return int(typer.main.get_command(app).main(["diagnose", *map(str, arguments)], standalone_mode=False))


@pytest.mark.parametrize("name", TROUBLE)
def test_trouble_is_told_with_its_evidence_and_the_setting_that_helps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    rows, evidence, change = TROUBLE[name]
    assert diagnosed(written(tmp_path / "run", rows)) == 1
    out = capsys.readouterr().out
    assert evidence in out and change in out
    first = next(line for line in out.splitlines() if evidence in line)
    assert first.startswith("step ")


def test_a_sound_log_is_one_line_and_exit_code_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = written(tmp_path / "run", log(80))
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"step": 81, "entro')
    assert diagnosed(run) == 0 and diagnosed(run / "metrics.jsonl") == 0
    assert capsys.readouterr().out == "after step 80: exploration ok, signal ok, drift ok\n" * 2


def test_thresholds_may_be_tried_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = written(tmp_path / "run", log(30))
    assert diagnosed(run, "--set", "monitor.thresholds.ess.alarm=0.99") == 1
    assert "drift: alarm: ess 0.95 over the last 5 steps (alarm below 0.99)" in capsys.readouterr().out


def test_what_is_no_number_is_unknown(tmp_path: Path) -> None:
    rows = [{**row, "entropy": "high", "ess": None} for row in log(30)]
    assert diagnosed(written(tmp_path / "run", rows)) == 0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda folder: folder, "has no step"),
        (lambda folder: written(folder, []), "has no step"),
        (lambda folder: written(folder, log(3)).joinpath("run.json").write_text("{") and folder, "is damaged"),
    ],
)
def test_what_is_no_log_is_one_line(tmp_path: Path, make: Callable[[Path], Path], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        diagnosed(make(tmp_path / "run"))
    assert words in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_a_learning_rate_that_breaks_a_run_is_found_and_one_that_does_not_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_tiny(tmp_path / "model", width=16, heads=2)
    sampler = AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    tasks = [task for task in range(16) for _ in range(4)]
    did = rollouts(sampler, tasks, generator=torch.Generator().manual_seed(0))
    rows = [
        replace(row_of(each, task=each.seed, attempt=number % 4 + 1, attempts=4), reward=float(number % 2))
        for number, each in enumerate(did)
    ]
    data = export(tmp_path / "data", rows)
    watch = {"start": 2, "window": 2, "patience": 2}
    for name, rate, code in (("sound", 1e-5, 0), ("broken", 0.3, 1)):
        optimizer = {"lr": rate, "warmup_steps": 0}
        request = {"groups_per_step": 2, "optimizer": optimizer, "monitor": {**watch, "auto_remedy": name == "broken"}}
        train(data, str(tmp_path / "model"), tmp_path / name, parse_config(request))
        capsys.readouterr()
        assert diagnosed(tmp_path / name) == code, name
        out = capsys.readouterr().out
        assert ("suspected: moves too fast" in out) == ("applied optimizer.lr=0.15" in out) == bool(code)

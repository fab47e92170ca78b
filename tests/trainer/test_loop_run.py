"""A loop over real trials: what it leaves, what it refuses in one line, and that killing it changes nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import loop_world
import pytest
import torch
from builders import MemoryProvider
from loop_world import run, world
from safetensors.torch import load_file

from harness.errors import UsageError
from harness.export.rl import export_rl
from harness.job.progress import load_summary
from harness.store.layout import JobPaths
from trainer.monitor.metrics import metric_of
from trainer.online.ledger import Ledger, State
from trainer.online.loop import Watching
from trainer.online.process import training_process


def metrics(root: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (root / "metrics.jsonl").read_text().splitlines()]


def state(root: Path) -> State:
    with Ledger(root / "ledger.jsonl") as ledger:
        return ledger.state


def weights(root: Path) -> dict[str, torch.Tensor]:
    return load_file(root / "model" / "model.safetensors")


async def test_a_loop_leaves_its_attempts_as_a_job_its_steps_as_a_run_and_a_model(tmp_path: Path) -> None:
    root = tmp_path / "loop"
    ended = await run(world(tmp_path), root)
    assert (ended.step, ended.halted) == (6, None)
    assert [line["step"] for line in metrics(root)] == [1, 2, 3, 4, 5, 6]
    assert {line["staleness_max"] for line in metrics(root)} == {0}
    assert {line["groups"] for line in metrics(root)} == {2}
    assert all(metric_of(name) for line in metrics(root) for name in line)
    summary, findings = load_summary(JobPaths(root / "jobs/rollouts"))
    assert (summary.counts["scored"], summary.n_total, findings) == (6 * 2 * 4, 6 * 2 * 4, [])
    rates = [json.loads(line) for line in (root / "evaluations.jsonl").read_text().splitlines()]
    assert [(each["version"], each["n"], each["job"]) for each in rates] == [
        (0, 1, "eval-000000"),
        (3, 1, "eval-000003"),
        (6, 1, "eval-000006"),
    ]
    stats = export_rl([root / "jobs/rollouts"], tmp_path / "data", file_format="jsonl")
    assert stats.trainable_rows == 48
    before = load_file(tmp_path / "model/model.safetensors")
    assert not all(torch.equal(before[name], value) for name, value in weights(root).items())


async def test_collecting_ahead_trains_no_group_beyond_the_ratio(tmp_path: Path) -> None:
    collect = {"groups": 2, "attempts": 4, "async_ratio": 2, "redundant": 1}
    ended = await run(world(tmp_path, collect=collect), tmp_path / "loop")
    assert ended.step == 6
    assert max(line["staleness_max"] for line in metrics(tmp_path / "loop")) <= 2
    trained = [group.number for lease in ended.state.leases.values() for group in lease.groups]
    assert len(trained) == len(set(trained)) == 12


async def test_a_step_whose_groups_teach_nothing_says_why_and_the_loop_goes_on(tmp_path: Path) -> None:
    ended = await run(world(tmp_path, steps=2), tmp_path / "loop", provider=MemoryProvider)
    assert (ended.step, ended.halted) == (2, None)
    for line in metrics(tmp_path / "loop"):
        assert (line["reward_mean"], line["groups"], line["filtered_zero_variance"]) == (1.0, 0, 2)


async def test_a_server_that_samples_in_another_way_stops_the_loop_and_the_field_is_named(tmp_path: Path) -> None:
    config = world(tmp_path)
    root = tmp_path / "loop"
    await run(world(tmp_path, steps=1), root)
    (root / "fingerprint.json").write_text(json.dumps({"chat_template": "0123456789abcdef"}))
    with pytest.raises(UsageError, match=r"so far and training differ in chat_template \(0123456789abcdef and"):
        await run(config, root, resume=True)


async def test_a_dataset_that_is_not_there_and_a_folder_in_use_are_one_line_and_leave_nothing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no dataset"):
        await run(world(tmp_path, tasks={"train": "nowhere"}), tmp_path / "loop")
    assert not (tmp_path / "loop").exists()
    with pytest.raises(UsageError, match="there is no such folder"):
        await run(world(tmp_path, model="./nowhere"), tmp_path / "loop")
    assert not (tmp_path / "loop").exists()
    (tmp_path / "loop").mkdir()
    (tmp_path / "loop/mine").touch()
    with pytest.raises(UsageError, match="holds something that is no loop"):
        await run(world(tmp_path), tmp_path / "loop")


@pytest.mark.case("G11")
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_loop_that_is_killed_at_random_moments_ends_with_the_same_weights(tmp_path: Path) -> None:
    for name in ("straight", "killed"):
        (tmp_path / name).mkdir()
    random, root, kills = Random(4), tmp_path / "killed/loop", 0
    _session(tmp_path / "straight/loop", None)
    while not (root / "model").exists():
        kills += _session(root, random.randint(8, 18))
        assert kills < 20
    assert kills >= 2
    there = state(root)
    trained = Counter(group.number for lease in there.leases.values() for group in lease.groups)
    assert sorted(trained) == list(range(12)) and set(trained.values()) == {1}
    assert [line["step"] for line in metrics(root)] == [1, 2, 3, 4, 5, 6]
    one, other = weights(tmp_path / "straight/loop"), weights(root)
    assert all(torch.equal(one[name], other[name]) for name in one)


def _session(root: Path, events: int | None) -> int:
    """Run the loop, and kill it once its ledger has grown by so many events; whether it was killed."""
    ledger = root / "ledger.jsonl"
    until = None if events is None else _lines(ledger) + events
    process = subprocess.Popen(
        [sys.executable, loop_world.__file__, str(root)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stderr=subprocess.DEVNULL,
    )
    while process.poll() is None:
        if until is not None and _lines(ledger) >= until:
            process.kill()
            process.wait()
            return 1
        time.sleep(0.002)
    assert process.returncode == 0
    return 0


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_a_trainer_that_is_killed_is_started_again_and_nothing_is_trained_twice(tmp_path: Path) -> None:
    straight = tmp_path / "straight"
    await run(world(tmp_path), straight)

    def kill(trained: Any) -> None:
        if trained.step == 3:
            (worker,) = _workers(tmp_path / "killed")
            os.kill(worker, signal.SIGKILL)
            time.sleep(0.1)

    ended = await run(world(tmp_path), tmp_path / "killed", watching=Watching(step=kill), train=training_process)
    assert ended.step == 6
    assert [line["step"] for line in metrics(tmp_path / "killed")] == [1, 2, 3, 4, 5, 6]
    one, other = weights(straight), weights(tmp_path / "killed")
    assert all(torch.equal(one[name], other[name]) for name in one)


def _workers(root: Path) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"trainer.online.worker" in words and str(root).encode() in words:
            found.append(int(path.parent.name))
    return found

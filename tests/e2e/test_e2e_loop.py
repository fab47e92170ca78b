"""The closed loop as a user runs it: local sandboxes, the policy's own server, a trainer process, a tiny model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from builders import make_task

from harness.export.rl import export_rl
from harness.job.progress import load_summary
from harness.store.layout import JobPaths
from trainer.online.config import parse_loop
from trainer.online.loop import run_loop

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

COIN = "#!/bin/sh\nn=$(od -An -N1 -tu1 /dev/urandom)\necho $((n % 2)) > /logs/verifier/reward.txt\n"


async def test_two_steps_on_real_sandboxes_with_the_policy_that_is_trained(tmp_path: Path) -> None:
    for number in range(2):
        make_task(tmp_path / "tasks", f"t{number}", test=COIN, dockerfile="FROM scratch\nWORKDIR /app\n")
    parameters = {"temperature": 1.0, "max_tokens": 16}
    config = parse_loop(
        {
            "model": "tiny",
            "steps": 2,
            "tasks": {"train": str(tmp_path / "tasks"), "held_out": str(tmp_path / "tasks")},
            "agent": {"options": {"text_is_final": True, "system_prompt": "Act.", "parameters": parameters}},
            "collect": {"groups": 2, "attempts": 6, "redundant": 1},
            "evaluate": {"every": 2},
            "train": {"optimizer": {"lr": 1e-3, "warmup_steps": 0}},
        },
        "loop.toml",
    )
    root = tmp_path / "loop"
    ended = await run_loop(config, root)
    assert (ended.step, ended.halted, dict(ended.state.lost)) == (2, None, {})
    lines = [json.loads(line) for line in (root / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2]
    for line in lines:
        if line["groups"]:  # a coin may fall on one side six times
            assert line["staleness_max"] == 0
            assert line["behaviour_max_abs"] < 1e-4, "what was sampled is what is trained"
    summary, findings = load_summary(JobPaths(root / "jobs/rollouts"))
    assert (summary.counts["scored"] >= 24, findings) == (True, [])
    groups = {
        name
        for path in (root / "jobs/rollouts").glob("*/result.json")
        for name in [json.loads(path.read_text())["group_id"].rpartition("/")[2]]
    }
    assert groups == {"g0", "g1", "g2", "g3"}
    assert export_rl([root / "jobs/rollouts"], tmp_path / "data").trainable_rows >= 24
    assert [json.loads(line)["n"] for line in (root / "evaluations.jsonl").read_text().splitlines()] == [2, 2]

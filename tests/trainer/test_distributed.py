"""Two processes with sharded weights compute what one does."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest
import ranks
import torch
from rl_rows import export
from safetensors.torch import load_file
from tiny_policy import VOCAB, batch_of, gradient, groups, policy, request

from trainer.loop import train
from trainer.policy.tiny import save_tiny


@pytest.mark.case("G5")
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_two_ranks_have_the_loss_the_gradient_and_the_run_of_one(tmp_path: Path) -> None:
    data = export(tmp_path / "data", list(chain.from_iterable(groups(10))))
    model = tmp_path / "model"
    save_tiny(model, width=16, heads=2, vocab_size=VOCAB, max_tokens=256)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(port)]
    ended = subprocess.run(
        [*torchrun, ranks.__file__, str(tmp_path), str(data), str(model)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    found = json.loads((tmp_path / "found.json").read_text())
    for algo, (loss, *grads) in found.items():
        config = request(algo=algo)
        alone = gradient(batch_of(groups(), config), config, policy())
        assert loss == pytest.approx(alone[0], abs=1e-6)
        assert torch.allclose(torch.tensor(grads, dtype=torch.float64), alone[1], atol=1e-6)
    train(data, str(model), tmp_path / "alone", request(groups_per_step=2, steps=6))
    train(data, str(model), tmp_path / "alone_critic", request(groups_per_step=2, steps=6, **ranks.CRITIC))
    for run, alone_run, file in (
        ("run", "alone", "model"),
        ("critic", "alone_critic", "model"),
        ("critic", "alone_critic", "value_head"),
    ):
        ours, theirs = (load_file(tmp_path / name / "model" / f"{file}.safetensors") for name in (alone_run, run))
        assert ours.keys() == theirs.keys()
        # Adam divides by the gradient's size, so that where it is nearly 0 rounding shows.
        assert all(torch.allclose(ours[name], theirs[name], atol=1e-3) for name in ours)
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [1, 2, 3, 4, 5, 6]

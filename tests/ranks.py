"""Run by torchrun: the gradient of a batch over all ranks, and a short run, compared with those of one process."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from tiny_policy import batch_of, groups, policy, request

from trainer.distributed import full, is_first, process_group, rank, sharded
from trainer.loop import train
from trainer.step import Learner

CRITIC = {"algo": "ppo", "critic": {"lam": 0.9}}


def main(out: Path, data: Path, model: str) -> None:
    """Write what the ranks found."""
    found: dict[str, list[float]] = {}
    with process_group():
        for algo in ("cispo", "grpo", "gspo"):
            config = request(algo=algo, token_budget=80)
            spread = policy()
            sharded(spread.module)
            loss = torch.tensor([Learner(spread, config).gradient(batch_of(groups(), config))])
            torch.distributed.all_reduce(loss)
            grads = [full(each.grad).flatten() for each in spread.module.parameters() if each.grad is not None]
            found[algo] = [float(loss), *torch.cat(grads).tolist()]
        one = groups(1, attempts=2)[0]  # fewer rows than micro-batches would need: one rank has nothing of its own
        lonely = batch_of([one], request(advantage="none"))
        lonely_rows = Learner(spread, request(token_budget=2))._micro_batches(lonely)
        assert lonely_rows, rank()
        train(data, model, out / "run", request(groups_per_step=2, steps=4))
        train(data, model, out / "run", request(groups_per_step=2, steps=6), resume=True)
        train(data, model, out / "critic", request(groups_per_step=2, steps=4, **CRITIC))
        train(data, model, out / "critic", request(groups_per_step=2, steps=6, **CRITIC), resume=True)
        if is_first():
            (out / "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])

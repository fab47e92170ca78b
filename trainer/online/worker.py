"""The trainer's process: takes leases on its standard input, one line of JSON each, and answers with a line each.

    python -m trainer.online.worker FOLDER

FOLDER is the loop's (see `trainer.online.folder`). The first answer tells the step of the checkpoint that it goes on
from. The loop may kill it at any moment: what counts is what a checkpoint holds.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

from harness.errors import HarnessError, UsageError, first_line
from harness.store.held import locked
from trainer.checkpoint import Progress, checkpoints, load_checkpoint, save_checkpoint
from trainer.measure import Metrics
from trainer.monitor.monitor import Monitor
from trainer.online.fingerprint import Mismatch, digest, of_rows, require_same
from trainer.online.folder import LoopFolder
from trainer.online.parts import Lease
from trainer.online.rows import lease_rows, newest_only
from trainer.policy.huggingface import HuggingFacePolicy
from trainer.policy.load import load_policy
from trainer.samples.batch import StepBatch
from trainer.samples.plan import Planner
from trainer.step import Learner

_KEPT_WEIGHTS = 3
_TURN_SEC = 120


class Worker:
    """One loop's policy in training."""

    def __init__(self, folder: LoopFolder) -> None:
        """Load the model and the newest checkpoint. Raises UsageError."""
        self._folder, loop = folder, folder.request()
        config = loop.training
        self._policy: HuggingFacePolicy = load_policy(
            loop.model, config.policy, seed=loop.seed, critic=config.critic is not None
        )
        reference = None
        if config.kl is not None:
            reference = load_policy(config.reference or loop.model, config.policy, seed=loop.seed)
        self._learner = Learner(self._policy, config, reference)
        found = checkpoints(folder.run.checkpoints)
        self._progress = load_checkpoint(found[-1], self._learner) if found else Progress()
        folder.run.forget_after(self._progress.step)
        self._planner = Planner(config, max_tokens=self._policy.max_tokens)
        if self._progress.planner:
            self._planner.restore(self._progress.planner)
        self._watch = Monitor(config)
        folder.run.tell_again(event for numbers in folder.run.logged() for event in self._watch.observe(numbers).events)
        self._use_remedies()
        self._decoding: dict[str, Any] = {}
        self._newest_only = loop.collect.off_policy == "mask"

    @property
    def step(self) -> int:
        """Steps done."""
        return self._progress.step

    def fingerprint(self) -> dict[str, Any]:
        """Of what is trained."""
        template = getattr(self._policy.tokenizer, "chat_template", None)
        return {
            "tokenizer": self._policy.fingerprint,
            "chat_template": None if template is None else digest(template),
            "vocab_size": self._policy.vocab_size,
        }

    def train(self, lease: Lease, loop: Mapping[str, float]) -> dict[str, Any]:
        """One step; what there is to tell about it. Raises Mismatch for attempts that were sampled in another way."""
        progress = self._progress
        if lease.step != progress.step + 1:
            raise ValueError(f"step {lease.step} does not follow step {progress.step}")
        groups = list(lease_rows(self._folder.rollouts, lease.groups))
        self._require_same_decoding(groups)
        if self._newest_only:
            groups = [list(map(newest_only, rows)) for rows in groups]
        metrics: Metrics = {"skipped": 0, "groups": 0}
        halt = None
        for batch in self._planner.batches(groups, first_step=progress.step, version=0):
            metrics = self._learner.step(batch) if batch.rows else _nothing_to_train(batch)
        progress.step += 1
        progress.planner = self._planner.state()
        progress.skipped = progress.skipped + 1 if metrics["skipped"] else 0
        numbers: Metrics = {"step": progress.step, "epoch": 0, **metrics, **loop}
        seen = self._watch.observe(numbers)
        self._folder.run.log(numbers)
        self._folder.run.tell(seen.events)
        self._use_remedies()
        if progress.skipped >= self._learner.config.max_skipped:
            halt = f"{progress.skipped} steps in a row had no finite gradient"
        halt = halt or self._planner.halted or seen.halt
        every = self._learner.config.checkpoint_every
        if halt is not None or (every is not None and progress.step % every == 0):
            self.checkpoint()
        return {"step": progress.step, "metrics": numbers, "halt": halt, "weights": str(self.publish())}

    def checkpoint(self) -> None:
        """Make the steps so far durable."""
        if not self._progress.skipped:
            keep = self._learner.config.keep_checkpoints
            save_checkpoint(self._folder.run.checkpoints, self._learner, self._progress, keep=keep)

    def publish(self) -> Path:
        """The present weights in a folder of their own, whole or not at all; the oldest ones go."""
        target = self._folder.weights / f"{self.step:06}"
        draft = target.with_name(f".{target.name}.draft")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        self._policy.save(draft)
        shutil.rmtree(target, ignore_errors=True)
        draft.rename(target)
        for old in sorted(self._folder.weights.glob("[0-9]*"))[:-_KEPT_WEIGHTS]:
            shutil.rmtree(old, ignore_errors=True)
        return target

    def finish(self, *, done: bool) -> None:
        """Leave a checkpoint, and the model where the last step is done."""
        newest = checkpoints(self._folder.run.checkpoints)
        if not newest or newest[-1].name != f"step-{self.step:06}":
            self.checkpoint()
        if done:
            self._folder.run.save_model(self._policy)

    def _require_same_decoding(self, groups: list[list[Any]]) -> None:
        found = of_rows(groups)
        require_same(self._folder.fingerprint(), found, "the loop's agent", "its attempts")
        require_same(self._decoding, found, "earlier attempts", "those of this step")
        self._decoding.update(found)

    def _use_remedies(self) -> None:
        self._planner.use(self._watch.config)
        self._learner.use(self._watch.config)


def _nothing_to_train(batch: StepBatch) -> Metrics:
    """The numbers of a step whose groups teach nothing: what they earned, and why they were left out."""
    reward = sum(batch.rewards) / len(batch.rewards) if batch.rewards else None
    filtered = {f"filtered_{name}": count for name, count in batch.filtered.items()}
    return {"skipped": 0, "groups": 0, "reward_mean": reward, **filtered}


def main(path: str) -> None:
    """Answer until the input ends."""
    answers = _only_answers()
    folder = LoopFolder(Path(path))
    try:
        with ExitStack() as stack:
            _wait_for_turn(folder, stack)
            _serve(Worker(folder), answers)
    except HarnessError as error:
        _answer(answers, {"error": first_line(error), "mismatch": isinstance(error, Mismatch)})


def _wait_for_turn(folder: LoopFolder, stack: ExitStack) -> None:
    """A killed loop's trainer ends with the step that it is at; it must not write beside another one."""
    for _ in range(_TURN_SEC * 10):
        try:
            stack.enter_context(locked(folder.root / ".training"))
            return
        except BlockingIOError:
            time.sleep(0.1)
    raise UsageError(f"{folder.root}: another trainer still works there")


def _serve(worker: Worker, answers: BinaryIO) -> None:
    _answer(answers, {"step": worker.step, "weights": str(worker.publish()), "fingerprint": worker.fingerprint()})
    for line in sys.stdin.buffer:
        asked = json.loads(line)
        if "finish" in asked:
            worker.finish(done=asked["finish"])
            _answer(answers, {})
            return
        _answer(answers, worker.train(Lease.of(asked["lease"]), asked["loop"]))


def _only_answers() -> BinaryIO:
    """The standard output for answers alone: what libraries print goes to the standard error."""
    sys.stdout.flush()
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    return answers


def _answer(answers: BinaryIO, document: Mapping[str, Any]) -> None:
    answers.write(json.dumps(document).encode() + b"\n")


if __name__ == "__main__":
    main(sys.argv[1])

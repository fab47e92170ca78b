"""A run from beginning to end: groups in a seeded order, steps, a log, checkpoints, and a model that others load.

OUT/run.json            what was asked for
OUT/metrics.jsonl       one line a step
OUT/events.jsonl        what the monitor told: invariants, findings, remedies
OUT/checkpoints/        see `trainer.checkpoint`
OUT/model/              the result, as transformers loads it
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import __version__
from harness.errors import UsageError
from harness.export.folder import manifest_of
from harness.export.schema import RLSample
from trainer.checkpoint import Progress, checkpoints, load_checkpoint, save_checkpoint
from trainer.config import TrainConfig
from trainer.distributed import is_first, sharded, wait_for_all
from trainer.folder import RunFolder
from trainer.measure import Metrics
from trainer.monitor.monitor import Monitor, Observation
from trainer.policy.load import load_policy
from trainer.policy.protocol import Policy
from trainer.samples.batch import StepBatch
from trainer.samples.plan import Planner
from trainer.samples.source import SampleSource
from trainer.step import Learner


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended.

    Attributes:
        steps: of the whole run, resumed parts included.
        halted: why it stopped before its end; None if it did not.
        model: the result; None for a run that was halted, whose newest checkpoint is the last good state.
    """

    steps: int
    halted: str | None = None
    model: Path | None = None


OnStep = Callable[[Metrics, Observation], None]


def train(
    export: Path, model: str, out: Path, config: TrainConfig, *, resume: bool = False, on_step: OnStep | None = None
) -> Outcome:
    """Train, and write everything to `out`. `on_step` is told each step's numbers, on the first rank.

    Raises UsageError before any step for a request that cannot be: no export, another tokenizer, nothing to train on.
    """
    source = SampleSource(export)
    policy = load_policy(model, config.policy, seed=config.seed, critic=config.critic is not None)
    _require_same_tokens(source, export, policy, model)
    reference = load_policy(config.reference or model, config.policy, seed=config.seed) if config.kl else None
    for each in (policy, reference):
        if each is not None:
            sharded(each.module)
    learner = Learner(policy, config, reference)
    folder = RunFolder(out)
    document = _document(export, model, config)
    progress = _begin(folder, learner, resume, document)
    run = _Run(source, learner, config, progress, folder, document, on_step)
    return run.go()


class _Run:
    def __init__(
        self,
        source: SampleSource,
        learner: Learner,
        config: TrainConfig,
        progress: Progress,
        folder: RunFolder,
        document: dict[str, Any],
        on_step: OnStep | None,
    ) -> None:
        self._source, self._learner, self._config = source, learner, config
        self._progress, self._folder, self._on_step = progress, folder, on_step
        self._document = document
        self._planner = Planner(config, max_tokens=learner.policy.max_tokens)
        self._watch = Monitor(config)
        self._take_up_watch()
        if progress.planner:
            self._planner.restore(progress.planner)

    def go(self) -> Outcome:
        progress = self._progress
        while not self._done():
            halted = self._epoch()
            if halted is not None:
                self._checkpoint()
                return Outcome(steps=progress.step, halted=halted)
        self._checkpoint()
        return Outcome(steps=progress.step, model=self._folder.save_model(self._learner.policy))

    def _done(self) -> bool:
        steps = self._config.steps
        return self._progress.epoch > 0 if steps is None else self._progress.step >= steps

    def _epoch(self) -> str | None:
        """One pass over the export, or what is left of it; why the run has to stop, if it does."""
        progress, filtered, trained = self._progress, Counter[str](), False
        for batch in self._planner.batches(
            self._groups(), first_step=progress.step, version=self._config.policy_version
        ):
            filtered += batch.filtered
            progress.planner = self._planner.state()
            if not batch.rows:
                continue
            trained = True
            if not progress.step and is_first():
                # Not before: a request that turns out to be impossible leaves nothing behind.
                self._folder.create(self._document)
            halted = self._step(batch)
            if halted is not None or (self._config.steps is not None and self._done()):
                return halted
        if self._planner.halted is not None:
            if not progress.step:
                raise UsageError(f"nothing was trained: {self._planner.halted}")
            return self._planner.halted
        if not trained and progress.cursor == len(self._source):
            raise UsageError(why_nothing(filtered, len(self._source), self._config))
        progress.epoch, progress.cursor = progress.epoch + 1, 0
        return None

    def _groups(self) -> Iterator[Sequence[RLSample]]:
        order = self._source.shuffled([self._config.seed, self._progress.epoch])
        while self._progress.cursor < len(order):
            number = order[self._progress.cursor]
            self._progress.cursor += 1
            yield self._source.group(int(number))

    def _step(self, batch: StepBatch) -> str | None:
        progress = self._progress
        metrics = self._learner.step(batch)
        progress.step += 1
        progress.skipped = progress.skipped + 1 if metrics["skipped"] else 0
        numbers: Metrics = {"step": progress.step, "epoch": progress.epoch, **metrics}
        seen = self._watch.observe(numbers)
        if is_first():
            self._folder.log(numbers)
            self._folder.tell(seen.events)
            if self._on_step is not None:
                self._on_step(numbers, seen)
        self._use_remedies()
        if progress.skipped >= self._config.max_skipped:
            return f"{progress.skipped} steps in a row had no finite gradient; the last checkpoint is from before them"
        if seen.halt is not None:
            return seen.halt
        every = self._config.checkpoint_every
        if every is not None and progress.step % every == 0:
            self._checkpoint()
        return None

    def _take_up_watch(self) -> None:
        """The monitor follows from the log: a resumed run's stands, remedies included, where it stood."""
        events = [event for numbers in self._folder.logged() for event in self._watch.observe(numbers).events]
        if events and is_first():
            self._folder.tell_again(events)
        self._use_remedies()

    def _use_remedies(self) -> None:
        self._planner.use(self._watch.config)
        self._learner.use(self._watch.config)

    def _checkpoint(self) -> None:
        if not self._progress.skipped:
            save_checkpoint(self._folder.checkpoints, self._learner, self._progress, keep=self._config.keep_checkpoints)


def why_nothing(filtered: Counter[str], groups: int, config: TrainConfig) -> str:
    """Why an export leaves nothing to train on, and what to do about it, in one line."""
    reasons = set(filtered)
    if not groups:
        return "there is nothing to train on: the export has no groups"
    if reasons == {"single"}:
        return (
            f"all {groups} groups have one attempt, and {config.algo} compares attempts: run with --attempts 8, "
            "or set advantage = 'batch_mean'"
        )
    if "no_logprobs" in reasons and reasons <= {"no_logprobs", "nothing_to_train", "zero_variance", "single"}:
        return (
            f"{config.algo} divides by the sampler's log-probabilities, and this export has none, since its ids were "
            "retokenised: use --algo sft, or run the job with capture = true"
        )
    listed = ", ".join(f"{name} {count}" for name, count in filtered.most_common(6))
    return f"there is nothing to train on in {groups} groups: {listed or 'no trainable token'}"


def _require_same_tokens(source: SampleSource, export: Path, policy: Policy, model: str) -> None:
    if source.largest_id >= policy.vocab_size:
        raise UsageError(
            f"{export} was made with another tokenizer: it holds token {source.largest_id}, "
            f"and {model} has {policy.vocab_size}"
        )
    told = ((manifest_of(export) or {}).get("options") or {}).get("tokenizer")
    if told and policy.fingerprint and told != policy.fingerprint:
        raise UsageError(f"{export} was made with another tokenizer than that of {model}")


def _document(export: Path, model: str, config: TrainConfig) -> dict[str, Any]:
    """What was asked for, as run.json tells it."""
    return {
        "format": "harness-train",
        "version": 1,
        "harness_version": __version__,
        "export": str(export.resolve()),
        "model": model,
        "config": config.model_dump(mode="json"),
    }


def _begin(folder: RunFolder, learner: Learner, resume: bool, document: dict[str, Any]) -> Progress:
    if resume:
        folder.require_same(document)
        found = checkpoints(folder.checkpoints)
        progress = load_checkpoint(found[-1], learner) if found else Progress()
        if is_first():
            folder.forget_after(progress.step)
    else:
        progress = Progress()
        folder.require_fresh()
    wait_for_all()
    return progress

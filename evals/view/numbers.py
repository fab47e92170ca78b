"""A job in numbers, from the index: as the report reads it from the files, in a hundredth of the time."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from evals.categories import Category
from evals.report.attempts import Attempt, Job
from evals.run import planned_of, run_of_summary
from evals.scorecard import By, Row, scorecard
from evals.view.index import LiveIndex
from evals.view.links import term
from harness.failures import Outcome
from harness.job.progress import summary_of
from harness.job.summary import Finished
from harness.records import Behaviour
from harness.store.layout import JobPaths

_KEPT = 12
"""Jobs whose numbers are remembered: some megabytes each, for 20,000 trials."""

_FINISHED = {
    "name": "trial",
    "task_name": "task",
    "attempt": "attempt",
    "retry": "retry",
    "outcome": "outcome",
    "reward": "reward",
    "tag": "failure_tag",
    "category": "failure_category",
    "exception": "exception",
    "categories": "categories",
    "seconds": "seconds",
    "tokens_in": "input_tokens",
    "tokens_cached": "cached_tokens",
    "tokens_out": "output_tokens",
    "cost": "cost_usd",
    "digest": "digest",
    "difficulty": "difficulty",
    "task_tags": "tags",
    "agent": "agent",
    "model": "model",
}
"""The columns of the index that hold the fields of `Finished`."""

_PHASES = {"environment": "environment_seconds", "agent": "agent_seconds", "verifier": "verifier_seconds"}
_WORDS = {name: name.replace("_", " ") for name in Behaviour.model_fields}
"""As `evals.report.attempts` spells them."""


class Numbers:
    """The jobs that were asked for, until they change. May be used from several threads."""

    def __init__(self, index: LiveIndex, folder: Path, categories: Mapping[str, Category]) -> None:
        self._index = index
        self._folder = folder
        self._categories = categories
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, bool], tuple[object, Job]] = OrderedDict()
        self._rows: dict[str, tuple[object, tuple[int, Row]]] = {}

    def job(self, name: str, *, behaviour: bool = False) -> Job:
        """A job, with what its agents did where that is asked for. Raises IndexTrouble."""
        state = self._state(name)
        key = (name, behaviour)
        with self._lock:  # also so that one who asks twice waits for the first answer
            known = self._known.get(key)
            if known is None or known[0] != state:
                self._known[key] = known = (state, self._read(name, behaviour=behaviour))
            self._known.move_to_end(key)
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
            return known[1]

    def row(self, name: str) -> tuple[int, Row]:
        """How many of a job's attempts ended, and all of them in one row; remembered for every job. As `job` raises."""
        state = self._state(name)
        known = self._rows.get(name)
        if known is None or known[0] != state:
            job = self.job(name)
            self._rows[name] = known = (state, (len(job.summary.last), job.card.all))
        return known[1]

    def _state(self, name: str) -> object:
        return self._index.store.state(term("job", name)), _stamp(JobPaths(self._folder / name).result)

    def _read(self, name: str, *, behaviour: bool) -> Job:
        paths = JobPaths(self._folder / name)
        told = (*_PHASES.values(), *_WORDS) if behaviour else ()
        rows = self._index.store.columns(term("job", name), (*_FINISHED.values(), *told))
        attempts = [_attempt(paths.root, row) for row in rows]
        summary = summary_of(paths, (each.finished for each in attempts))
        return Job(
            name=name,
            folder=paths.root,
            run=run_of_summary(summary, label=name, planned=planned_of(paths)),
            summary=summary,
            card=scorecard(summary, By.CATEGORY, self._categories),
            attempts=tuple(attempts),
        )


def _stamp(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _attempt(job: Path, row: tuple[Any, ...]) -> Attempt:
    """What the sections about all trials need of one; what only its own page tells is left out, its folder too."""
    told = row[len(_FINISHED) :]
    return Attempt(
        folder=job,
        finished=_finished(dict(zip(_FINISHED, row, strict=False))),
        parts=(None,),
        verifications=(None,),
        failure=None,
        exception=None,
        sandbox=None,
        user=None,
        phases=_known(zip(_PHASES, told[: len(_PHASES)], strict=True)) if told else {},
        behaviour=_known(zip(_WORDS.values(), told[len(_PHASES) :], strict=True)) if told else {},
    )


def _known(values: Iterable[tuple[str, Any]]) -> dict[str, float]:
    return {name: float(value) for name, value in values if value is not None}


def _finished(fields: dict[str, Any]) -> Finished:
    fields["outcome"] = Outcome(fields["outcome"])
    fields["digest"] = fields["digest"].removeprefix("sha256:")
    for name in ("categories", "task_tags"):
        fields[name] = tuple(fields[name])
    return Finished(**fields, source=None, rewards=None)

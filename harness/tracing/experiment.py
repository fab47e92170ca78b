"""A job on LangSmith's page of comparisons: a dataset of its tasks, and an experiment of its own on that dataset.

Both are found by name before they are made, and an example's id follows from its task's content: doing it again
changes nothing, and an edited task is a new example.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.job.config import LockedTask
from harness.task.loader import load_task
from harness.task.model import Task
from harness.tracing.content import Content
from harness.tracing.job import JobFacts

if TYPE_CHECKING:
    from langsmith import Client

_NAMESPACE = uuid.UUID("6d2f1a52-6a0f-5a3e-9d55-0c9b8f5c9b1e")
_PAGE = 100


def experiment_name(job: JobFacts, project: str | None) -> str:
    """The experiment's name; `project` goes before it."""
    return f"{project}/{job.experiment}" if project else job.experiment


def example_id(dataset: str, task: LockedTask) -> uuid.UUID:
    """The id of a task's example in a dataset."""
    return uuid.uuid5(_NAMESPACE, f"{dataset}/{task.name}/{task.digest}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """Where a job's traces go. `examples` has the ids of its tasks' examples, by the task's name."""

    id: uuid.UUID
    name: str
    examples: dict[str, uuid.UUID]


def open_experiment(client: Client, job: JobFacts, project: str | None, content: Content) -> Experiment:
    """Find or make the dataset, its examples, and the experiment. Raises what the SDK raises."""
    name = experiment_name(job, project)
    dataset_id, examples = None, {}
    if job.tasks:
        dataset = f"harness/{job.dataset}"
        dataset_id = _dataset(client, dataset)
        examples = {task.name: example_id(dataset, task) for task in job.tasks}
        _add_missing(client, dataset_id, job.tasks, examples, content)
    with contextlib.suppress(_not_found()):
        return Experiment(id=client.read_project(project_name=name).id, name=name, examples=examples)
    made = client.create_project(
        name,
        upsert=True,
        reference_dataset_id=dataset_id,
        num_examples=len(job.tasks) or None,
        num_repetitions=job.n_attempts,
        metadata=_known(
            job=job.name, job_id=job.job_id, agent=job.agent, model=job.model, backend=job.backend, dataset=job.dataset
        ),
    )
    return Experiment(id=made.id, name=name, examples=examples)


def close_experiment(client: Client, experiment: Experiment, end: datetime) -> None:
    """Say that nothing more comes. Raises what the SDK raises."""
    client.update_project(experiment.id, end_time=end)


def _not_found() -> type[Exception]:
    from langsmith.utils import LangSmithNotFoundError

    return LangSmithNotFoundError


def _dataset(client: Client, name: str) -> uuid.UUID:
    with contextlib.suppress(_not_found()):
        return uuid.UUID(str(client.read_dataset(dataset_name=name).id))
    # The SDK would describe this machine under `runtime`.
    made = client.create_dataset(name, description="Tasks, as harness runs them.", metadata={"runtime": {}})
    return uuid.UUID(str(made.id))


def _add_missing(
    client: Client,
    dataset_id: uuid.UUID,
    tasks: Sequence[LockedTask],
    examples: dict[str, uuid.UUID],
    content: Content,
) -> None:
    for page in _pages(tasks):
        wanted = [examples[task.name] for task in page]
        there = {each.id for each in client.list_examples(dataset_id=dataset_id, example_ids=wanted)}
        missing = [_example(task, examples[task.name], content) for task in page if examples[task.name] not in there]
        if missing:
            client.create_examples(dataset_id=dataset_id, examples=missing)


def _example(task: LockedTask, id_: uuid.UUID, content: Content) -> dict[str, Any]:
    loaded = load_task(Path(task.path))
    inputs: dict[str, Any] = {"task": task.name}
    metadata: dict[str, Any] = {"task": task.name, "digest": task.digest}
    if isinstance(loaded, Task) and loaded.digest == task.digest:
        if content.inputs:
            inputs["instruction"] = content.text("\n\n".join(step.instruction for step in loaded.steps))
        metadata |= _known(categories=list(loaded.categories) or None, difficulty=loaded.difficulty)
    return {"id": id_, "inputs": inputs, "metadata": metadata}


def _known(**facts: Any) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if value is not None}


def _pages(tasks: Sequence[LockedTask]) -> Iterator[Sequence[LockedTask]]:
    # As many at a time as one question may name.
    for start in range(0, len(tasks), _PAGE):
        yield tasks[start : start + _PAGE]

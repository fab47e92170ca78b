"""A job whose attempts are decided while it runs: a trainer's, which samples what its policy needs next.

It leaves the same folder as any other job. What was run to its end is never run again: asked for once more, after a
crash say, an attempt is read back from its record.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

from backends.errors import SandboxError
from backends.lifecycle import JOB, reap
from backends.protocol import SandboxProvider
from harness.errors import UsageError
from harness.job.config import JobConfig, JobLock, load_job
from harness.job.plan import FINAL
from harness.job.progress import summarise
from harness.job.runner import (
    Book,
    JobOutcome,
    Prepared,
    close_parts,
    concurrency_of,
    context_of,
    create_folder,
    fan_out,
    prepare,
    provider_of,
    require_ready,
)
from harness.job.scheduler import RetryRule
from harness.job.summary import JobSummary
from harness.job.trial_log import TrialLog
from harness.records import TrialResult, now
from harness.store.files import remove_drafts
from harness.store.held import held
from harness.store.layout import JobPaths
from harness.store.reader import load_result
from harness.trial.events import Emit, Event, TrialFinished, TrialRetried
from harness.trial.runner import run_trial
from harness.trial.spec import TrialContext, TrialSpec


class OpenJob:
    """See the module; made by `open_job`."""

    def __init__(self, prepared: Prepared, context: TrialContext, book: Book) -> None:
        config, tasks = prepared.config, prepared.tasks
        self._tasks = {task.name: task for task in tasks}
        self._context, self._book = context, book
        self._retry = RetryRule(max_retries=config.max_retries, base_sec=config.retry_base_sec)
        self._slots = asyncio.Semaphore(concurrency_of(config, context.provider, tasks))
        self._summary = book.outcome.summary
        self._asked = {(each.task_name, each.attempt) for each in self._summary.last.values()}

    async def run(self, task: str, attempt: int, *, group: str | None = None) -> TrialResult:
        """One attempt's last record: run now, with the repetitions that the failure table grants, or read back.

        `group`: see `TrialSpec`. Cancelling ends the trial and records it; the cancellation's message says why.
        """
        spec = TrialSpec(task=self._tasks[task], attempt=attempt, group=group)
        self._asked.add((task, attempt))
        self._summary.n_total = len(self._asked)
        spec, recorded = self._recorded(spec)
        if recorded is not None:
            return recorded
        first = spec.retry
        while True:
            async with self._slots:
                result = await self._execute(spec)
            delay = self._retry.delay(result, spec.retry - first)
            if delay is None:
                return result
            self._context.emit(TrialRetried(result, delay))
            await asyncio.sleep(delay)
            spec = replace(spec, retry=spec.retry + 1, before=result.failure.tag if result.failure else None)

    async def room(self) -> None:
        """Wait until an attempt would start at once."""
        async with self._slots:  # handed out in turn: whoever waited before has one
            pass

    async def _execute(self, spec: TrialSpec) -> TrialResult:
        self._book.running += 1
        try:
            return await run_trial(spec, self._context)
        finally:
            self._book.running -= 1
            self._book.save_sometimes()

    def _recorded(self, spec: TrialSpec) -> tuple[TrialSpec, TrialResult | None]:
        """The first execution that has no folder yet; or the record of one that came to an end."""
        while (folder := self._context.trial(spec)).root.exists():
            with suppress(OSError, ValueError):
                result = load_result(folder.result)
                if result.outcome in FINAL:
                    return spec, result
            spec = replace(spec, retry=spec.retry + 1)
        return spec, None


@asynccontextmanager
async def open_job(
    config: JobConfig,
    paths: JobPaths,
    *,
    subscribers: Sequence[Emit] = (),
    provider: SandboxProvider | None = None,
    host_env: Mapping[str, str] | None = None,
) -> AsyncIterator[OpenJob]:
    """Open the job in this folder, or a new one. On the way out, what still runs must have been awaited or cancelled.

    Raises UsageError like `run_job`, and where an existing folder is of another agent, backend or set of tasks.
    """
    provider = provider or provider_of(config)
    try:
        prepared = _prepared(config, paths)
        sandboxes = await require_ready(provider, config)
        if not paths.lock.exists():
            create_folder(paths, prepared)
        with held(paths):
            remove_drafts(paths.root)
            summary = summarise(paths, pass_mark=config.pass_mark)[0]
            outcome = JobOutcome(paths=paths, summary=summary, sandboxes=sandboxes)
            with suppress(SandboxError, OSError):
                await reap(provider)
                await reap(provider, {JOB: prepared.lock.job_id}, min_age_sec=0)
            async with _opened(prepared, outcome, provider, subscribers, host_env) as job:
                yield job
    finally:
        await provider.close()


def _prepared(config: JobConfig, paths: JobPaths) -> Prepared:
    if not paths.lock.exists():
        return prepare(config, str(uuid.uuid4()))
    _, lock = load_job(paths)
    prepared = prepare(config, lock.job_id)
    if differences := _without_address(lock).differences(_without_address(prepared.lock)):
        raise UsageError(f"{paths.root} was begun on something else ({'; '.join(differences[:5])}): start a new one")
    return replace(prepared, lock=lock)


def _without_address(lock: JobLock) -> JobLock:
    """Where the model is served may change: a policy's server gets another port whenever it starts."""
    kept = {key: value for key, value in lock.agent.items() if key not in ("base_url", "upstreams")}
    return lock.model_copy(update={"agent": kept})


@asynccontextmanager
async def _opened(
    prepared: Prepared,
    outcome: JobOutcome,
    provider: SandboxProvider,
    subscribers: Sequence[Emit],
    host_env: Mapping[str, str] | None,
) -> AsyncIterator[OpenJob]:
    log = TrialLog(outcome.paths)
    summary: JobSummary = outcome.summary

    def count(event: Event) -> None:
        if isinstance(event, TrialFinished):
            summary.add(event.result)

    book = Book(outcome.paths, outcome, prepared)
    context = context_of(prepared, outcome.paths, provider, fan_out([count, *subscribers, log]), host_env)
    try:
        book.save(durable=True)
        yield OpenJob(prepared, context, book)
    finally:
        await close_parts(prepared, context, log)
        with suppress(OSError):
            book.save(durable=True, finished_at=now())

"""Running a job: resolve, plan, run, sum up. `run_job` starts one, `resume_job` finishes one."""

from __future__ import annotations

import asyncio
import os
import shutil
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import harness
from backends.errors import SandboxError
from backends.lifecycle import JOB, reap
from backends.protocol import SandboxProvider
from backends.registry import BUILT_IN, create_provider
from harness.agents.protocol import Agent
from harness.agents.registry import agent_config, create_agent, create_model
from harness.agents.speaker import ModelSpeaker
from harness.agents.user import Speaker
from harness.errors import UsageError
from harness.failures import HOST_DISK_FULL
from harness.job.config import JobConfig, JobLock, config_document, load_job, locked_tasks
from harness.job.early import Decision, EarlyStop, StopRule, in_random_order, load_rule
from harness.job.plan import Execution, owed, plan
from harness.job.progress import job_result, recorded_decision, write_job_result
from harness.job.scheduler import RetryRule, Scheduler, Stopping
from harness.job.summary import Finished, JobSummary
from harness.job.trial_log import TrialLog
from harness.llm.protocol import ChatModel
from harness.records import TrialResult, now
from harness.store.files import remove_drafts, to_json, write_atomic
from harness.store.held import held
from harness.store.layout import JobPaths
from harness.store.reader import read_results
from harness.task.dataset import load_dataset
from harness.task.model import BrokenTask, Task
from harness.trial.events import Emit, Event, StoppedEarly, TrialFinished, TrialRetried
from harness.trial.runner import run_trial
from harness.trial.spec import TrialContext, TrialSpec

_SAVE_EVERY_SEC = 2.0


@dataclass(slots=True, kw_only=True)
class JobOutcome:
    """How a job ended: its numbers, what was cut short, and what was found on the way.

    `decision` is that of the job's stop rule, which then ended it.
    """

    paths: JobPaths
    summary: JobSummary
    sandboxes: str = ""
    seconds: float = 0.0
    stopped: Stopping = Stopping.NO
    decision: Decision | None = None
    disk_full: bool = False
    reaped: int = 0
    findings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningJob:
    """What whoever started a job is handed at its start: its live numbers, and the function that stops it."""

    paths: JobPaths
    summary: JobSummary
    n_owed: int
    sandboxes: str
    stop: Callable[[Stopping], None]


OnStart = Callable[[RunningJob], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """Everything that is known before the first trial starts."""

    config: JobConfig
    tasks: Sequence[Task | BrokenTask]
    agent: Agent
    user_model: ChatModel | None
    lock: JobLock


async def run_job(
    config: JobConfig,
    paths: JobPaths,
    *,
    subscribers: Sequence[Emit] = (),
    on_start: OnStart = lambda job: None,
    provider: SandboxProvider | None = None,
    host_env: Mapping[str, str] | None = None,
    stop_rule: StopRule | None = None,
) -> JobOutcome:
    """Run a new job in a folder of its own. `on_start` is handed the running job.

    `stop_rule` replaces the installed one, for a job that has `sequential`.

    Raises UsageError before anything is created: unknown names, an empty selection, a folder that exists, a backend
    that does not work here.
    """
    stop_rule = _stop_rule(config, stop_rule)
    provider = provider or provider_of(config)
    try:
        prepared = prepare(config, str(uuid.uuid4()))
        sandboxes = await require_ready(provider, config)
        create_folder(paths, prepared)
        with held(paths):
            specs = plan(prepared.tasks, config.n_attempts)
            outcome = JobOutcome(paths=paths, summary=JobSummary(n_total=len(specs), pass_mark=config.pass_mark))
            early = EarlyStop(stop_rule, specs, outcome.summary) if stop_rule else None
            outcome.sandboxes = sandboxes
            with suppress(SandboxError, OSError):
                outcome.reaped = len(await reap(provider))
            await _run(prepared, paths, specs, outcome, provider, subscribers, on_start, host_env, early)
            return outcome
    finally:
        await provider.close()


async def resume_job(
    paths: JobPaths,
    *,
    n_attempts: int | None = None,
    n_concurrent: int | None = None,
    max_sandboxes: int | None = None,
    keep_errors: bool = False,
    sequential: bool = True,
    subscribers: Sequence[Emit] = (),
    on_start: OnStart = lambda job: None,
    provider: SandboxProvider | None = None,
    host_env: Mapping[str, str] | None = None,
    stop_rule: StopRule | None = None,
) -> JobOutcome:
    """Run exactly what a job still owes, and reap the sandboxes that its killed runs left behind.

    A job that its stop rule ended owes nothing, unless `sequential` is False: then all of it is run.

    Raises UsageError if the folder is no job, is being run right now, or if what it was run on has changed.
    """
    config, lock = load_job(paths)
    if n_attempts is not None and n_attempts < config.n_attempts:
        raise UsageError(
            f"the job has {config.n_attempts} attempts per task already; --n-attempts can only add to that"
        )
    config = config.model_copy(
        update={
            "n_attempts": n_attempts or config.n_attempts,
            "n_concurrent": n_concurrent or config.n_concurrent,
            "max_sandboxes": max_sandboxes or config.max_sandboxes,
        }
    )
    stop_rule = _stop_rule(config, stop_rule) if sequential else None
    provider = provider or provider_of(config)
    try:
        with held(paths):
            prepared = prepare(config, lock.job_id)
            differences = lock.differences(prepared.lock)
            if differences:
                shown = "; ".join(differences[:5]) + (
                    f"; and {len(differences) - 5} more" if len(differences) > 5 else ""
                )
                raise UsageError(
                    f"{paths.root.name} can not be resumed, what it ran on has changed ({shown}): start a new job"
                )
            specs = plan(prepared.tasks, config.n_attempts)
            outcome = JobOutcome(paths=paths, summary=JobSummary(n_total=len(specs), pass_mark=config.pass_mark))
            remaining = owed(specs, _scan(paths, specs, outcome), keep_errors=keep_errors)
            early = EarlyStop(stop_rule, specs, outcome.summary) if stop_rule else None
            outcome.decision = _decided(paths, early, specs, remaining)
            if outcome.decision:
                outcome.summary.decided = str(outcome.decision)
                remaining = []
            if remaining:
                outcome.sandboxes = await require_ready(provider, config)
                outcome.reaped = len(await reap(provider, {JOB: lock.job_id}, min_age_sec=0))
            prepared = replace(prepared, lock=lock)
            if n_attempts:
                _write_config(paths, config, paths)
            await _run(prepared, paths, remaining, outcome, provider, subscribers, on_start, host_env, early)
            return outcome
    finally:
        await provider.close()


def _stop_rule(config: JobConfig, given: StopRule | None) -> StopRule | None:
    if config.sequential is None:
        return None
    return given or load_rule(config.sequential, config.alpha)


def _decided(
    paths: JobPaths, early: EarlyStop | None, specs: Sequence[TrialSpec], remaining: Sequence[TrialSpec]
) -> Decision | None:
    """What was decided when the job ran, or would have been had it not been killed."""
    if early is None:
        return None
    owed_still = {(spec.task.name, spec.attempt) for spec in remaining}
    for spec in specs:
        if (spec.task.name, spec.attempt) not in owed_still:
            early.settle(spec.task.name, spec.attempt)
    return recorded_decision(paths) or early.decision


def tasks_of(config: JobConfig) -> list[Task | BrokenTask]:
    """The tasks that a job is asked for. Raises UsageError where there are none."""
    return load_dataset(
        config.dataset,
        include=config.include,
        exclude=config.exclude,
        categories=config.categories,
        n=config.n_tasks,
        seed=config.seed if config.shuffle else None,
    )


def prepare(config: JobConfig, job_id: str) -> Prepared:
    """Find the tasks and make the agent. Raises UsageError for what is not there."""
    tasks = tasks_of(config)
    if config.sequential is not None:
        tasks = in_random_order(tasks, config.seed)
    config_path = Path(config.config_file) if config.config_file else None
    agent = create_agent(config.agent, model=config.model, config=config_path, options=config.options)
    user_model = create_model(config.user, config=config_path) if config.user else None
    lock = JobLock(
        created_at=now(),
        job_id=job_id,
        harness_version=harness.__version__,
        agent=agent_config(config.agent, model=config.model, config=config_path, options=config.options),
        model_name=agent.model_name,
        user=agent_config(config.user, config=config_path) if config.user else None,
        backend=config.backend,
        seed=config.seed,
        pass_mark=config.pass_mark,
        n_concurrent_trials=config.n_concurrent,
        retry={"max_retries": config.max_retries},
        tasks=locked_tasks(tasks),
    )
    return Prepared(config=config, tasks=tasks, agent=agent, user_model=user_model, lock=lock)


def _speaker(model: ChatModel | None, seed: int) -> Callable[[TrialSpec], Speaker] | None:
    """What speaks for the simulated user of an execution."""
    if model is None:
        return None
    return lambda spec: ModelSpeaker(model, task_name=spec.task.name, seed=spec.seed(seed))


def provider_of(config: JobConfig) -> SandboxProvider:
    """The backend that the config names. Raises UsageError."""
    if config.max_sandboxes is None:
        return create_provider(config.backend)
    row = BUILT_IN.get(config.backend)
    if row is not None and not row.bounded:
        raise UsageError(f"the {config.backend} backend takes no --max-sandboxes; --n-concurrent bounds its trials")
    return create_provider(config.backend, max_sandboxes=config.max_sandboxes)


def concurrency_of(config: JobConfig, provider: SandboxProvider, tasks: Sequence[Task | BrokenTask]) -> int:
    """Trials at a time, so that none of them waits for a sandbox that others hold while its own clock runs."""
    most = provider.capabilities.max_sandboxes
    if most is None:
        return config.n_concurrent
    steps = [step for task in tasks if isinstance(task, Task) for step in task.steps]
    each = 2 if any(step.verifier_environment is not None for step in steps) else 1
    if most < each:
        raise UsageError(f"some tasks are verified in a sandbox of their own: they need --max-sandboxes {each} or more")
    return min(config.n_concurrent, most // each)


async def require_ready(provider: SandboxProvider, config: JobConfig) -> str:
    """Say in a few words what the backend is and how well it isolates. Raises UsageError where it does not work."""
    readiness = await provider.check()
    if not readiness.works and not (config.backend == "local" and config.allow_unsafe_local):
        fix = f": {readiness.fix}" if readiness.fix else ""
        raise UsageError(f"the {config.backend} backend does not work here ({readiness.detail}){fix}")
    return f"{config.backend}, isolation: {readiness.isolation} ({readiness.detail})"


def create_folder(paths: JobPaths, prepared: Prepared) -> None:
    """Make the job's folder whole or not at all: one without its lock could be neither run nor resumed."""
    draft = JobPaths(paths.root.with_name(f".{paths.root.name}.{os.getpid()}.tmp"))
    try:
        draft.root.mkdir(parents=True)
        _write_config(draft, prepared.config, paths)
        write_atomic(draft.lock, prepared.lock.model_dump_json(indent=2) + "\n")
        if os.path.lexists(paths.root):
            raise FileExistsError
        draft.root.rename(paths.root)  # fails where another run was faster
    except OSError as error:
        shutil.rmtree(draft.root, ignore_errors=True)
        if os.path.lexists(paths.root):
            raise UsageError(
                f"{paths.root} exists: choose another --name, or finish it with: harness resume {paths.root}"
            ) from None
        raise UsageError(f"{paths.root} can not be made: {error.strerror}") from None


def _write_config(paths: JobPaths, config: JobConfig, named: JobPaths) -> None:
    """Write the config below `paths`, of a job that is or will be at `named`."""
    write_atomic(paths.config, to_json(config_document(config, named.root.name, str(named.root.parent))))


def _scan(paths: JobPaths, specs: Sequence[TrialSpec], outcome: JobOutcome) -> list[Execution]:
    """What every folder says of its execution; finished ones are counted into the summary."""
    executions = []
    remove_drafts(paths.root)
    folders: dict[str, tuple[str, int]] = {}
    for spec in specs:
        folders[spec.name] = (spec.task.name, spec.attempt)
    for name, result, problem in read_results(paths):
        if result is not None:
            executions.append(Execution(result.task_name, result.attempt, result.retry, result.outcome))
            outcome.summary.add(Finished.of(result))
            continue
        first, _, retry = name.rpartition("r") if name not in folders else (name, "", "0")
        if first in folders and retry.isdigit():
            executions.append(Execution(*folders[first], int(retry), None))
            outcome.findings.append(f"{name}: {problem}; the attempt is run again")
            remove_drafts(paths.trial(name).root)
    return executions


async def _run(
    prepared: Prepared,
    paths: JobPaths,
    specs: Sequence[TrialSpec],
    outcome: JobOutcome,
    provider: SandboxProvider,
    subscribers: Sequence[Emit],
    on_start: OnStart,
    host_env: Mapping[str, str] | None,
    early: EarlyStop | None,
) -> None:
    """Run the given executions, or as many as it takes to decide, and keep the job's own record up to date."""
    config, summary = prepared.config, outcome.summary
    log = TrialLog(paths)

    def count(event: Event) -> None:
        if isinstance(event, TrialFinished):  # a cancelled one, too, of which run_trial returns nothing
            summary.add(event.result)

    emit = fan_out([count, *subscribers, log])
    book = Book(paths, outcome, prepared)
    context = context_of(prepared, paths, provider, emit, host_env)

    async def run_one(spec: TrialSpec) -> TrialResult:
        book.running += 1
        try:
            return await run_trial(spec, context)
        finally:
            book.running -= 1
            book.save_sometimes()

    def ends_it(result: TrialResult) -> bool:
        if early is not None and outcome.decision is None:
            outcome.decision = early.settle(result.task_name, result.attempt)
            if outcome.decision is not None:
                outcome.summary.decided = str(outcome.decision)
                emit(StoppedEarly(str(outcome.decision)))
                with suppress(OSError):
                    book.save(durable=True)
        return outcome.decision is not None or (result.failure is not None and result.failure.tag == HOST_DISK_FULL.tag)

    scheduler = Scheduler(
        run_one,
        concurrency=concurrency_of(config, provider, prepared.tasks),
        retry=RetryRule(max_retries=config.max_retries, base_sec=config.retry_base_sec),
        on_retry=lambda result, delay: emit(TrialRetried(result, delay)),
        stop_on=ends_it,
    )
    loop = asyncio.get_running_loop()
    started = loop.time()
    try:
        on_start(
            RunningJob(
                paths=paths, summary=summary, n_owed=len(specs), sandboxes=outcome.sandboxes, stop=scheduler.stop
            )
        )
        book.save(durable=True)
        await scheduler.run(specs)
    except OSError as error:
        outcome.disk_full = True
        outcome.findings.append(f"the record could not be written: {error.strerror}; what is missing is still owed")
    finally:
        await close_parts(prepared, context, log)
        outcome.seconds = loop.time() - started
        outcome.stopped = scheduler.stopping
        outcome.disk_full |= any(finished.tag == HOST_DISK_FULL.tag for finished in summary.last.values())
        with suppress(OSError):
            book.save(durable=True, finished_at=now())


def context_of(
    prepared: Prepared, paths: JobPaths, provider: SandboxProvider, emit: Emit, host_env: Mapping[str, str] | None
) -> TrialContext:
    """What all trials of a job share."""
    config = prepared.config
    return TrialContext(
        provider=provider,
        agent=prepared.agent,
        paths=paths,
        job_id=prepared.lock.job_id,
        emit=emit,
        agent_config=prepared.lock.agent,
        host_env=dict(os.environ) if host_env is None else host_env,
        agent_timeout=config.agent_timeout,
        timeout_multiplier=config.timeout_multiplier,
        pass_mark=config.pass_mark,
        seed=config.seed,
        allow_unsafe=config.allow_unsafe_local,
        policy_version=config.policy_version,
        speaker=_speaker(prepared.user_model, config.seed),
    )


async def close_parts(prepared: Prepared, context: TrialContext, log: TrialLog) -> None:
    """Close what all trials of a job shared, once none runs any more."""
    await prepared.agent.close()
    if prepared.user_model is not None:
        await prepared.user_model.close()
    log.close()
    context.scratch.remove()


class Book:
    """The job's `result.json`, rewritten now and then while the job runs, and at its end."""

    def __init__(self, paths: JobPaths, outcome: JobOutcome, prepared: Prepared) -> None:
        self.paths = paths
        self.outcome = outcome
        self.lock = prepared.lock
        parts = [prepared.agent.name, prepared.agent.model_name, Path(prepared.config.dataset).name or "adhoc"]
        self.evals_key = "__".join(part for part in parts if part)
        self.running = 0
        self._saved_at = 0.0

    def save_sometimes(self) -> None:
        """Save if the last time is long enough ago, so that the cost does not grow with the number of trials."""
        clock = asyncio.get_running_loop().time()
        if clock - self._saved_at >= max(_SAVE_EVERY_SEC, len(self.outcome.summary.last) / 250):
            with suppress(OSError):
                self.save(durable=False)

    def save(self, *, durable: bool, finished_at: datetime | None = None) -> None:
        self._saved_at = asyncio.get_running_loop().time()
        document: dict[str, Any] = job_result(
            self.outcome.summary,
            job_id=self.lock.job_id,
            started_at=self.lock.created_at,
            finished_at=finished_at,
            evals_key=self.evals_key,
            running=self.running,
            decision=self.outcome.decision,
        )
        write_job_result(self.paths, document, durable=durable)


def fan_out(subscribers: Sequence[Emit]) -> Emit:
    """One function that tells everybody; a subscriber that fails is not asked again and never disturbs a trial."""
    listening = list(subscribers)

    def emit(event: Event) -> None:
        for subscriber in list(listening):
            try:
                subscriber(event)
            except Exception:  # noqa: BLE001 – a listener's trouble is not the trial's
                listening.remove(subscriber)

    return emit

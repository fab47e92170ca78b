"""Attempts as real trials of the harness: in the loop's own job, and in one for each evaluation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from backends.protocol import SandboxProvider
from harness.export.rows import reward_of
from harness.job.config import JobConfig
from harness.job.open import OpenJob
from harness.job.runner import JobOutcome, resume_job, run_job
from harness.store.layout import JobPaths
from trainer.online.config import LoopConfig
from trainer.online.folder import LoopFolder
from trainer.online.parts import Attempt


class HarnessRollouts:
    """Attempts in a job that is open."""

    def __init__(self, job: OpenJob) -> None:
        self._job = job

    async def attempt(self, task: str, number: int, *, group: str) -> Attempt:
        """See `Rollouts`."""
        result = await self._job.run(task, number, group=group)
        return Attempt(number=number, trial=result.trial_name, reward=reward_of(result)[0])

    async def room(self) -> None:
        """See `Rollouts`."""
        await self._job.room()


class HeldOut:
    """Success on the held-out tasks, measured once for each version."""

    def __init__(
        self,
        config: LoopConfig,
        folder: LoopFolder,
        options: Mapping[str, Any],
        *,
        told: Callable[[Mapping[str, Any]], None] = lambda document: None,
        provider: Callable[[], SandboxProvider | None] = lambda: None,
    ) -> None:
        """`options` are the agent's; `provider` makes another one for each evaluation, None the configured one."""
        self._config, self._folder, self._options = config, folder, options
        self._told, self._provider = told, provider

    async def measure(self, version: int) -> None:
        """Run what is owed of this version's evaluation, and report."""
        dataset = self._config.tasks.held_out
        if dataset is None or any(each["version"] == version for each in self._folder.evaluated()):
            return
        paths = JobPaths(self._folder.root / "jobs" / f"eval-{version:06}")
        evaluate = self._config.evaluate
        job = job_config(
            self._config,
            self._options,
            dataset=dataset,
            n_tasks=evaluate.n_tasks,
            n_attempts=evaluate.attempts,
            policy_version=str(version),
        )
        document = evaluation_document(version, paths, await self._run(job, paths))
        self._folder.tell_evaluation(document)
        self._told(document)

    async def _run(self, job: JobConfig, paths: JobPaths) -> JobOutcome:
        if paths.lock.exists():
            return await resume_job(paths, provider=self._provider())
        return await run_job(job, paths, provider=self._provider())


def evaluation_document(version: int, paths: JobPaths, outcome: JobOutcome) -> dict[str, Any]:
    """One line of evaluations.jsonl: the success rate with its interval, None where too little counts."""
    rate = outcome.summary.rate()
    return {
        "version": version,
        "success": rate.value,
        "interval": list(rate.interval) if rate.interval else None,
        "n": rate.n,
        "total": rate.total,
        "mean_reward": rate.mean_reward,
        "seconds": round(outcome.seconds, 3),
        "job": paths.root.name,
    }


def job_config(config: LoopConfig, options: Mapping[str, Any], *, dataset: str, **fields: Any) -> JobConfig:
    """A job of the loop's agent on these tasks."""
    sandboxes = config.sandboxes
    return JobConfig(
        dataset=dataset,
        agent=config.agent.name,
        options=dict(options),
        config_file=config.agent.config_file,
        backend=sandboxes.backend,
        n_concurrent=sandboxes.concurrent,
        max_sandboxes=sandboxes.max_sandboxes,
        max_retries=sandboxes.max_retries,
        agent_timeout=sandboxes.agent_timeout,
        allow_unsafe_local=sandboxes.allow_unsafe_local,
        pass_mark=config.training.rewards.positive,
        seed=config.seed,
        **fields,
    )

"""One execution from the first file to the last: sandbox, clean, agent, tests, verdict, record.

Whatever happens inside, a record comes out: `run_trial` raises only CancelledError, and that after recording it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from backends.errors import SandboxError, SandboxTimeout
from backends.lifecycle import JOB, OWNER, TRIAL, finish, owner_label
from backends.protocol import SandboxBackendProtocol
from backends.spec import SandboxSpec
from harness.agents.protocol import AgentResult, AgentRun, layer_of
from harness.agents.session import Session
from harness.agents.user import User
from harness.atif.writer import TrajectoryWriter
from harness.behaviour.combine import in_sequence
from harness.behaviour.meter import Meter
from harness.errors import AgentExited, TaskChanged, TaskInvalid, TaskUnsupported
from harness.failures import BY_STOP, CANCELLED, WATCHDOG, WRONG_ANSWER, AgentStop, Outcome, Verdict, verdict_of
from harness.records import (
    AgentUsage,
    Evidence,
    SandboxRecord,
    StepRecord,
    Timing,
    TrialResult,
    VerifierResult,
    now,
)
from harness.redaction import Redactor
from harness.store.files import to_json, write_atomic
from harness.store.rollout import RolloutWriter
from harness.task.digest import folder_digest
from harness.task.env import resolve_env
from harness.task.model import BrokenTask, Limit, Step, Task
from harness.task.sandbox import sandbox_spec
from harness.trial.carry import bring, take_along
from harness.trial.clean import clean
from harness.trial.collect import collect_artifacts, collect_logs, keep_verdict
from harness.trial.events import RUNNING, Phase, PhaseStarted, TrialFinished, TrialStarted
from harness.trial.healthcheck import run_setup, wait_until_healthy
from harness.trial.layer import kept_layer, put_layer
from harness.trial.limits import DeadlinePassed, bounded
from harness.trial.record import blank_result, describe_error, describe_stop, failure_of
from harness.trial.save import save_result
from harness.trial.spec import TrialContext, TrialSpec
from harness.trial.steps import combine_rewards, meets
from harness.trial.verifier import Judgement, hide_tests, verify

T = TypeVar("T")

_MAX_DROPPED, _MAX_NAME = 100, 500
_SETUP = "setup.sh"
"""A step's own script, run in the workdir after its files were copied there."""


class _Ended(Exception):
    """Carries what ended the trial, and whether the agent was running, out of the phases."""

    def __init__(self, error: BaseException, *, in_agent: bool = False) -> None:
        super().__init__(str(error))
        self.error = error
        self.in_agent = in_agent


async def run_trial(spec: TrialSpec, context: TrialContext) -> TrialResult:
    """Run one execution and record it. Raises CancelledError, after having recorded it."""
    result = blank_result(spec, context)
    paths = context.trial(spec)
    RUNNING.set(paths)
    context.emit(TrialStarted(result.trial_name, spec.task.name))
    cancelled = False
    try:
        paths.root.mkdir(parents=True)
        write_atomic(paths.config, to_json(result.config), durable=False)
        if isinstance(spec.task, BrokenTask):
            _conclude_error(result, _broken(spec.task), str)
        else:
            trial = _Trial(spec, spec.task, context, result)
            await bounded(
                trial.run(),
                what="the trial",
                timeout=_watchdog_seconds(spec.task, context),
                grace=context.limits.stop + context.limits.grace,
            )
    except asyncio.CancelledError:
        cancelled = True
        _conclude(result, CANCELLED, "stopped by the operator")
    except DeadlinePassed as passed:
        _conclude(result, WATCHDOG, str(passed))
    except Exception as error:  # noqa: BLE001 – the trial boundary: whatever happened becomes a record
        _conclude_error(result, error, str)
    result.finished_at = now()
    await save_result(result, paths)
    context.emit(TrialFinished(result))
    if cancelled:
        raise asyncio.CancelledError
    return result


def _broken(task: BrokenTask) -> Exception:
    return TaskUnsupported(task.reason) if task.unsupported else TaskInvalid(task.reason)


def _watchdog_seconds(task: Task, context: TrialContext) -> float:
    """More than all parts together may take: what fires it is something that never answers."""
    limits = context.limits
    total = context.effective(task.environment.build_timeout).value + limits.start + limits.stop + limits.margin
    layer = layer_of(context.agent)
    total += layer.timeout_sec + limits.start + limits.stop + 2 * limits.collect if layer else 0
    if task.interaction.carry is not None:
        total += len(task.steps) * (limits.start + limits.stop + limits.margin + 3 * limits.collect)
    for step in task.steps:
        total += context.effective(step.agent_timeout, context.agent_timeout).value + limits.grace
        total += 2 * context.effective(step.verifier_timeout).value + 6 * limits.helper + limits.collect
        for check in (task.environment.healthcheck, step.healthcheck):
            if check is not None:
                total += check.start_period_sec + check.retries * (check.timeout_sec + check.interval_sec)
        if step.verifier_environment is not None:
            total += step.verifier_environment.build_timeout.value + limits.start + limits.stop
    return total


class _Trial:
    """The phases of one execution; `result` is filled in as they end."""

    def __init__(self, spec: TrialSpec, task: Task, context: TrialContext, result: TrialResult) -> None:
        self.spec = spec
        self.task = task
        self.context = context
        self.result = result
        self.paths = context.trial(spec)
        self.redact: Callable[[str], str] = str
        self.rewards: list[dict[str, float] | None] = []
        self.acting = False  # from the agent's first moment until its processes are found ended
        self.session = Session(interaction=task.interaction)
        self.layer = layer_of(context.agent)
        self.kept: Path | None = None
        self.sandbox: SandboxBackendProtocol | None = None

    async def run(self) -> None:
        """All phases, top to bottom."""
        try:
            sandbox_request = self._request()
            self.phase(Phase.STARTING)
            self.result.environment_setup = Timing(started_at=now())
            await self._keep_layer(sandbox_request)
            self.sandbox = await self._start(sandbox_request)
        except Exception as error:  # noqa: BLE001 – the trial boundary
            _conclude_error(self.result, error, self.redact)
            return
        try:
            await self._in(self.sandbox, sandbox_request)
        except _Ended as ended:
            before = self.spec.before if self.acting else None
            verdict = verdict_of(ended.error, in_agent=ended.in_agent, before=before)
            self.result.exception_info = describe_error(ended.error, self.redact)
            _conclude(self.result, verdict, self.redact(str(ended.error)), _evidence(ended.error))
        finally:
            self.phase(Phase.STOPPING)
            if self.sandbox is not None:
                await finish(self.sandbox.stop(), timeout=self.context.limits.stop)

    async def _in(self, sandbox: SandboxBackendProtocol, request: SandboxSpec) -> None:
        script = self.task.interaction.user
        if script is not None:
            speaker = self.context.speaker(self.spec) if self.context.speaker else None
            self.session.user = User(script, redact=self.redact, speaker=speaker)
        self.result.limits["memory_mb"]["enforced"] = sandbox.capabilities.memory_limit
        await self._prepare(sandbox)
        verdict: Verdict | None = None
        detail = ""
        for number, step in enumerate(self.task.steps):
            if number and self.task.interaction.carry is not None:
                sandbox = await self._replace(sandbox, request, self.task.interaction.carry)
            elif number:
                await self._phase_call(hide_tests(sandbox, self.context.limits.helper), "hiding the tests")
            stop, detail, record = await self._act(sandbox, step)
            verdict = BY_STOP.get(stop)
            judgement = await self._judge(sandbox, step, record)
            self._note(step, record, judgement)
            if judgement.reward is None:
                self._without_reward(judgement, verdict, detail)
                return
            self.rewards.append(dict(judgement.reward.parts))
            if not meets(judgement.reward, step.min_reward):
                break
        self._scored(verdict, detail)

    def _request(self) -> SandboxSpec:
        """What the sandbox is to be; every template is resolved before anything is created."""
        context, task = self.context, self.task
        labels = {OWNER: owner_label(), JOB: context.job_id, TRIAL: self.spec.name}
        request = sandbox_spec(
            task.environment,
            labels=labels,
            ttl_sec=_watchdog_seconds(task, context) + context.limits.margin,
            host_env=context.host_env,
            allow_unsafe=context.allow_unsafe,
        )
        templates = [task.environment.env]
        for step in task.steps:
            templates += [step.verifier_env, step.solution_env]
            if step.verifier_environment is not None:
                templates.append(step.verifier_environment.env)
        self.redact = Redactor(secret for each in templates for secret in resolve_env(each, context.host_env).secrets)
        self.result.limits = {
            "agent_timeout_sec": _limit(context.effective(task.steps[0].agent_timeout, context.agent_timeout)),
            "verifier_timeout_sec": _limit(context.effective(task.steps[0].verifier_timeout)),
            "build_timeout_sec": _limit(context.effective(task.environment.build_timeout)),
            "cpus": {"value": request.resources.cpus, "origin": task.environment.origins.get("cpus", "default")},
            "memory_mb": {
                "value": request.resources.memory_mb,
                "origin": task.environment.origins.get("memory_mb", "default"),
            },
        }
        return replace(
            request,
            layer=self.layer if context.provider.capabilities.layers else None,
            build_timeout_sec=context.effective(task.environment.build_timeout).value,
            start_timeout_sec=context.limits.start,
        )

    async def _keep_layer(self, request: SandboxSpec) -> None:
        """Where images have no layers, the agent's is installed once in a sandbox of its own and carried from there."""
        if self.layer is None or self.context.provider.capabilities.layers:
            return
        limits = self.context.limits
        timeout = self.layer.timeout_sec + request.build_timeout_sec + limits.start + limits.stop + limits.collect
        self.kept = await self._helper(
            kept_layer(self.context.provider, request, self.layer, limits), "installing the agent", timeout
        )

    async def _start(self, request: SandboxSpec) -> SandboxBackendProtocol:
        timeout = request.build_timeout_sec + request.start_timeout_sec + self.context.limits.margin / 2
        timeout += request.layer.timeout_sec if request.layer else 0
        return await self._helper(self.context.provider.start(request), "starting the sandbox", timeout)

    async def _replace(
        self, old: SandboxBackendProtocol, request: SandboxSpec, places: Sequence[str]
    ) -> SandboxBackendProtocol:
        """A new sandbox for the next step, which has of the old one what the task lets go along. The old one ends."""
        limits = self.context.limits
        with self.context.scratch.folder() as folder:
            try:
                taken = await self._helper(take_along(old, places, folder), "taking along", limits.collect)
                self._drop(taken)
                await finish(old.stop(), timeout=limits.stop)
                self.phase(Phase.STARTING)
                self.sandbox = None
                self.sandbox = new = await self._start(request)
                await self._prepare(new)
                bringing = bring(new, places, folder, timeout=limits.helper)
                await self._helper(bringing, "bringing what goes along", limits.collect)
            except Exception as error:
                raise error if isinstance(error, _Ended) else _Ended(error) from error
        return new

    async def _prepare(self, sandbox: SandboxBackendProtocol) -> None:
        self.phase(Phase.PREPARING)
        self.result.sandbox = SandboxRecord(
            backend=sandbox.backend, isolation=sandbox.capabilities.isolation, id=sandbox.id
        )
        try:
            if self.task.environment.healthcheck is not None:
                await wait_until_healthy(sandbox, self.task.environment.healthcheck, user=self.task.steps[0].agent_user)
            root = "root" if sandbox.capabilities.users else None
            helper = self.context.limits.helper
            if self.kept is not None:
                unpacking = put_layer(sandbox, self.kept, timeout=self.context.limits.collect)
                await self._helper(unpacking, "unpacking the agent", self.context.limits.collect)
            cleaning = clean(sandbox, self.task, user=root, timeout=helper)
            self.result.cleaned = await self._helper(cleaning, "cleaning the sandbox", helper)
        except Exception as error:
            raise _Ended(error) from error
        if self.result.environment_setup is not None and self.result.environment_setup.finished_at is None:
            self.result.environment_setup.finished_at = now()

    async def _act(self, sandbox: SandboxBackendProtocol, step: Step) -> tuple[AgentStop, str, StepRecord]:
        """Let the agent act, then leave none of its processes alive."""
        self.phase(Phase.AGENT, step)
        record = StepRecord(step_name=step.name or "", agent_execution=Timing(started_at=now()))
        limit = self.context.effective(step.agent_timeout, self.context.agent_timeout).value
        logs_dir = self.paths.agent(step.name)
        logs_dir.mkdir(parents=True, exist_ok=True)
        agent = self.context.agent
        meter = Meter()
        trajectory = TrajectoryWriter(
            self.paths.trajectory(step.name),
            session_id=f"{self.context.job_id}/{self.spec.name}" + (f"/{step.name}" if step.name else ""),
            agent_name=agent.name,
            agent_version=agent.version,
            model_name=agent.model_name,
            redact=self.redact,
            watcher=meter,
        )
        rollout = RolloutWriter(self.paths.rollout(step.name))
        run = AgentRun(
            task_name=self.task.name,
            step=step,
            sandbox=sandbox,
            trajectory=trajectory,
            rollout=rollout,
            logs_dir=logs_dir,
            timeout_sec=limit,
            seed=self.spec.seed(self.context.seed),
            redact=self.redact,
            session=self.session,
        )
        result = AgentResult()
        try:
            await self._before_step(sandbox, step)
            self.acting = True
            result = await self._run_agent(run)
        finally:
            trajectory.close()
            rollout.close()
            self.result.user = self.session.record()
            record.agent_result = AgentUsage.of(trajectory.usage, result.metadata, sampled_calls=rollout.with_tokens)
            record.behaviour = meter.result()
            record.stop = result.stop.value
            if record.agent_execution is not None:
                record.agent_execution.finished_at = now()
            self._keep_agent_part(step, record)
        record.exception_info = describe_stop(result.stop, result.detail)
        await self._phase_call(sandbox.kill_processes(), "ending the agent's processes")
        self.acting = False
        return result.stop, result.detail or "", record

    async def _before_step(self, sandbox: SandboxBackendProtocol, step: Step) -> None:
        """The step's own files, its set-up script and its health check."""
        helper = self.context.limits.helper
        if step.files_dir is not None:
            await self._phase_call(sandbox.upload(step.files_dir, sandbox.workdir), "uploading the step's files")
            if step.name is not None and (step.files_dir / _SETUP).is_file():
                setup = run_setup(sandbox, _SETUP, user=step.agent_user, timeout=helper)
                await self._phase_call(setup, "the step's set-up")
        if step.healthcheck is not None:
            try:
                await wait_until_healthy(sandbox, step.healthcheck, user=step.agent_user)
            except Exception as error:
                raise _Ended(error) from error

    async def _phase_call(self, work: Coroutine[Any, Any, T], what: str) -> T:
        """A helper call whose failure ends the trial."""
        try:
            return await self._helper(work, what, self.context.limits.helper)
        except Exception as error:
            raise _Ended(error) from error

    async def _run_agent(self, run: AgentRun) -> AgentResult:
        """The agent's own end, its deadline included, is a result; anything else ends the trial."""
        try:
            return await bounded(
                self.context.agent.run(run),
                what="the agent",
                timeout=run.timeout_sec,
                grace=self.context.limits.grace,
            )
        except DeadlinePassed:
            return AgentResult(
                stop=AgentStop.TIMEOUT, detail=f"the agent was stopped at its deadline of {run.timeout_sec:g} s"
            )
        except AgentExited as error:
            return AgentResult(stop=AgentStop.EXITED, detail=str(error))
        except Exception as error:
            raise _Ended(error, in_agent=True) from error

    async def _judge(self, sandbox: SandboxBackendProtocol, step: Step, record: StepRecord) -> Judgement:
        """Run the verifier and bring everything back."""
        self.phase(Phase.VERIFYING, step)
        record.verifier = Timing(started_at=now())
        timeout = self.context.effective(step.verifier_timeout).value
        separate = step.verifier_environment is not None
        self.result.verifier_environment_mode = "separate" if separate else "shared"
        try:
            if folder_digest(self.task.path) != self.task.digest:
                raise TaskChanged("the task's files changed while the job ran")
            if step.artifacts:
                await self._collect_artifacts(sandbox, step)
            if separate:
                judgement = await self._judge_apart(sandbox, step, timeout)
            else:
                judgement = await self._verify(sandbox, step, timeout)
            record.verifier.finished_at = now()
            if not separate:
                self.phase(Phase.COLLECTING, step)
                await self._keep_logs(sandbox, step, judgement)
        except Exception as error:
            raise _Ended(error) from error
        finally:
            if record.verifier.finished_at is None:
                record.verifier.finished_at = now()
            if step.name is None:
                self.result.verifier = record.verifier
        if len(self.task.steps) > 1:
            await self._phase_call(sandbox.kill_processes(), "ending the verifier's processes")
        return judgement

    async def _verify(self, sandbox: SandboxBackendProtocol, step: Step, timeout: float) -> Judgement:
        limits = self.context.limits
        work = verify(
            sandbox,
            step,
            version=self.task.digest,
            allowed=self.task.reward_range,
            env=resolve_env(step.verifier_env, self.context.host_env).values,
            timeout=timeout,
            helper_timeout=limits.helper,
            evidence=self.session.evidence(),
        )
        return await self._helper(work, "the verification", 2 * timeout + 4 * limits.helper)

    async def _judge_apart(self, sandbox: SandboxBackendProtocol, step: Step, timeout: float) -> Judgement:
        """Verify in a sandbox of its own, which sees of the agent's only what was kept as artifacts."""
        assert step.verifier_environment is not None
        self.phase(Phase.COLLECTING, step)
        await self._collect_logs(sandbox, step)
        labels = {OWNER: owner_label(), JOB: self.context.job_id, TRIAL: f"{self.spec.name}.verifier"}
        request = sandbox_spec(
            step.verifier_environment,
            labels=labels,
            ttl_sec=2 * timeout + 10 * self.context.limits.helper,
            host_env=self.context.host_env,
            allow_unsafe=self.context.allow_unsafe,
        )
        verifier_box = await self._start(request)
        try:
            kept = self.paths.artifacts(step.name)
            for artifact in step.artifacts:
                source = kept / artifact.destination
                if source.exists():
                    await self._helper(
                        verifier_box.upload(source, artifact.source),
                        "handing over artifacts",
                        self.context.limits.helper,
                    )
            convention = kept / "logs" / "artifacts"
            if convention.is_dir():
                await self._helper(
                    verifier_box.upload(convention, "/logs/artifacts"),
                    "handing over artifacts",
                    self.context.limits.helper,
                )
            self.phase(Phase.VERIFYING, step)
            judgement = await self._verify(verifier_box, step, timeout)
            await self._keep_logs(verifier_box, step, judgement)
            return judgement
        finally:
            await finish(verifier_box.stop(), timeout=self.context.limits.stop)

    async def _keep_logs(self, sandbox: SandboxBackendProtocol, step: Step, judgement: Judgement) -> None:
        """What the verifier left: from its own shell's words where they are all there is, else also by a download."""
        if not judgement.complete:
            await self._collect_logs(sandbox, step)
        keep_verdict(self.paths, step.name, judgement.files)

    async def _collect_logs(self, sandbox: SandboxBackendProtocol, step: Step) -> None:
        """Logs that cannot be fetched, being too large, are missed: an agent must not void its verdict by them."""
        work = collect_logs(sandbox, self.paths, self.context.scratch, step=step.name)
        try:
            dropped = await self._helper(work, "collecting the logs", self.context.limits.collect)
        except SandboxError as error:
            dropped = [f"/logs (not collected: {self.redact(str(error))})"]
        self._drop(dropped)

    async def _collect_artifacts(self, sandbox: SandboxBackendProtocol, step: Step) -> None:
        work = collect_artifacts(sandbox, self.paths, step.artifacts, step=step.name)
        self._drop(await self._helper(work, "collecting artifacts", self.context.limits.collect))

    def _drop(self, names: list[str]) -> None:
        """Note what was not kept: the first names, and how many there were."""
        kept = self.result.dropped_files
        self.result.n_dropped_files += len(names)
        kept += [self.redact(name)[:_MAX_NAME] for name in names[: max(0, _MAX_DROPPED - len(kept))]]

    async def _helper(self, work: Coroutine[Any, Any, T], what: str, timeout: float) -> T:
        """A call of the harness's own, which has its own deadline above the backend's."""
        try:
            return await bounded(work, what=what, timeout=timeout, grace=self.context.limits.grace)
        except DeadlinePassed as passed:
            raise SandboxTimeout(str(passed), backend=self.context.provider.name, operation=what) from passed

    def phase(self, phase: Phase, step: Step | None = None) -> None:
        self.context.emit(PhaseStarted(self.result.trial_name, phase, step.name if step else None))

    def _keep_agent_part(self, step: Step, record: StepRecord) -> None:
        """What the agent did is kept whatever comes after it."""
        if step.name is None:
            self.result.agent_result = record.agent_result
            self.result.agent_execution = record.agent_execution
            self.result.behaviour = record.behaviour
        else:
            self.result.step_results = [*(self.result.step_results or []), record]
            self.result.behaviour = in_sequence(self.result.behaviour, record.behaviour)

    def _note(self, step: Step, record: StepRecord, judgement: Judgement) -> None:
        if judgement.reward is not None:
            record.verifier_result = VerifierResult(rewards=dict(judgement.reward.parts))
        record.verification = judgement.verification
        record.verification.output_tail = self.redact(record.verification.output_tail)
        if step.name is None:
            self.result.exception_info = record.exception_info
            self.result.verification = record.verification

    def _without_reward(self, judgement: Judgement, agent: Verdict | None, detail: str) -> None:
        """Why there is no reward: the agent's own early end where there was nothing to grade, else the verifier."""
        error = judgement.error
        assert error is not None
        verdict = verdict_of(error)
        if agent is not None and verdict.tag == "reward_missing":
            _conclude(self.result, agent, detail)
            return
        self.result.exception_info = describe_error(error, self.redact)
        _conclude(self.result, verdict, self.redact(str(error)), _evidence(error))

    def _scored(self, agent: Verdict | None, detail: str) -> None:
        task, result = self.task, self.result
        parts, value = combine_rewards(self.rewards, task.reward_strategy, len(task.steps))
        result.verifier_result = VerifierResult(rewards=parts)
        result.reward, result.reward_valid, result.outcome = value, True, Outcome.SCORED
        if agent is not None:
            result.tags.append(agent.tag)
        if value < self.context.pass_mark:
            verdict = agent or WRONG_ANSWER
            message = detail or f"reward {value:g} is below {self.context.pass_mark:g}"
            result.failure = failure_of(verdict, message)


def _limit(limit: Limit) -> dict[str, object]:
    return {"value": limit.value, "origin": limit.origin}


def _evidence(error: BaseException) -> list[Evidence]:
    """The structured facts that an error carries: its class, and where it was raised."""
    facts = [Evidence(source="exception", text=type(error).__name__)]
    if isinstance(error, SandboxError):
        where = f"{error.backend} {error.operation}".strip()
        facts.append(Evidence(source="sandbox", text=f"{where} {error.sandbox_id or ''}".strip()))
    return facts


def _conclude(result: TrialResult, verdict: Verdict, message: str, evidence: list[Evidence] | None = None) -> None:
    """End without a valid reward."""
    result.outcome = verdict.outcome
    result.reward, result.reward_valid = None, False
    result.failure = failure_of(verdict, message, evidence)
    if verdict.tag not in result.tags:
        result.tags.append(verdict.tag)


def _conclude_error(result: TrialResult, error: BaseException, redact: Callable[[str], str]) -> None:
    result.exception_info = describe_error(error, redact)
    _conclude(result, verdict_of(error), redact(str(error)), _evidence(error))

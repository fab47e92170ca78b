"""A trial from the outside: what goes in, the order of its phases, and what record comes out of each kind of end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from builders import FunctionAgent, Heard, MemoryProvider, MemorySandbox, idle_agent, make_task, never_answers, succeeds

from backends import errors as sandbox_errors
from backends.spec import ExecuteResponse, SandboxSpec
from harness.agents.protocol import Agent, AgentResult, AgentRun
from harness.errors import AgentExited, ModelAuthError, ModelRateLimited, ModelTimeout
from harness.failures import AgentStop, FailureCategory, Outcome
from harness.records import TrialResult
from harness.store.layout import JobPaths
from harness.task.loader import load_task
from harness.task.model import BrokenTask, Task
from harness.trial.limits import TrialLimits
from harness.trial.runner import run_trial
from harness.trial.spec import TrialContext, TrialSpec

FAST = TrialLimits(helper=5.0, start=5.0, collect=5.0, stop=2.0, grace=0.1, margin=1.0)


async def run(
    folder: Path,
    task_folder: Path,
    *,
    agent: Agent | None = None,
    provider: MemoryProvider | None = None,
    heard: Heard | None = None,
    **context: Any,
) -> TrialResult:
    task = load_task(task_folder)
    settings: dict[str, Any] = {
        "provider": provider or MemoryProvider(),
        "agent": agent or idle_agent(),
        "paths": JobPaths(folder / "job"),
        "job_id": "job",
        "emit": heard or Heard(),
        "limits": FAST,
        **context,
    }
    return await run_trial(TrialSpec(task=task, attempt=1), TrialContext(**settings))


def acting(act: Any) -> FunctionAgent:
    return FunctionAgent(act)


async def raises(error: BaseException, *_: object) -> None:
    raise error


async def test_a_trial_cleans_acts_kills_brings_the_tests_and_verifies_in_that_order(
    tmp_path: Path,
) -> None:
    provider = MemoryProvider()

    async def act(run: AgentRun) -> None:
        assert not any(name.startswith("/tests") for name in run.sandbox.files)  # type: ignore[attr-defined]
        await run.sandbox.execute("work", timeout=1)

    result = await run(tmp_path, make_task(tmp_path), agent=acting(act), provider=provider)
    assert provider.started[0].log == [
        "clean",
        "execute work",
        "kill",
        "verify",
        "stop",
    ]
    assert provider.started[0].files["/tests/test.sh"].startswith(b"#!/bin/sh")
    assert (result.outcome, result.reward, result.failure) == (Outcome.SCORED, 1.0, None)
    assert not provider.live


async def test_what_lies_in_the_logs_is_fetched_and_what_was_planted_among_it_replaces_nothing_of_ours(
    tmp_path: Path,
) -> None:
    async def act(run: AgentRun) -> None:
        run.trajectory.user("hello")
        await run.sandbox.write("/logs/agent/notes.txt", b"mine")
        await run.sandbox.write("/logs/agent/trajectory.json", b"forged")
        await run.sandbox.write("/logs/artifacts/plot.png", b"png")

    result = await run(tmp_path, make_task(tmp_path), agent=acting(act))
    folder = tmp_path / "job" / "greet__1"
    assert (folder / "agent" / "notes.txt").read_bytes() == b"mine"
    assert (folder / "artifacts" / "logs" / "artifacts" / "plot.png").read_bytes() == b"png"
    assert json.loads((folder / "agent" / "trajectory.json").read_text())["steps"][0]["message"] == "hello"
    assert result.dropped_files == ["/logs/agent/trajectory.json (reserved name)"]


async def test_logs_too_large_to_fetch_are_missed_and_named_but_the_verdict_stands(tmp_path: Path) -> None:
    async def act(run: AgentRun) -> None:
        await run.sandbox.write("/logs/agent/huge", b"x" * 100)
        run.sandbox.max_download = 99  # type: ignore[attr-defined]

    result = await run(tmp_path, make_task(tmp_path), agent=acting(act))
    assert (result.outcome, result.reward) == (Outcome.SCORED, 1.0)
    assert result.dropped_files == ["/logs (not collected: the download is too large)"]


async def test_an_artifact_too_large_to_fetch_failed_and_is_no_trouble_of_the_sandboxs(tmp_path: Path) -> None:
    async def act(run: AgentRun) -> None:
        await run.sandbox.write("/app/huge", b"x" * 100)
        run.sandbox.max_download = 99  # type: ignore[attr-defined]

    task = make_task(tmp_path, toml='version = "1.0"\nartifacts = ["/app/huge"]\n')
    result = await run(tmp_path, task, agent=acting(act))
    assert (result.outcome, result.reward) == (Outcome.SCORED, 1.0)
    manifest = json.loads((tmp_path / "job" / "greet__1" / "artifacts" / "manifest.json").read_text())
    assert [(entry["source"], entry["status"]) for entry in manifest][1:] == [("/app/huge", "failed")]


@pytest.mark.parametrize("verifier_user", ["judge", None])
async def test_where_the_verifier_is_not_root_its_folders_are_emptied_and_filled_by_root(
    tmp_path: Path, verifier_user: str | None
) -> None:
    toml = 'version = "1.0"\n[verifier]\nuser = "judge"\n' if verifier_user else 'version = "1.0"\n'
    provider = MemoryProvider(user="root" if verifier_user else "somebody")
    result = await run(tmp_path, make_task(tmp_path, toml=toml), provider=provider)
    log = provider.started[0].log
    assert log[log.index("kill") :][:3] == ["kill", "empty", "upload /tests"]
    assert result.outcome is Outcome.SCORED


async def test_the_record_on_disk_is_the_result_and_reads_back(tmp_path: Path) -> None:
    result = await run(tmp_path, make_task(tmp_path))
    stored = TrialResult.model_validate_json((tmp_path / "job" / "greet__1" / "result.json").read_text())
    assert stored == result
    assert stored.verifier_result is not None
    assert stored.verifier_result.rewards == {"reward": 1.0}
    assert (tmp_path / "job" / "greet__1" / "verifier" / "reward.txt").read_text() == "1\n"


async def test_a_wrong_answer_is_scored_zero_and_is_the_agents_own_failure(tmp_path: Path) -> None:
    result = await run(tmp_path, make_task(tmp_path), provider=MemoryProvider(verdict=lambda box: {"reward.txt": b"0"}))
    assert (result.outcome, result.reward, result.reward_valid) == (Outcome.SCORED, 0.0, True)
    assert result.failure is not None
    assert (result.failure.category, result.failure.tag, result.failure.trainable) == (
        FailureCategory.CAPABILITY,
        "wrong_answer",
        True,
    )


@pytest.mark.case("B7")
async def test_an_agent_that_ran_out_of_time_is_graded_and_its_reward_counts(tmp_path: Path) -> None:
    async def act(run: AgentRun) -> None:
        await asyncio.sleep(60)

    result = await run(tmp_path, make_task(tmp_path), agent=acting(act), agent_timeout=0.05)
    assert (result.outcome, result.reward) == (Outcome.SCORED, 1.0)
    assert result.tags == ["agent_timeout"]
    assert result.exception_info is not None
    assert result.exception_info.exception_type == "AgentTimeoutError"
    assert result.limits["agent_timeout_sec"] == {"value": 0.05, "origin": "cli"}


@pytest.mark.case("B7")
async def test_an_agent_out_of_time_with_nothing_to_grade_is_the_agents_failure_not_the_tasks(tmp_path: Path) -> None:
    async def act(run: AgentRun) -> None:
        await asyncio.sleep(60)

    result = await run(
        tmp_path,
        make_task(tmp_path),
        agent=acting(act),
        agent_timeout=0.05,
        provider=MemoryProvider(verdict=lambda box: {}),
    )
    assert (result.outcome, result.reward) == (Outcome.AGENT_FAILED, None)
    assert result.failure is not None
    assert (result.failure.tag, result.failure.category) == ("agent_timeout", FailureCategory.CAPABILITY)


@pytest.mark.case("B1")
async def test_a_finished_agent_without_a_verdict_is_a_task_error_that_tells_how_test_sh_ended(tmp_path: Path) -> None:
    result = await run(tmp_path, make_task(tmp_path), provider=MemoryProvider(verdict=lambda box: {}))
    assert (result.outcome, result.reward) == (Outcome.TASK_ERROR, None)
    assert result.failure is not None
    assert result.failure.tag == "reward_missing"
    assert "exit 0" in result.failure.message


@pytest.mark.case("B6")
async def test_a_verifier_out_of_time_is_repeated_alone_and_then_an_infrastructure_timeout(tmp_path: Path) -> None:
    provider = MemoryProvider(verdict=lambda box: ExecuteResponse(exit_code=None, timed_out=True))
    agent = idle_agent()
    result = await run(tmp_path, make_task(tmp_path), provider=provider, agent=agent)
    assert provider.started[0].log.count("verify") == 2
    assert agent.runs == 1
    assert (result.outcome, result.reward) == (Outcome.INFRA_ERROR, None)
    assert result.failure is not None
    assert (result.failure.tag, result.failure.category) == ("verifier_timeout", FailureCategory.INFRA_TIMEOUT)
    assert result.agent_result is not None, "what the agent did is kept"


async def test_a_verifier_killed_for_memory_is_infrastructure_proven_by_the_counter(tmp_path: Path) -> None:
    provider = MemoryProvider(verdict=lambda box: ExecuteResponse(exit_code=137, oom=True))
    result = await run(tmp_path, make_task(tmp_path), provider=provider)
    assert result.failure is not None
    assert (result.outcome, result.failure.category) == (Outcome.INFRA_ERROR, FailureCategory.INFRA_OOM)


@pytest.mark.case("B5")
async def test_a_planted_reward_does_not_survive_until_the_verdict(tmp_path: Path) -> None:
    async def act(run: AgentRun) -> None:
        await run.sandbox.write("/logs/verifier/reward.txt", b"1")

    def from_disk(box: MemorySandbox) -> Mapping[str, bytes]:
        return {n.rsplit("/", 1)[1]: d for n, d in box.files.items() if n.startswith("/logs/verifier/")}

    result = await run(tmp_path, make_task(tmp_path), agent=acting(act), provider=MemoryProvider(verdict=from_disk))
    assert (result.outcome, result.reward) == (Outcome.TASK_ERROR, None)


@pytest.mark.parametrize(
    ("error", "category", "tag", "retryable"),
    [
        (ModelRateLimited("429"), FailureCategory.INFRA_SANDBOX, "model_rate_limited", True),
        (ModelAuthError("401"), FailureCategory.INFRA_SANDBOX, "model_auth", False),
        (ModelTimeout("silence"), FailureCategory.INFRA_TIMEOUT, "model_timeout", True),
        (sandbox_errors.SandboxUnavailable("gone"), FailureCategory.INFRA_SANDBOX, "sandbox_unavailable", True),
        (sandbox_errors.SandboxOutOfMemory("oom"), FailureCategory.INFRA_OOM, "sandbox_oom", True),
    ],
)
async def test_what_the_endpoint_or_the_sandbox_did_while_the_agent_acted_is_no_failure_of_the_agent(
    tmp_path: Path, error: Exception, category: FailureCategory, tag: str, retryable: bool
) -> None:
    provider = MemoryProvider()
    result = await run(tmp_path, make_task(tmp_path), agent=acting(lambda run: raises(error)), provider=provider)
    assert (result.outcome, result.reward) == (Outcome.INFRA_ERROR, None)
    assert result.failure is not None
    assert (result.failure.category, result.failure.tag, result.failure.retryable) == (category, tag, retryable)
    assert not result.failure.trainable
    assert "verify" not in provider.started[0].log
    assert not provider.live


async def test_an_agents_program_that_ends_with_an_error_is_graded_all_the_same(tmp_path: Path) -> None:
    result = await run(tmp_path, make_task(tmp_path), agent=acting(lambda run: raises(AgentExited("exit 1"))))
    assert (result.outcome, result.reward, result.tags) == (Outcome.SCORED, 1.0, ["agent_exited"])


async def test_a_crash_of_the_agents_code_is_its_failure_of_unknown_kind_and_never_a_sample(tmp_path: Path) -> None:
    result = await run(tmp_path, make_task(tmp_path), agent=acting(lambda run: raises(KeyError("x"))))
    assert result.failure is not None
    assert (result.outcome, result.failure.category) == (Outcome.AGENT_FAILED, FailureCategory.UNKNOWN)
    assert (result.failure.trainable, result.failure.tag) == (False, "agent_error")
    assert (tmp_path / "job" / "greet__1" / "exception.txt").read_text().startswith("Traceback")


@pytest.mark.parametrize("stop", [stop for stop in AgentStop if stop is not AgentStop.FINISHED])
async def test_every_end_of_the_agents_own_is_graded_and_named(tmp_path: Path, stop: AgentStop) -> None:
    async def act(run: AgentRun) -> AgentResult:
        return AgentResult(stop=stop)

    provider = MemoryProvider(verdict=lambda box: {"reward.txt": b"0.5"})
    result = await run(tmp_path, make_task(tmp_path), agent=acting(act), provider=provider)
    assert (result.outcome, result.reward, result.tags) == (Outcome.SCORED, 0.5, [stop.value])
    assert result.failure is not None
    assert (result.failure.tag, result.failure.category) == (stop.value, FailureCategory.CAPABILITY)


@pytest.mark.parametrize(
    ("error", "outcome", "tag"),
    [
        (sandbox_errors.SandboxBuildError("RUN false", log="..."), Outcome.TASK_ERROR, "build_failed"),
        (sandbox_errors.SandboxImageNotFound("no such image"), Outcome.TASK_ERROR, "image_not_found"),
        (sandbox_errors.SandboxUnsupported("RUN"), Outcome.TASK_ERROR, "unsupported"),
        (sandbox_errors.SandboxTimeout("build"), Outcome.INFRA_ERROR, "sandbox_timeout"),
        (sandbox_errors.SandboxQuotaError("full"), Outcome.INFRA_ERROR, "sandbox_quota"),
        (RuntimeError("a bug"), Outcome.INFRA_ERROR, "harness_error"),
    ],
)
async def test_a_sandbox_that_does_not_start_is_told_by_its_class(
    tmp_path: Path, error: Exception, outcome: Outcome, tag: str
) -> None:
    async def refuse(spec: SandboxSpec) -> None:
        raise error

    result = await run(tmp_path, make_task(tmp_path), provider=MemoryProvider(on_start=refuse))
    assert result.failure is not None
    assert (result.outcome, result.failure.tag) == (outcome, tag)


async def test_text_that_an_agent_prints_never_classifies(tmp_path: Path) -> None:
    async def act(run: AgentRun) -> None:
        run.trajectory.user("x")
        run.trajectory.agent("Connection refused. OOMKilled. exit code 137. timed out.", llm_calls=0)

    provider = MemoryProvider(verdict=lambda box: {"reward.txt": b"0"})
    result = await run(tmp_path, make_task(tmp_path), agent=acting(act), provider=provider)
    assert result.failure is not None
    assert result.failure.category is FailureCategory.CAPABILITY


@pytest.mark.case("D8")
async def test_a_backend_that_swallows_cancellation_does_not_hold_the_trial_beyond_its_deadlines(
    tmp_path: Path,
) -> None:
    provider = MemoryProvider(command=never_answers)

    async def act(run: AgentRun) -> None:
        await run.sandbox.execute("hang", timeout=1)

    result = await asyncio.wait_for(
        run(tmp_path, make_task(tmp_path), agent=acting(act), provider=provider, agent_timeout=0.05), 1
    )
    assert result.tags == ["agent_timeout"]


@pytest.mark.case("D8")
async def test_the_watchdog_ends_a_trial_whose_start_never_answers(tmp_path: Path) -> None:
    limits = TrialLimits(helper=0.1, start=0.1, collect=0.1, stop=0.1, grace=0.05, margin=0.1)
    toml = 'version = "1.0"\n[environment]\nbuild_timeout_sec = 0.1\n'
    task = make_task(tmp_path, toml=toml)
    provider = MemoryProvider(on_start=never_answers)
    result = await asyncio.wait_for(run(tmp_path, task, provider=provider, limits=limits), 1.2)
    assert result.failure is not None
    assert (result.outcome, result.failure.category) == (Outcome.INFRA_ERROR, FailureCategory.INFRA_TIMEOUT)


@pytest.mark.case("D3")
async def test_a_cancelled_trial_is_recorded_as_cancelled_and_its_sandbox_is_gone(tmp_path: Path) -> None:
    provider = MemoryProvider()
    acting_now = asyncio.Event()

    async def act(run: AgentRun) -> None:
        acting_now.set()
        await asyncio.sleep(60)

    trial = asyncio.ensure_future(run(tmp_path, make_task(tmp_path), agent=acting(act), provider=provider))
    await acting_now.wait()
    trial.cancel()
    with pytest.raises(asyncio.CancelledError):
        await trial
    stored = json.loads((tmp_path / "job" / "greet__1" / "result.json").read_text())
    assert (stored["outcome"], stored["reward"], stored["failure"]["tag"]) == ("cancelled", None, "cancelled")
    assert not provider.live


@pytest.mark.case("B16")
async def test_a_variable_that_is_not_set_is_named_before_any_sandbox_is_made(tmp_path: Path) -> None:
    provider = MemoryProvider()
    task = make_task(tmp_path, toml='version = "1.0"\n[environment.env]\nA = "${NOPE}"\n')
    result = await run(tmp_path, task, provider=provider, host_env={})
    assert result.failure is not None
    assert (result.outcome, result.failure.tag) == (Outcome.TASK_ERROR, "task_invalid")
    assert "NOPE" in result.failure.message
    assert not provider.started


@pytest.mark.case("H4")
async def test_a_secret_that_the_host_gave_the_task_is_in_no_file_of_the_record(tmp_path: Path) -> None:
    canary = "canary-4f1d9c"
    task = make_task(tmp_path, toml='version = "1.0"\n[environment.env]\nTOKEN = "${TOKEN}"\n')

    async def act(run: AgentRun) -> None:
        run.trajectory.user(run.step.instruction)
        run.trajectory.agent(f"I see {canary}", llm_calls=0)
        raise RuntimeError(f"failed with {canary}")

    await run(tmp_path, task, agent=acting(act), host_env={"TOKEN": canary})
    files = [path for path in (tmp_path / "job").rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if canary.encode() in path.read_bytes()]


@pytest.mark.case("H9")
async def test_tests_that_change_while_the_job_runs_are_noticed(tmp_path: Path) -> None:
    folder = make_task(tmp_path)

    async def act(run: AgentRun) -> None:
        (folder / "tests" / "test.sh").write_text("#!/bin/sh\necho 1 > /logs/verifier/reward.txt # easier\n")

    result = await run(tmp_path, folder, agent=acting(act))
    assert result.failure is not None
    assert (result.outcome, result.failure.tag) == (Outcome.TASK_ERROR, "task_changed")


async def test_a_broken_task_becomes_a_record_too(tmp_path: Path) -> None:
    folder = make_task(tmp_path, toml="this is not toml")
    assert isinstance(load_task(folder), BrokenTask)
    result = await run(tmp_path, folder)
    assert result.failure is not None
    assert (result.outcome, result.failure.tag) == (Outcome.TASK_ERROR, "task_invalid")


STEPS = """
version = "1.0"
[[steps]]
name = "one"
min_reward = 0.5
[[steps]]
name = "two"
"""


def two_steps(folder: Path) -> Path:
    files = {
        f"steps/{name}/{file}": text
        for name in ("one", "two")
        for file, text in {"instruction.md": f"Do {name}.", "tests/test.sh": "#!/bin/sh\n"}.items()
    }
    return make_task(folder, toml=STEPS, files=files)


async def test_steps_run_in_order_in_one_sandbox_and_their_rewards_are_averaged(tmp_path: Path) -> None:
    provider = MemoryProvider(verdict=lambda box: {"reward.txt": b"1" if box.log.count("verify") == 1 else b"0.5"})
    said: list[str] = []

    async def act(run: AgentRun) -> None:
        said.append(run.step.instruction.strip())

    result = await run(tmp_path, two_steps(tmp_path), agent=acting(act), provider=provider)
    assert said == ["Do one.", "Do two."]
    assert len(provider.started) == 1
    assert (result.outcome, result.reward) == (Outcome.SCORED, 0.75)
    assert result.step_results is not None
    assert [step.step_name for step in result.step_results] == ["one", "two"]
    assert (tmp_path / "job" / "greet__1" / "steps" / "two" / "verifier" / "reward.txt").read_bytes() == b"0.5"


async def test_a_step_below_its_minimum_ends_the_task_and_what_was_not_reached_earned_nothing(tmp_path: Path) -> None:
    provider = MemoryProvider(verdict=lambda box: {"reward.txt": b"0.4"})
    result = await run(tmp_path, two_steps(tmp_path), provider=provider)
    assert provider.started[0].log.count("verify") == 1
    assert (result.outcome, result.reward) == (Outcome.SCORED, 0.2)


@pytest.mark.case("B9")
async def test_slow_helper_calls_do_not_void_a_trial(tmp_path: Path) -> None:
    async def slow(box: MemorySandbox, command: str) -> ExecuteResponse:
        await asyncio.sleep(0.3)
        return await succeeds(box, command)

    result = await run(tmp_path, make_task(tmp_path), provider=MemoryProvider(command=slow))
    assert result.outcome is Outcome.SCORED


@pytest.mark.case("B11")
async def test_a_default_is_not_a_declaration(tmp_path: Path) -> None:
    unset = await run(tmp_path / "a", make_task(tmp_path / "a"))
    declared = await run(tmp_path / "b", make_task(tmp_path / "b", toml='version = "1.0"\n[environment]\ncpus = 1\n'))
    assert unset.limits["cpus"]["origin"] == "default"
    assert declared.limits["cpus"] == {"value": 1, "origin": "task"}


def test_the_memory_backend_and_the_loaded_task_are_what_the_trial_expects(tmp_path: Path) -> None:
    from backends.protocol import SandboxBackendProtocol

    assert isinstance(load_task(make_task(tmp_path)), Task)
    assert issubclass(MemorySandbox, object)
    assert isinstance(
        MemorySandbox(id="x", spec=SandboxSpec(image="i"), provider=MemoryProvider()), SandboxBackendProtocol
    )


async def test_what_json_cannot_hold_costs_the_record_nothing_but_itself(tmp_path: Path) -> None:
    async def act(run: AgentRun) -> AgentResult:
        return AgentResult(metadata={"odd": object(), "surrogate": "\ud800", "not_a_number": float("nan")})

    provider = MemoryProvider(verdict=lambda box: {"reward.json": b'{"reward": 1, "\\ud800": 0.5}'})
    result = await run(tmp_path, make_task(tmp_path), agent=acting(act), provider=provider)
    assert result.outcome is Outcome.SCORED
    stored = TrialResult.model_validate_json((tmp_path / "job" / "greet__1" / "result.json").read_text())
    assert stored.reward == 1.0


async def test_of_a_flood_of_dropped_files_the_first_names_and_the_number_are_kept(tmp_path: Path) -> None:
    async def act(run: AgentRun) -> None:
        assert isinstance(run.sandbox, MemorySandbox)
        run.sandbox.dropped = [f"link{n}" for n in range(5000)]
        await run.sandbox.write("/logs/agent/x", b"x")

    result = await run(tmp_path, make_task(tmp_path), agent=acting(act))
    assert (len(result.dropped_files), result.n_dropped_files) == (100, 5000)

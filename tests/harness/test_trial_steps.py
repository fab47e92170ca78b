"""Tasks of several steps, and verifiers with a sandbox of their own: who sees what, and when."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import FunctionAgent, MemoryProvider, MemorySandbox, make_task
from hypothesis import given
from hypothesis import strategies as st

from harness.agents.protocol import AgentRun
from harness.errors import HarnessError
from harness.failures import Outcome
from harness.records import TrialResult
from harness.store.layout import JobPaths
from harness.task.loader import load_task
from harness.trial.reward import Reward
from harness.trial.runner import run_trial
from harness.trial.spec import TrialContext, TrialSpec
from harness.trial.steps import combine_rewards, meets

STEPS = 'version = "1.0"\n[[steps]]\nname = "one"\n[[steps]]\nname = "two"\n'


def two_steps(folder: Path, **extra: str) -> Path:
    files = {f"steps/{name}/instruction.md": f"Do {name}." for name in ("one", "two")}
    files |= {f"steps/{name}/tests/test.sh": f"#!/bin/sh\n: {name}\n" for name in ("one", "two")}
    return make_task(folder, toml=STEPS, files={**files, **extra})


async def run(folder: Path, task: Path, provider: MemoryProvider, agent: FunctionAgent) -> TrialResult:
    context = TrialContext(
        provider=provider, agent=agent, paths=JobPaths(folder / "job"), job_id="j", emit=lambda event: None
    )
    return await run_trial(TrialSpec(task=load_task(task), attempt=1), context)


async def test_the_agent_of_the_next_step_sees_neither_the_tests_nor_the_verdict_of_the_last(tmp_path: Path) -> None:
    seen: list[list[str]] = []

    async def look(run: AgentRun) -> None:
        assert isinstance(run.sandbox, MemorySandbox)
        seen.append([name for name in run.sandbox.files if name.startswith(("/tests", "/logs/verifier", "/solution"))])

    result = await run(tmp_path, two_steps(tmp_path), MemoryProvider(), FunctionAgent(look))
    assert result.outcome is Outcome.SCORED
    assert seen == [[], []]


async def test_a_steps_files_come_first_then_its_set_up_script_then_the_agent(tmp_path: Path) -> None:
    provider = MemoryProvider()

    async def act(run: AgentRun) -> None:
        await run.sandbox.execute(f"act {run.step.name}", timeout=1)

    task = two_steps(tmp_path, **{"steps/two/workdir/data.csv": "1\n", "steps/two/workdir/setup.sh": "true\n"})
    await run(tmp_path, task, provider, FunctionAgent(act))
    log = provider.started[0].log
    assert log[log.index("execute act one") :] == [
        "execute act one",
        "kill",
        "empty",
        "upload /tests",
        "upload /tests",
        "verify",
        "kill",
        "empty",
        "upload /app",
        "execute bash ./setup.sh",
        "execute act two",
        "kill",
        "empty",
        "upload /tests",
        "upload /tests",
        "verify",
        "kill",
        "stop",
    ]


async def test_a_verifier_with_its_own_sandbox_sees_the_artifacts_and_nothing_else_of_the_agents(
    tmp_path: Path,
) -> None:
    toml = """
version = "1.0"
artifacts = ["/app/answer.txt"]
[verifier]
environment_mode = "separate"
[verifier.environment]
docker_image = "debian:bookworm-slim"
"""

    async def act(run: AgentRun) -> None:
        await run.sandbox.write("/app/answer.txt", b"42")
        await run.sandbox.write("/app/scratch.txt", b"secret work")
        await run.sandbox.write("/logs/verifier/reward.txt", b"1")

    judged: list[MemorySandbox] = []

    def verdict(box: MemorySandbox) -> dict[str, bytes]:
        judged.append(box)
        return {"reward.txt": b"1"}

    provider = MemoryProvider(verdict=verdict)
    result = await run(tmp_path, make_task(tmp_path, toml=toml), provider, FunctionAgent(act))
    assert (result.outcome, result.verifier_environment_mode) == (Outcome.SCORED, "separate")
    agents_box, verifiers_box = provider.started
    assert judged == [verifiers_box]
    assert verifiers_box.spec.image == "debian:bookworm-slim"
    assert verifiers_box.files["/app/answer.txt"] == b"42"
    assert not any("scratch" in name for name in verifiers_box.files)
    assert not any(name.startswith("/tests") for name in agents_box.files)
    assert not provider.live


def _reward(**parts: float) -> Reward:
    value = parts.get("reward", sum(parts.values()) / len(parts))
    return Reward(value=value, parts=parts, source="reward.json", headline="reward")


@pytest.mark.parametrize(
    ("parts", "minimum", "expected"),
    [
        ({"reward": 0.5}, {}, True),
        ({"reward": 0.5}, {"reward": 0.5}, True),
        ({"reward": 0.4}, {"reward": 0.5}, False),
        ({"style": 1.0}, {"speed": 0.0}, False),
        ({"style": 1.0, "speed": 0.2}, {"style": 0.9, "speed": 0.1}, True),
    ],
)
def test_a_step_is_passed_when_every_gated_part_reaches_its_minimum(
    parts: dict[str, float], minimum: dict[str, float], expected: bool
) -> None:
    assert meets(_reward(**parts), minimum) is expected


def test_the_mean_counts_what_was_not_reached_as_nothing_earned() -> None:
    assert combine_rewards([{"reward": 1.0}, {"reward": 0.5}], "mean", 2) == ({"reward": 0.75}, 0.75)
    assert combine_rewards([{"reward": 0.4}], "mean", 2) == ({"reward": 0.2}, 0.2)
    assert combine_rewards([{"a": 1.0}, {"b": 1.0}], "mean", 2) == ({"a": 0.5, "b": 0.5}, 0.5)


def test_final_is_the_last_steps_reward_or_nothing_if_it_was_not_reached() -> None:
    assert combine_rewards([{"reward": 0.1}, {"reward": 0.9}], "final", 2) == ({"reward": 0.9}, 0.9)
    assert combine_rewards([{"reward": 1.0}], "final", 2) == ({"reward": 0.0}, 0.0)


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.floats(0, 1), min_size=1), min_size=1, max_size=5))
def test_rewards_within_the_unit_interval_stay_in_it(rewards: list[dict[str, float]]) -> None:
    for strategy in ("mean", "final"):
        parts, value = combine_rewards(rewards, strategy, len(rewards) + 1)  # type: ignore[arg-type]
        assert 0 <= value <= 1
        assert all(0 <= part <= 1 for part in parts.values())


def test_every_error_of_the_harness_is_one_family() -> None:
    from harness import errors

    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    assert all(issubclass(each, HarnessError) for each in classes)

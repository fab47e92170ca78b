"""Steps with a sandbox each: what goes along, what stays behind, and that one ends before the next begins."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import FunctionAgent, MemoryProvider, MemorySandbox, make_task

from backends.spec import SandboxSpec
from harness.agents.protocol import AgentRun
from harness.failures import Outcome
from harness.records import TrialResult
from harness.store.layout import JobPaths
from harness.task.loader import load_task
from harness.task.model import Task
from harness.trial.runner import run_trial
from harness.trial.spec import TrialContext, TrialSpec

NAMES = ("one", "two", "three")
CARRY = '[metadata.harness]\ncarry = ["/memory", "/app/note.txt", "/nowhere"]\n'


async def run(folder: Path, provider: MemoryProvider, agent: FunctionAgent) -> TrialResult:
    files = {f"steps/{name}/instruction.md": f"Do {name}." for name in NAMES}
    files |= {f"steps/{name}/tests/test.sh": "#!/bin/sh\n" for name in NAMES}
    toml = CARRY + "".join(f'[[steps]]\nname = "{name}"\n' for name in NAMES)
    task = load_task(make_task(folder, toml=toml, files=files))
    assert isinstance(task, Task) and task.findings == ()
    context = TrialContext(
        provider=provider, agent=agent, paths=JobPaths(folder / "job"), job_id="j", emit=lambda event: None
    )
    return await run_trial(TrialSpec(task=task, attempt=1), context)


def keeping(seen: list[set[str]], content: bytes = b"x") -> FunctionAgent:
    """An agent that keeps notes everywhere, and says which of them it found."""

    async def act(run: AgentRun) -> None:
        assert isinstance(run.sandbox, MemorySandbox)
        seen.append(set(run.sandbox.files))
        for path in ("/memory/a/b.md", "/app/note.txt", "/app/other.txt", "/root/n", "/tmp/n"):
            run.sandbox.files[path] = content

    return FunctionAgent(act)


async def test_only_what_the_task_names_is_there_in_the_next_step(tmp_path: Path) -> None:
    living: list[int] = []
    provider = MemoryProvider()

    async def count(spec: SandboxSpec) -> None:
        living.append(len(provider.live))

    provider.on_start = count
    seen: list[set[str]] = []
    result = await run(tmp_path, provider, keeping(seen))
    assert result.outcome is Outcome.SCORED and result.reward == 1.0
    assert seen == [set(), {"/memory/a/b.md", "/app/note.txt"}, {"/memory/a/b.md", "/app/note.txt"}]
    assert living == [0, 0, 0], "the last one ends before the next begins"
    assert provider.live == {}
    assert [step.step_name for step in result.step_results or ()] == list(NAMES)
    assert result.sandbox is not None and result.sandbox.id == provider.started[-1].id


async def test_what_is_too_large_stays_behind_and_is_named(tmp_path: Path) -> None:
    seen: list[set[str]] = []
    result = await run(tmp_path, MemoryProvider(), keeping(seen, b"x" * ((64 << 20) + 1)))
    assert result.outcome is Outcome.SCORED
    assert seen == [set()] * 3
    assert any(name.startswith("/memory (left behind") for name in result.dropped_files)


async def test_a_sandbox_that_does_not_start_for_the_next_step_is_infrastructure(tmp_path: Path) -> None:
    provider = MemoryProvider()

    async def refuse_the_second(spec: SandboxSpec) -> None:
        if provider.started:
            raise OSError("no room")

    provider.on_start = refuse_the_second
    result = await run(tmp_path, provider, keeping([]))
    assert result.outcome is Outcome.INFRA_ERROR
    assert provider.live == {}


@pytest.mark.parametrize("place", ["memory", "/", "/a/../b", "/a b"])
def test_a_place_is_an_absolute_path_without_detours(place: str, tmp_path: Path) -> None:
    task = load_task(make_task(tmp_path, toml=f"[metadata.harness]\ncarry = ['{place}']\n"))
    assert "metadata.harness.carry.0" in getattr(task, "reason", "")

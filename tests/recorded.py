"""Jobs that look like those of real agents: trajectories with tool calls, failures of every class, cost and time."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from runs import write_job

from evals.categories import load_categories
from harness.atif.model import (
    WRITTEN_VERSION,
    AgentInfo,
    Metrics,
    Observation,
    ObservationResult,
    Step,
    ToolCall,
    Trajectory,
)
from harness.failures import FailureCategory, Layer, Outcome
from harness.records import AgentUsage, Behaviour, Evidence, Failure, SandboxRecord, Timing, TrialResult, Verification

BEGAN = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
_STORIES = (
    (
        "ls -la && cat README.md",
        "total 12\n-rw-r--r-- 1 root root  311 README.md\n# ledger\n\nTotals are kept by hand.",
    ),
    ("grep -rn 'def total' src | head", "src/ledger.py:41:def total(rows):\nsrc/report.py:12:def total_of(rows):"),
    ("sed -n 30,60p src/ledger.py", "\n".join(f"    row[{n}] = amount * rates.get(code, 1)" for n in range(12))),
    ("python -m pytest -q", "F..F..\n2 failed, 4 passed in 0.31s\nE   assert 41.5 == 42"),
    ("python - <<'EOF'\nimport re, pathlib\np = pathlib.Path('src/ledger.py')\nEOF", ""),
    ("git diff --stat", " src/ledger.py | 4 ++--\n 1 file changed, 2 insertions(+), 2 deletions(-)"),
)


def realistic_job(folder: Path, *, tasks: int, attempts: int, seed: int, skill: float = 0.0, steps: int = 9) -> Path:
    """A job over all built-in categories: about 3 % of its attempts end for infrastructure, 4 % run out of time."""
    draw, keys = random.Random(seed), list(load_categories())
    names = [f"suite/{keys[n % len(keys)].replace('_', '-')}-{n // len(keys) + 1:02}" for n in range(tasks)]
    ease = {name: min(1.0, max(0.0, random.Random(name).betavariate(1.6, 0.9) + skill)) for name in names}
    ends = {name: [_end(draw, ease[name]) for _ in range(attempts)] for name in names}
    groups = {name: [keys[n % len(keys)]] for n, name in enumerate(names)}
    write_job(folder, ends, categories=groups)
    for number, path in enumerate(sorted(folder.glob("*/result.json"))):
        _tell(path, random.Random(f"{seed} {number}"), number, steps)
    return folder


def _end(draw: random.Random, ease: float) -> float | Outcome | None:
    lot = draw.random()
    if lot < 0.03:
        return Outcome.INFRA_ERROR
    if lot < 0.07:
        return Outcome.AGENT_FAILED
    return float(draw.random() < ease)


def change(result: Path, edit: Callable[[TrialResult], None]) -> None:
    """Edit a record in its place."""
    record = TrialResult.model_validate_json(result.read_bytes())
    edit(record)
    result.write_text(record.model_dump_json())


def _tell(result: Path, draw: random.Random, number: int, steps: int) -> None:
    """Give a bare record what a real one has."""
    turns = draw.randint(max(1, steps - 5), steps + 5)
    begun = BEGAN + timedelta(seconds=20 * number)
    agent, verifier = draw.uniform(8, 90), draw.uniform(0.3, 4)

    def edit(record: TrialResult) -> None:
        record.agent_info.name = "tool_calling"
        record.agent_info.version = "0.1.0"
        record.started_at, record.finished_at = begun, begun + timedelta(seconds=2 + agent + verifier)
        record.environment_setup = Timing(started_at=begun, finished_at=begun + timedelta(seconds=1.7))
        record.agent_execution = Timing(started_at=begun, finished_at=begun + timedelta(seconds=agent))
        record.verifier = Timing(started_at=begun, finished_at=begun + timedelta(seconds=verifier))
        record.agent_result = AgentUsage(
            n_input_tokens=turns * 2100,
            n_output_tokens=turns * 140,
            n_cache_tokens=turns * 900,
            cost_usd=turns * 0.0021,
        )
        record.sandbox = SandboxRecord(backend="docker", isolation="container", id=f"s{number}")
        record.behaviour = Behaviour(steps=turns, tool_calls=turns + draw.randint(0, 4))
        record.difficulty = draw.choice(["easy", "medium", "hard"])
        if record.outcome is Outcome.AGENT_FAILED:
            record.failure = _failure("agent_timeout", "the agent ran for 90 s, its limit")
        elif record.outcome is Outcome.SCORED:
            if not record.reward:
                record.failure = _failure("wrong_answer", "reward 0 is below the pass mark 1")
            lines = "".join(f"test_{name} {'ok' if record.reward else 'FAILED'}\n" for name in ("read", "total", "sum"))
            record.verification = Verification(
                source="reward.txt", headline="reward", exit_code=0 if record.reward else 1, output_tail=lines
            )

    change(result, edit)
    write_trajectory(result.parent, _conversation(draw, turns), begun)


def _failure(tag: str, message: str) -> Failure:
    return Failure(
        category=FailureCategory.CAPABILITY,
        layer=Layer.AGENT,
        tag=tag,
        retryable=False,
        trainable=True,
        message=message,
        evidence=[Evidence(source="agent.stop", text=tag)],
    )


def _conversation(draw: random.Random, turns: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"user": "The totals in report.txt are wrong for orders in two currencies. Find the cause and repair it."}
    ]
    for number in range(turns):
        command, output = draw.choice(_STORIES)
        found.append(
            {
                "agent": f"Step {number + 1}: the totals still differ, so I look at where rates are applied.",
                "reasoning": "Two functions are called total; only one of them knows of rates."
                if number % 3 == 0
                else None,
                "call": command,
                "output": output,
            }
        )
    return [*found, {"agent": "The rate was applied twice. It is applied once now, and all tests pass."}]


def write_trajectory(trial: Path, conversation: Sequence[Mapping[str, Any]], begun: datetime = BEGAN) -> None:
    """A trajectory of plain turns: {"user": text} or {"agent": text, "reasoning", "call", "output"}."""
    steps = [_step(number, turn, begun) for number, turn in enumerate(conversation, 1)]
    trajectory = Trajectory(
        schema_version=WRITTEN_VERSION, agent=AgentInfo(name="tool_calling", version="0.1.0"), steps=steps
    )
    (trial / "agent").mkdir(exist_ok=True)
    (trial / "agent" / "trajectory.json").write_text(trajectory.model_dump_json(exclude_none=True))


def _step(number: int, turn: Mapping[str, Any], begun: datetime) -> Step:
    when = (begun + timedelta(seconds=3.4 * number)).isoformat()
    if "user" in turn:
        return Step(step_id=number, source="user", timestamp=when, message=turn["user"])
    return Step(
        step_id=number,
        source="agent",
        timestamp=when,
        message=turn["agent"],
        reasoning_content=turn.get("reasoning"),
        tool_calls=[ToolCall(tool_call_id="c", function_name="bash", arguments={"command": turn["call"]})]
        if "call" in turn
        else None,
        observation=Observation(
            results=[
                ObservationResult(
                    source_call_id="c", content=turn["output"], extra={"exit_code": 0, "duration_sec": 0.21}
                )
            ]
        )
        if "call" in turn
        else None,
        metrics=Metrics(prompt_tokens=1900 + 210 * number, completion_tokens=140),
    )

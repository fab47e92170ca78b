"""A trial's marks: what a page filters, averages and compares by. What is unknown has no mark, never a 0."""

from __future__ import annotations

from collections.abc import Iterator

from harness.failures import Outcome
from harness.job.summary import Finished
from harness.records import TrialResult

_MAX_PART = 100


def marks_of(result: TrialResult, pass_mark: float) -> Iterator[tuple[str, float | str]]:
    """Each mark with its score or word.

    A trial that infrastructure failed has neither reward nor success: it says nothing of the agent. One that ended by
    the agent's own fault is no success, and has a reward only if a verifier gave one.
    """
    finished = Finished.of(result)
    rewarded = result.reward is not None and finished.outcome is Outcome.SCORED
    if rewarded and result.reward is not None:
        yield "reward", result.reward
    if finished.counted:
        yield "success", float(rewarded and (result.reward or 0.0) >= pass_mark)
    if result.failure is not None:
        yield "failure_category", result.failure.category.value
    yield "infra", float(finished.outcome is Outcome.INFRA_ERROR)
    behaviour = result.behaviour
    measures = {
        "cost": finished.cost,
        "steps": behaviour.steps if result.agent_execution or result.step_results else None,
        "loops": behaviour.loops,
        "parallel_tool_calls": behaviour.parallel_calls,
        "timeouts": behaviour.timeouts,
    }
    for key, value in measures.items():
        if value is not None:
            yield key, float(value)
    for part, value in (finished.rewards or {}).items() if rewarded else ():
        if part != "reward":
            yield f"reward.{_spelled(part)}", value


def _spelled(part: str) -> str:
    """A verifier's key, which may be anything, as a name."""
    return "".join(char if char.isalnum() or char in "_.-" else "_" for char in part)[:_MAX_PART] or "_"

"""Counts what an agent does while its trajectory grows, or in one that is read, from structured facts only.

Copied context is not counted. An embedded sub-agent's calls are counted as the agent's own, in an order of their own:
loops and repetitions are looked for within one trajectory, and its context is not the agent's. Its time is part of the
call that ran it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.atif.model import ObservationResult, Step, Trajectory
from harness.behaviour.calls import CallFacts, facts_of
from harness.behaviour.combine import with_subagent
from harness.behaviour.loops import Happening, LoopDetector
from harness.records import Behaviour

COMPACTION = "compaction"
"""The `event` of a system step that says that earlier turns were taken out of the conversation."""

_TIMED_OUT = 124
_MAX_SEC = 1e9
_SHRUNK = 0.5
"""A prompt below this share of the one before it has lost most of the conversation."""


def behaviour_of(trajectory: Trajectory) -> Behaviour:
    """What a whole trajectory shows, its embedded sub-agents included."""
    meter = Meter()
    _feed(meter, trajectory)
    return meter.result()


def _feed(meter: Meter, trajectory: Trajectory) -> None:
    for step in trajectory.steps:
        meter.step(step)
    for subagent in trajectory.subagent_trajectories or ():
        _feed(meter.subagent(), subagent)


class Meter:
    """Takes complete steps in their order; it may watch the trajectory that is being written.

    Linear, and of the steps it keeps three calls and a few counts.
    """

    def __init__(self) -> None:
        self.seen = False
        """Whether there was any step: a sub-agent that never began is in no document."""
        self._steps = self._calls = self._turns = 0
        self._parallel_turns = self._parallel_calls = self._parallel_inspections = self._early_inspections = 0
        self._invalid = self._judged = self._failed = self._timeouts = 0
        self._repeated = self._retried = self._touches = self._history = self._background = 0
        self._changed = False
        """Whether any call so far may have changed something."""
        self._failing: set[str] = set()
        self._timed_out: set[str] = set()
        """Calls that failed, or timed out, since anything else may have changed something."""
        self._loops = LoopDetector()
        self._context = _Context()
        self._model_sec: float | None = None
        self._tool_sec: float | None = None
        self._embedded: list[Meter] = []

    def step(self, step: Step) -> None:
        """Take the next step, with all its results."""
        self.seen = True
        if step.is_copied_context:
            return
        self._steps += 1
        if (step.extra or {}).get("event") == COMPACTION:
            self._context.compacted()
        if step.metrics is not None:
            self._context.prompt(step.metrics.prompt_tokens)
            self._model_sec = _plus(self._model_sec, _seconds(step.metrics.extra))
        if step.tool_calls:
            self._turn(step)

    def subagent(self) -> Meter:
        """The meter of an embedded sub-agent, whose counts are part of these."""
        self._embedded.append(Meter())
        return self._embedded[-1]

    def result(self) -> Behaviour:
        """What was counted so far. What only exit codes and the like can tell is None where no call came with any."""
        loops = self._loops.result()
        told = self._judged > 0 or self._calls == 0

        def known(count: int) -> int | None:
            return count if told else None

        own = Behaviour(
            steps=self._steps,
            tool_calls=self._calls,
            subagents=0,
            turns=self._turns,
            parallel_turns=self._parallel_turns,
            parallel_calls=self._parallel_calls,
            parallel_inspections=self._parallel_inspections,
            early_inspections=self._early_inspections,
            judged_calls=self._judged,
            failed_calls=known(self._failed),
            invalid_calls=known(self._invalid),
            repeated_failures=known(self._repeated),
            timeouts=known(self._timeouts),
            timeout_retries=known(self._retried),
            loops=loops.count,
            looped_calls=loops.calls,
            longest_loop=loops.longest,
            test_touches=self._touches,
            history_reads=self._history,
            background_calls=self._background,
            context_first=self._context.first,
            context_last=self._context.last,
            context_max=self._context.most,
            compactions=self._context.compactions,
            model_sec=self._model_sec,
            tool_sec=self._tool_sec,
        )
        for each in self._embedded:
            if each.seen:
                own = with_subagent(own, each.result())
        return own

    def _turn(self, step: Step) -> None:
        calls = [facts_of(call) for call in step.tool_calls or ()]
        results = _results(step)
        ended = [results.get(call.tool_call_id) for call in step.tool_calls or ()]
        inspections = sum(call.inspects for call in calls)
        self._turns += 1
        self._calls += len(calls)
        if len(calls) > 1:
            self._parallel_turns += 1
            self._parallel_calls += len(calls)
            self._parallel_inspections += inspections
            self._early_inspections += self._inspections_before_a_change(calls)
        self._changed |= inspections < sum(not call.fault for call in calls)
        self._invalid += sum(call.fault for call in calls)
        self._touches += sum(call.touches_tests for call in calls)
        self._history += sum(call.reads_history for call in calls)
        self._background += sum(call.background for call in calls)
        self._repeated += sum(call.key in self._failing for call in calls)
        self._retried += sum(call.key in self._timed_out for call in calls)
        for call, result in zip(calls, ended, strict=True):
            self._outcome(call, result)
        self._tool_sec = _plus(self._tool_sec, _tool_seconds(calls, ended))

    def _inspections_before_a_change(self, calls: list[CallFacts]) -> int:
        """Inspections of one turn that come before anything was changed."""
        if self._changed:
            return 0
        before = 0
        for call in calls:
            if not call.inspects and not call.fault:
                break
            before += call.inspects
        return before

    def _outcome(self, call: CallFacts, result: ObservationResult | None) -> None:
        extra = (result.extra if result is not None else None) or {}
        failed, timed_out = failure_of(extra)
        failed = True if call.fault else failed
        if failed is not None:
            self._judged += 1
            self._failed += failed
            self._timeouts += timed_out
        self._loops.add(Happening(call.key, _text(result), failed))
        may_change = not (call.inspects or call.fault) and (call.shell or not failed)
        if may_change and call.key not in self._failing:
            self._failing.clear()
            self._timed_out.clear()
        if failed:
            self._failing.add(call.key)
        else:
            self._failing.discard(call.key)
        if timed_out:
            self._timed_out.add(call.key)


class _Context:
    """Prompt tokens from call to call."""

    def __init__(self) -> None:
        self.first: int | None = None
        self.last: int | None = None
        self.most: int | None = None
        self.compactions: int | None = None
        self._announced = False

    def compacted(self) -> None:
        """It was said that earlier turns were removed."""
        self.compactions = (self.compactions or 0) + 1
        self._announced = True

    def prompt(self, tokens: int | None) -> None:
        """Take the next call's prompt; one that shrank without a word was compacted, too."""
        if tokens is None:
            return
        shrank = self.last is not None and tokens < _SHRUNK * self.last
        self.compactions = (self.compactions or 0) + (shrank and not self._announced)
        self._announced = False
        self.first = tokens if self.first is None else self.first
        self.last = tokens
        self.most = max(tokens, self.most or 0)


def _results(step: Step) -> dict[str | None, ObservationResult]:
    return {result.source_call_id: result for result in (step.observation.results if step.observation else ())}


def failure_of(extra: Mapping[str, Any]) -> tuple[bool | None, bool]:
    """Whether a call failed, None where nothing structured tells; and whether its time ran out."""
    code = extra.get("exit_code")
    code = code if isinstance(code, int) and not isinstance(code, bool) else None
    timed_out = extra.get("timed_out") is True or code == _TIMED_OUT
    if timed_out or extra.get("error"):
        return True, timed_out
    if code is not None:
        return code != 0, False
    return (False, False) if "error" in extra else (None, False)


def _tool_seconds(calls: list[CallFacts], ended: list[ObservationResult | None]) -> float | None:
    """How long a turn's calls took: side by side where none runs a command or changes a file, else in turn."""
    known = [s for result in ended if result is not None and (s := _seconds(result.extra)) is not None]
    if not known:
        return None
    together = all((call.inspects and not call.shell) or call.delegates or call.fault for call in calls)
    return max(known) if together else sum(known)


def _seconds(extra: Mapping[str, Any] | None) -> float | None:
    value = (extra or {}).get("duration_sec")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < _MAX_SEC else None


def _plus(total: float | None, value: float | None) -> float | None:
    return total if value is None else (total or 0.0) + value


def _text(result: ObservationResult | None) -> str:
    if result is None or result.content is None:
        return ""
    if isinstance(result.content, str):
        return result.content
    return "\n".join(part.text or "" for part in result.content)

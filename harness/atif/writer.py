"""Writes a trajectory step by step; what is on disk is valid ATIF at every moment from the first step on.

Before the first step there is no document: ATIF demands at least one step. How a document can grow without ever being
torn is told in `harness.atif.document`.

A sub-agent's trajectory is written by a writer of its own, into this document: each is valid on its own at every
moment, and its totals stand in its own final metrics, not in those of the trajectory that it is embedded in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path
from typing import Any, Protocol

from harness import strict_json
from harness.atif.document import Document, EmbeddedDocument, GrowingDocument
from harness.atif.model import (
    WRITTEN_VERSION,
    AgentInfo,
    FinalMetrics,
    Metrics,
    Observation,
    ObservationResult,
    Step,
    SubagentRef,
    ToolCall,
)
from harness.atif.usage import Usage

INTERRUPTED = "[no result: the run ended while this call was running]"


class Watcher(Protocol):
    """Sees a trajectory grow."""

    def step(self, step: Step) -> None:
        """The next step, with all its results."""

    def subagent(self) -> Watcher:
        """Whoever is to see the trajectory of a sub-agent that starts now."""


class TrajectoryWriter:
    """The only writer of one trajectory.

    Attributes:
        path: the document. trajectory_id: its own id within another document; None for one that stands alone.
        own_usage: totals over the steps so far; usage: with those of the sub-agents.
        steps, tool_calls: how many there are so far.
    """

    def __init__(
        self,
        path: Path,
        *,
        session_id: str,
        agent_name: str,
        agent_version: str,
        model_name: str | None,
        redact: Callable[[str], str] | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        trajectory_id: str | None = None,
        extra: Mapping[str, Any] | None = None,
        document: Document | None = None,
        watcher: Watcher | None = None,
    ) -> None:
        """`redact` is applied to every string that is written; `now` gives the steps their timestamps.

        `trajectory_id` and `extra` are the document's own; `document` takes the place of the file at `path`. The
        `watcher` is shown every step once it is complete: when the next one begins, or at the end.
        """
        self.path = path
        self.own_usage = Usage()
        self.steps = 0
        self.tool_calls = 0
        self._session_id = session_id
        self._agent = AgentInfo(name=agent_name, version=agent_version, model_name=model_name)
        self._redact = redact
        self._now = now
        self._watcher = watcher
        self._head = b""
        self._document: Document = document or GrowingDocument(path)
        self.trajectory_id = trajectory_id
        self._extra = extra
        self._subagents: list[tuple[TrajectoryWriter, EmbeddedDocument]] = []
        self._delegated: dict[str, SubagentRef] = {}
        """The sub-agents of the latest step's calls."""
        self._settled = Usage()
        self._last: Step | None = None
        self._last_json = b""
        """The latest step as it was before its results: it may hold many token ids, and is made into JSON once."""
        self._deferring = False
        self._unsaved = False
        self._closed = False

    @property
    def usage(self) -> Usage:
        """What the run cost: these steps, and those of the sub-agents."""
        return reduce(Usage.and_of, (writer.usage for writer, _ in self._subagents), self.own_usage)

    def subagent(
        self, call_id: str | None, *, description: str, extra: Mapping[str, Any] | None = None
    ) -> TrajectoryWriter:
        """A writer for the sub-agent that the call `call_id` of the latest step starts; the call's result refers to it.

        None where nobody knows which call that was, or where there is none. `extra` is the document's own. Whoever asks
        for it closes it; closing this trajectory closes it, too.
        """
        if self._closed:
            raise ValueError("the trajectory is closed")
        if call_id is not None and call_id not in {call.tool_call_id for call in self._require_step().tool_calls or ()}:
            raise ValueError(f"{call_id!r} is not a call of the latest step")
        trajectory_id = f"{self._session_id}/subagent-{len(self._subagents) + 1}"
        document = EmbeddedDocument(self._save)
        writer = TrajectoryWriter(
            self.path,
            session_id=self._session_id,
            agent_name=self._agent.name,
            agent_version=self._agent.version,
            model_name=self._agent.model_name,
            redact=self._redact,
            now=self._now,
            trajectory_id=trajectory_id,
            extra={"description": description, **(extra or {})},
            document=document,
            watcher=self._watcher.subagent() if self._watcher else None,
        )
        self._subagents.append((writer, document))
        if call_id is not None:
            self._delegated[call_id] = SubagentRef(trajectory_id=trajectory_id)
        return writer

    def defer(self) -> None:
        """From now on, what is added goes to disk when `flush` or `close` is called."""
        self._deferring = True

    def flush(self) -> None:
        """Write what was deferred, if anything was. Raises OSError."""
        if self._unsaved:
            self._unsaved = False
            self._write()

    @property
    def open_calls(self) -> list[ToolCall]:
        """The calls of the latest step that have no result yet."""
        if self._last is None:
            return []
        results = self._last.observation.results if self._last.observation else []
        answered = {each.source_call_id for each in results}
        return [call for call in self._last.tool_calls or () if call.tool_call_id not in answered]

    def copy(self, step: Step) -> None:
        """Append a step of an earlier trajectory that this one continues. What it cost stays with the earlier one."""
        dump = step.model_dump(exclude_none=True, exclude={"step_id", "metrics", "is_copied_context"})
        for result in dump.get("observation", {}).get("results", ()):
            result.pop("subagent_trajectory_ref", None)
        self._append({**dump, "is_copied_context": True})

    def describe_tools(self, definitions: Sequence[Mapping[str, Any]]) -> None:
        """State the tools that the agent has, in OpenAI's function schema. Only before the first step."""
        if self.steps:
            raise ValueError("the tools are described before the first step")
        self._agent = self._agent.model_copy(update={"tool_definitions": [dict(each) for each in definitions]})

    def system(self, text: str, *, extra: Mapping[str, Any] | None = None) -> None:
        """Append a step of the system: a prompt, or an event that the harness caused."""
        self._append({"source": "system", "message": text, "extra": extra})

    def user(self, text: str, *, extra: Mapping[str, Any] | None = None) -> None:
        """Append a step of the user."""
        self._append({"source": "user", "message": text, "extra": extra})

    def agent(
        self,
        message: str,
        *,
        reasoning: str | None = None,
        tool_calls: Sequence[ToolCall] = (),
        metrics: Metrics | None = None,
        model_name: str | None = None,
        llm_calls: int = 1,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        """Append a step of the agent, before its calls run; `result` then adds what each of them returned.

        `llm_calls` is 0 for a step that no model took part in; such a step has neither metrics nor reasoning.
        """
        self._append(
            {
                "source": "agent",
                "message": message,
                "reasoning_content": reasoning,
                "tool_calls": [call.model_dump(exclude_none=True) for call in tool_calls] or None,
                "metrics": metrics.model_dump(exclude_none=True) if metrics else None,
                "model_name": model_name,
                "llm_call_count": llm_calls,
                "extra": extra,
            }
        )
        self.tool_calls += len(tool_calls)

    def result(self, call_id: str | None, content: str, *, extra: Mapping[str, Any] | None = None) -> None:
        """Add a result to the latest step: of the call `call_id`, or of no call in particular.

        Raises ValueError if that call is not in the latest step, or already has its result.
        """
        if self._closed:
            raise ValueError("the trajectory is closed")
        self._add_result(call_id, content, extra)

    def close(self) -> None:
        """Give every call that never returned its note, and leave one plain file. Idempotent."""
        if self._closed:
            return
        for writer, _ in self._subagents:
            writer.close()
        self._closed = True
        if self._last is not None:
            self._interrupt_open_calls()
            self._show_watcher()
            self.flush()
            self._document.finish()

    def _add_result(self, call_id: str | None, content: str, extra: Mapping[str, Any] | None) -> None:
        step = self._require_step()
        ref = self._delegated.get(call_id) if call_id is not None else None
        entry = {
            "source_call_id": call_id,
            "content": content,
            "subagent_trajectory_ref": [ref.model_dump(exclude_none=True)] if ref else None,
            "extra": extra,
        }
        result = ObservationResult.model_validate(self._clean({k: v for k, v in entry.items() if v is not None}))
        results = list(step.observation.results) if step.observation else []
        if result.source_call_id is not None:
            if result.source_call_id not in {call.tool_call_id for call in step.tool_calls or ()}:
                raise ValueError(f"step {step.step_id}: {call_id!r} is not a call of this step")
            if any(each.source_call_id == result.source_call_id for each in results):
                raise ValueError(f"step {step.step_id}: call {call_id!r} already has its result")
        self._last = step.model_copy(update={"observation": Observation(results=[*results, result])})
        self._save()

    def _append(self, fields: Mapping[str, Any]) -> None:
        if self._closed:
            raise ValueError("the trajectory is closed")
        if self._last is not None:
            self._interrupt_open_calls()
            self._show_watcher()
            self._settled = self.own_usage
            self._document.settle(self._last_item())
        self._delegated = {}
        stamped = {"step_id": self.steps + 1, "timestamp": self._now().isoformat(), **fields}
        self._last = Step.model_validate(self._clean({k: v for k, v in stamped.items() if v is not None}))
        self._last_json = strict_json.dumps(self._last.model_dump(exclude_none=True)).encode()
        self.steps += 1
        self.own_usage = self._settled.plus(self._last)
        self._save()

    def _interrupt_open_calls(self) -> None:
        for call in self.open_calls:
            self._add_result(call.tool_call_id, INTERRUPTED, {"interrupted": True})

    def _clean(self, fields: dict[str, Any]) -> dict[str, Any]:
        cleaned, notes = strict_json.clean(fields, self._redact)
        if notes:
            cleaned["extra"] = {**(cleaned.get("extra") or {}), "not_finite": notes}
        return dict(cleaned)

    def _show_watcher(self) -> None:
        if self._watcher is not None:
            self._watcher.step(self._require_step())

    def _require_step(self) -> Step:
        if self._last is None:
            raise ValueError("the trajectory has no step yet")
        return self._last

    def _save(self) -> None:
        self._unsaved = self._deferring
        if not self._deferring:
            self._write()

    def _write(self) -> None:
        if not self._head:
            self._head = self._make_head()
        self._document.update(self._head, self._last_item(), self._tail())

    def _last_item(self) -> bytes:
        observation = self._require_step().observation
        if observation is None:
            return self._last_json
        added = strict_json.dumps(observation.model_dump(exclude_none=True)).encode()
        return self._last_json.removesuffix(b"}") + b',"observation":' + added + b"}"

    def _make_head(self) -> bytes:
        head = {
            "schema_version": WRITTEN_VERSION,
            "session_id": self._session_id,
            **({"trajectory_id": self.trajectory_id} if self.trajectory_id else {}),
            "agent": self._agent.model_dump(exclude_none=True),
            **({"extra": dict(self._extra)} if self._extra else {}),
        }
        cleaned, _ = strict_json.clean(head, self._redact)
        return strict_json.dumps(cleaned).removesuffix("}").encode() + b',"steps":[\n'

    def _tail(self) -> bytes:
        usage = self.own_usage
        totals = FinalMetrics(
            total_prompt_tokens=usage.prompt_tokens,
            total_completion_tokens=usage.completion_tokens,
            total_cached_tokens=usage.cached_tokens,
            total_cost_usd=usage.cost_usd,
            total_steps=self.steps,
            extra={
                "model_calls": usage.calls,
                "unpriced_calls": usage.unpriced_calls,
                "incomplete": usage.incomplete,
                "tool_calls": self.tool_calls,
            },
        )
        embedded = b",\n".join(document.content for _, document in self._subagents if document.content)
        return b"".join(
            [
                b'\n],"final_metrics":',
                strict_json.dumps(totals.model_dump(exclude_none=True)).encode(),
                b',"subagent_trajectories":[\n' + embedded + b"]" if embedded else b"",
                b"}\n",
            ]
        )

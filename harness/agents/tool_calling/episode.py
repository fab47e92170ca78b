"""The loop: ask the model, run what it calls, show it the results, until something ends it.

Every answer is in the trajectory before its calls run, and every result as soon as it is there. A text without a call
is answered by one reminder; a second one in a row counts as the end of the work (see `text_is_final`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.agents.protocol import AgentResult, AgentRun
from harness.agents.tool_calling import prompt
from harness.agents.tool_calling.arguments import Finish
from harness.agents.tool_calling.budget import Spending
from harness.agents.tool_calling.calls import Call, parse_call
from harness.agents.tool_calling.config import LoopConfig
from harness.agents.tool_calling.history import History
from harness.agents.tool_calling.record import record_turn
from harness.agents.tool_calling.stuck import Repetition
from harness.agents.tool_calling.tools import Tool, ToolResult, Workbench, run_tool, schemas_of
from harness.atif.writer import TrajectoryWriter
from harness.failures import AgentStop
from harness.llm.protocol import CallContext, ChatModel, ContextOverflow, Message, Reply


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What a conversation is played with.

    Attributes:
        run: the run that it belongs to.
        trajectory: where this conversation is recorded: the run's own, or a sub-agent's.
        spending: what it may spend.
        bench, tools: what its calls work on, and which there are.
        text_is_final: a text without a call ends it.
        subagent: the description of the sub-agent whose conversation it is.
    """

    config: LoopConfig
    model: ChatModel
    run: AgentRun
    trajectory: TrajectoryWriter
    spending: Spending
    bench: Workbench
    tools: Mapping[str, Tool]
    text_is_final: bool
    subagent: str | None = None


class Episode:
    """One run of the loop over one conversation. `answer` is the last that the agent said, its summary first of all."""

    def __init__(
        self, scene: Scene, history: History, *, next_message: Callable[[], str | None] = lambda: None
    ) -> None:
        """`next_message` gives what the user says when the agent has finished; None ends the run."""
        self.answer = ""
        self._scene = scene
        self._config = scene.config
        self._spending = scene.spending
        self._trajectory = scene.trajectory
        self._schemas = schemas_of(scene.tools)
        self._history = history
        self._next_message = next_message
        self._repetition = Repetition(self._config.stuck_after)
        self._asked = 0
        self._just_compacted = False
        self._empty = self._bad = self._texts = 0
        """Turns in a row that were empty, that held nothing to run, or that were text only."""

    async def play(self) -> AgentResult:
        """Take turns until one of them ends the run. The conversation's opening is recorded by whoever starts it."""
        while True:
            limit = self._spending.exceeded()
            if limit is not None:
                return self._end(*limit)
            try:
                reply = await self._ask()
            except ContextOverflow as error:
                if not self._compacted():
                    return self._end(AgentStop.CONTEXT_OVERFLOW, str(error))
                continue
            result = await self._turn(reply)
            if result is None:
                continue
            message = self._next_message() if result.stop is AgentStop.FINISHED else None
            if message is None:
                return result
            self._go_on(message)

    def _go_on(self, message: str) -> None:
        """The user says more: the conversation continues, and nothing that was counted in a row counts any more."""
        self._history.add(Message(role="user", content=message))
        self._trajectory.user(message, extra={"event": "user_turn"})
        self._repetition = Repetition(self._config.stuck_after)
        self._empty = self._bad = self._texts = 0

    async def _ask(self) -> Reply:
        run = self._scene.run
        context = CallContext(
            task_name=run.task_name,
            step=run.step.name,
            subagent=self._scene.subagent,
            turn=self._asked,
            seed=run.seed,
            time_left=max(0.0, self._spending.time_left()),
        )
        self._asked += 1
        self._spending.take_turn()
        try:
            reply = await self._scene.model.complete(self._history.messages(), self._schemas, context)
        except BaseException:
            self._spending.give_back_turn()
            raise
        self._spending.add(reply)
        self.answer = reply.content or self.answer
        self._just_compacted = False
        return reply

    async def _turn(self, reply: Reply) -> AgentResult | None:
        if reply.tool_calls:
            return await self._calls(reply, [parse_call(request, self._scene.tools) for request in reply.tool_calls])
        if reply.refusal is not None:
            self._record(reply, refusal=reply.refusal)
            return self._end(AgentStop.REFUSAL, reply.refusal[:300])
        if not reply.content.strip():
            return self._nothing(reply)
        if reply.truncated:
            return self._cut_text(reply)
        return self._text(reply)

    def _nothing(self, reply: Reply) -> AgentResult | None:
        self._record(reply, empty=True)
        self._empty += 1
        if self._empty >= self._config.max_empty_answers:
            return self._end(AgentStop.EMPTY_RESPONSES, f"{self._empty} empty answers in a row")
        self._history.nudge(prompt.EMPTY)
        return None

    def _cut_text(self, reply: Reply) -> AgentResult | None:
        self._record(reply)
        self._history.add(Message(role="assistant", content=reply.content))
        self._history.nudge(prompt.CUT_TEXT)
        return self._bad_turn("answers cut at the token limit")

    def _text(self, reply: Reply) -> AgentResult | None:
        self._record(reply)
        self._texts += 1
        self._empty = self._bad = 0
        self._history.add(Message(role="assistant", content=reply.content))
        if self._scene.text_is_final or self._texts > 1:
            return self._end(AgentStop.FINISHED, "the model answered with text alone")
        self._history.nudge(prompt.TEXT_ONLY)
        return None

    async def _calls(self, reply: Reply, calls: Sequence[Call]) -> AgentResult | None:
        self._record(reply, calls)
        self._empty = self._texts = 0
        results = await self._execute(calls, truncated=reply.truncated)
        self._history.add(
            Message(role="assistant", content=reply.content, tool_calls=tuple(call.for_history() for call in calls)),
            *(Message(role="tool", content=results[call.id].content, tool_call_id=call.id) for call in calls),
        )
        if reply.truncated or all(call.fault for call in calls):
            return self._bad_turn("answers cut at the token limit" if reply.truncated else "malformed calls")
        self._bad = 0
        for call in calls:
            if isinstance(call.arguments, Finish):
                self.answer = call.arguments.summary or reply.content
                return self._end(AgentStop.FINISHED)
        repeated = self._repetition.of([(call.name, call.values, results[call.id].content) for call in calls])
        if repeated is not None:
            return self._end(AgentStop.STUCK, f"the same calls with the same results {repeated} times in a row")
        return None

    def _bad_turn(self, what: str) -> AgentResult | None:
        self._bad += 1
        self._empty = self._texts = 0
        if self._bad >= self._config.max_malformed_turns:
            return self._end(AgentStop.MALFORMED_CALLS, f"{self._bad} turns in a row with {what}")
        return None

    async def _execute(self, calls: Sequence[Call], *, truncated: bool) -> dict[str, ToolResult]:
        """The results by call id: side by side if all calls may, else in the order of the calls."""
        results: dict[str, ToolResult] = {}

        async def one(call: Call) -> None:
            if truncated:
                result = ToolResult(content=f"error: {prompt.CUT_CALL}", error="truncated")
            elif call.tool is None or call.arguments is None:
                result = ToolResult(content=call.complaint, error=call.fault)
            else:
                result = await run_tool(call.tool, call.arguments, replace(self._scene.bench, call_id=call.id))
            results[call.id] = result
            self._trajectory.result(call.id, result.content, extra=result.extra())

        if truncated or not all(call.side_by_side or call.fault for call in calls):
            for call in calls:
                await one(call)
            return results
        try:
            async with asyncio.TaskGroup() as group:
                for call in calls:
                    group.create_task(one(call))
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None
        return results

    def _compacted(self) -> bool:
        """Make room after an overflow; only once until the model answers again."""
        if not self._config.compact or self._just_compacted:
            return False
        self._just_compacted = self._history.compact(
            keep_messages=self._config.compact_keep_messages, max_result_chars=self._config.compact_result_chars
        )
        if self._just_compacted:
            self._trajectory.system(
                prompt.COMPACTED, extra={"event": "compaction", "messages_kept": len(self._history.messages())}
            )
        return self._just_compacted

    def _record(self, reply: Reply, calls: Sequence[Call] = (), **flags: bool | str) -> None:
        record_turn(
            self._trajectory,
            self._scene.run.rollout,
            reply,
            calls,
            sampling=self._scene.model.sampling,
            extra={"turn": self._spending.turns, **flags},
        )

    def _end(self, stop: AgentStop, detail: str | None = None) -> AgentResult:
        return AgentResult(stop=stop, detail=detail, metadata={"turns": self._spending.turns})

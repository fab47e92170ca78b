"""The loop: ask the model, run what it calls, show it the results, until something ends it.

Every answer is in the trajectory before its calls run, and every result as soon as it is there. A text without a call
is answered by one reminder; a second one in a row counts as the end of the work (see `text_is_final`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from harness.agents.protocol import AgentResult, AgentRun
from harness.agents.tool_calling import prompt
from harness.agents.tool_calling.budget import Budget, Spending
from harness.agents.tool_calling.calls import Call, parse_call
from harness.agents.tool_calling.config import LoopConfig
from harness.agents.tool_calling.history import History
from harness.agents.tool_calling.record import record_answer, record_opening
from harness.agents.tool_calling.stuck import Repetition
from harness.agents.tool_calling.tools import SCHEMAS, ToolLimits, ToolResult, Workbench, run_tool
from harness.failures import AgentStop
from harness.llm.protocol import CallContext, ChatModel, ContextOverflow, Message, Reply


class ToolCallingAgent:
    """The agent: a model, a loop's settings, and no state between runs."""

    version = "1.0"

    def __init__(
        self,
        config: LoopConfig,
        model: ChatModel,
        *,
        name: str = "tool_calling",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self._model = model
        self._name = name
        self._clock = clock

    @property
    def name(self) -> str:
        """The name that it was asked for by."""
        return self._name

    @property
    def model_name(self) -> str | None:
        """The model's name at its endpoint."""
        return self._model.name

    async def run(self, run: AgentRun) -> AgentResult:
        """Work on one instruction. Raises ModelError and SandboxError; everything else is a result."""
        return await _Episode(self._config, self._model, run, self._clock).play()

    async def close(self) -> None:
        """Release the model's connections."""
        await self._model.close()


class _Episode:
    """One run."""

    def __init__(self, config: LoopConfig, model: ChatModel, run: AgentRun, clock: Callable[[], float]) -> None:
        self._config = config
        self._model = model
        self._run = run
        budget = Budget(turns=config.max_turns, tokens=config.token_budget, cost_usd=config.cost_budget_usd)
        self._spending = Spending(budget, run.timeout_sec, clock)
        limits = ToolLimits(
            output_chars=config.output_chars,
            command_sec=config.command_timeout_sec,
            max_command_sec=config.max_command_timeout_sec,
        )
        self._bench = Workbench(
            sandbox=run.sandbox, limits=limits, time_left=self._spending.time_left, user=run.step.agent_user
        )
        self._history = History(
            head=(
                Message(role="system", content=config.system_prompt or prompt.SYSTEM),
                Message(role="user", content=run.step.instruction),
            )
        )
        self._repetition = Repetition(config.stuck_after)
        self._asked = 0
        self._just_compacted = False
        self._empty = self._bad = self._texts = 0
        """Turns in a row that were empty, that held nothing to run, or that were text only."""

    async def play(self) -> AgentResult:
        """Take turns until one of them ends the run."""
        record_opening(self._run.trajectory, self._history.head)
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
            if result is not None:
                return result

    async def _ask(self) -> Reply:
        context = CallContext(
            task_name=self._run.task_name,
            turn=self._asked,
            seed=self._run.seed,
            time_left=max(0.0, self._spending.time_left()),
        )
        self._asked += 1
        reply = await self._model.complete(self._history.messages(), SCHEMAS, context)
        self._spending.add(reply)
        self._just_compacted = False
        return reply

    async def _turn(self, reply: Reply) -> AgentResult | None:
        if reply.tool_calls:
            return await self._calls(reply, [parse_call(request) for request in reply.tool_calls])
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
        if self._config.text_is_final or self._texts > 1:
            return self._end(AgentStop.FINISHED, "the model answered with text alone")
        self._history.add(Message(role="assistant", content=reply.content))
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
        if any(call.name == "finish" and not call.fault for call in calls):
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
        """The results by call id: side by side if no call changes anything, else in the order of the calls."""
        results: dict[str, ToolResult] = {}

        async def one(call: Call) -> None:
            if truncated:
                result = ToolResult(content=f"error: {prompt.CUT_CALL}", error="truncated")
            elif call.tool is None or call.arguments is None:
                result = ToolResult(content=call.complaint, error=call.fault)
            else:
                result = await run_tool(call.tool, call.arguments, self._bench)
            results[call.id] = result
            self._run.trajectory.result(call.id, result.content, extra=result.extra())

        if truncated or not all(call.inspects or call.fault for call in calls):
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
            self._run.trajectory.system(
                prompt.COMPACTED, extra={"event": "compaction", "messages_kept": len(self._history.messages())}
            )
        return self._just_compacted

    def _record(self, reply: Reply, calls: Sequence[Call] = (), **flags: bool | str) -> None:
        record_answer(
            self._run.trajectory,
            self._run.rollout,
            reply,
            calls,
            sampling=self._model.sampling,
            extra={"turn": self._spending.turns, **flags},
        )

    def _end(self, stop: AgentStop, detail: str | None = None) -> AgentResult:
        return AgentResult(stop=stop, detail=detail, metadata={"turns": self._spending.turns})

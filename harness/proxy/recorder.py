"""Puts what passes through the proxy on record: each conversation into a trajectory, each answer's tokens beside it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from harness import strict_json
from harness.atif.model import Step, ToolCall
from harness.atif.writer import TrajectoryWriter
from harness.llm.protocol import Message, Reply, ToolRequest
from harness.proxy.conversation import Conversation, Conversations, Said, reply_digest
from harness.proxy.conversation import digest as digest_of
from harness.store.rollout import RolloutWriter
from harness.store.rollout.answer import record_answer

Json = Mapping[str, Any]

_NOT_SAMPLING = {"messages", "tools", "model", "stream", "stream_options", "user", "metadata", "store"}
_MAX_ECHO = 800
_SAVE_SEC = 0.05
_DESCRIPTION = 200


class Recorder:
    """Writes for one trial. Its calls come one at a time, however many requests are in flight."""

    def __init__(self, trajectory: TrajectoryWriter, rollout: RolloutWriter) -> None:
        trajectory.defer()
        self._trajectory = trajectory
        self._rollout = rollout
        self._conversations = Conversations()
        self._client: str | None = None
        self._arguments: dict[str, str] = {}
        """What the model wrote, by call id: clients parse arguments, and spell them anew in the history."""
        self.failed: Callable[[OSError], None] = lambda error: None
        """Told when the record cannot be written."""
        self._disk = threading.Lock()
        self._unsaved = False
        self._saving: asyncio.Task[None] | None = None
        self.conversations = 0
        """How many there are, the agent's own included."""

    def as_sampled(self, messages: Sequence[Json]) -> list[Json]:
        """The history with the arguments of its calls spelled as they were sampled, where they are the same values."""
        return [self._as_sampled(message) for message in messages]

    def expected(self, said: Said) -> tuple[int, str | None]:
        """The answers that the conversation of a request had before, and its description (None: the agent's own)."""
        conversation = self._conversations.continued_by(said.links)
        if conversation is not None:
            return conversation.answers, conversation.description
        return 0, _description(said.messages) if self.conversations else None

    def answered(
        self, said: Said, question: Json, reply: Reply, *, sampling: Mapping[str, Any], extra: Json, client: str
    ) -> None:
        """Record what a request says that is new, and its answer. `client` is how the asking program calls itself.

        It is on disk a moment later.
        """
        with self._disk:
            self._answered(said, question, reply, sampling=sampling, extra=extra, client=client)
        self._save_soon()

    def _answered(
        self, said: Said, question: Json, reply: Reply, *, sampling: Mapping[str, Any], extra: Json, client: str
    ) -> None:
        messages, links = said.messages, said.links
        self._client = self._client or client
        conversation = self._conversations.continued_by(links)
        if conversation is None:
            conversation = self._begin(messages, self._conversations.shared(links), question, client)
            new: Sequence[Message] = messages
        else:
            new = messages[conversation.length :]
        trajectory = conversation.trajectory
        if not new:
            extra = {**extra, "asked_again": True}
        _record_messages(trajectory, new, conversation.spelled)
        record_answer(
            trajectory,
            self._rollout,
            reply,
            [_recorded(call) for call in reply.tool_calls],
            sampling={**{key: question[key] for key in question.keys() - _NOT_SAMPLING}, **sampling},
            extra={**extra, "truncated": True} if reply.truncated else extra,
        )
        for call in reply.tool_calls:
            self._arguments[call.id] = call.arguments
        conversation.answers += 1
        conversation.spelled = reply_digest(reply)
        self._conversations.moved(conversation, links)

    def event(self, text: str, extra: Json) -> None:
        """Something that the proxy did, as a step of the system."""
        with self._disk:
            self._trajectory.system(text, extra=extra)
        self._save_soon()

    async def close(self) -> None:
        """Finish the embedded trajectories, and have everything on disk. Raises OSError."""
        if self._saving is not None:
            await self._saving
        for conversation in self._conversations.by_link.values():
            if conversation.trajectory is not self._trajectory:
                conversation.trajectory.close()
        await asyncio.to_thread(self._save)

    def _save_soon(self) -> None:
        """No answer waits for the disk, and the disk is not asked for every answer of a fast agent."""
        self._unsaved = True
        if self._saving is None or self._saving.done():
            self._saving = asyncio.create_task(self._keep_saving())

    async def _keep_saving(self) -> None:
        try:
            while self._unsaved:
                await asyncio.sleep(_SAVE_SEC)
                self._unsaved = False
                await asyncio.to_thread(self._save)
        except OSError as error:
            self.failed(error)

    def _save(self) -> None:
        with self._disk:
            self._trajectory.flush()

    def _begin(self, messages: Sequence[Message], shared: int, question: Json, client: str) -> Conversation:
        first = self.conversations == 0
        self.conversations += 1
        tools = [tool for tool in question.get("tools") or () if isinstance(tool, Mapping)]
        if first:
            trajectory = self._trajectory
        else:
            about = {
                "shared_messages": shared,
                **({"client": client[:_DESCRIPTION]} if client != self._client else {}),
            }
            call_id = _starter(self._trajectory, messages)
            trajectory = self._trajectory.subagent(call_id, description=_description(messages), extra=about)
        if trajectory.steps == 0:
            trajectory.describe_tools(tools)
        return Conversation(trajectory, None if first else _description(messages))

    def _as_sampled(self, message: Json) -> Json:
        calls = message.get("tool_calls")
        if not isinstance(calls, list):
            return message
        return {**message, "tool_calls": [self._spelled(call) for call in calls]}

    def _spelled(self, call: Any) -> Any:
        if not isinstance(call, Mapping) or not isinstance(call.get("function"), Mapping):
            return call
        written = self._arguments.get(str(call.get("id")))
        given = call["function"].get("arguments")
        if written is None or written == given or not _same(written, given):
            return call
        return {**call, "function": {**call["function"], "arguments": written}}


def _same(written: str, given: object) -> bool:
    try:
        return isinstance(given, str) and bool(strict_json.loads(written or "{}") == strict_json.loads(given or "{}"))
    except ValueError:
        return False


def _description(messages: Sequence[Message]) -> str:
    """The beginning of the first thing that was asked for."""
    asked = next((each.content for each in messages if each.role == "user" and each.content.strip()), "a conversation")
    return " ".join(asked.split())[:_DESCRIPTION]


def _starter(trajectory: TrajectoryWriter, messages: Sequence[Message]) -> str | None:
    """The call of the agent's latest step that has a conversation's first request among its arguments."""
    asked = [each.content.strip() for each in messages if each.role == "user" and each.content.strip()][:2]
    for call in trajectory.open_calls:
        for value in call.arguments.values():
            if isinstance(value, str) and value.strip() and any(value.strip() in each for each in asked):
                return call.tool_call_id
    return None


def _record_messages(trajectory: TrajectoryWriter, messages: Sequence[Message], spelled: bytes) -> None:
    """Messages that no step holds yet; the answer that was just given is one already."""
    for position, message in enumerate(messages):
        if message.role == "assistant":
            if position == 0 and digest_of(message) == spelled:
                continue
            calls = [_recorded(call).model_dump(exclude_none=True) for call in _unique(message.tool_calls)]
            step = Step(
                step_id=1, source="agent", message=message.content, tool_calls=[ToolCall(**c) for c in calls] or None
            )
            trajectory.copy(step)
        elif message.role == "tool":
            _record_result(trajectory, message)
        elif message.role == "user":
            trajectory.user(message.content)
        else:
            trajectory.system(message.content)


def _record_result(trajectory: TrajectoryWriter, message: Message) -> None:
    if message.tool_call_id in {call.tool_call_id for call in trajectory.open_calls}:
        trajectory.result(message.tool_call_id, message.content)
        return
    trajectory.agent("", llm_calls=0, extra={"event": "result_without_call", "tool_call_id": message.tool_call_id})
    trajectory.result(None, message.content)


def _unique(calls: Sequence[ToolRequest]) -> list[ToolRequest]:
    return list({call.id: call for call in calls}.values())


def _recorded(call: ToolRequest) -> ToolCall:
    """A call as ATIF has it: arguments that are no JSON object stand beside an empty one."""
    try:
        values = strict_json.loads(call.arguments or "{}")
        fault = None if isinstance(values, dict) else "the arguments are no JSON object"
    except ValueError:
        values, fault = {}, "the arguments are not JSON"
    extra = None
    if fault:
        raw = {"raw_arguments": call.arguments[:_MAX_ECHO], "raw_length": len(call.arguments)}
        extra = {"fault": "malformed", "parse_error": fault, **raw}
    return ToolCall(
        tool_call_id=call.id,
        function_name=call.name[:200] or "unknown",
        arguments=values if isinstance(values, dict) else {},
        extra=extra,
    )

"""The agent that is a program of its own: it acts in the sandbox, and its model answers through the proxy."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from backends.spec import Layer
from harness.agents.cli_native.config import CliConfig, Dialect
from harness.agents.cli_native.ends import read_end
from harness.agents.cli_native.install import PREFIX
from harness.agents.cli_native.program import Ended, Program
from harness.agents.cli_native.prompt import prompt_of, refuse_what_needs_a_talk, with_skills
from harness.agents.protocol import AgentResult, AgentRun
from harness.errors import AgentSetupError
from harness.failures import AgentStop
from harness.proxy import Budget, Lease, ModelProxy, relayed
from harness.proxy.queue.relay import Address
from harness.proxy.service import Source
from harness.redaction import Redactor
from harness.store.files import write_atomic

_RESERVE_SEC = 10.0
_RESERVE_SHARE = 0.1
_BEGUN = object()
"""A session's conversation: the program keeps its own, in the sandbox."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reach:
    """How the program reaches its model."""

    base_url: str
    key: str


class CliAgent:
    """Runs the program once for each thing that it is told.

    One proxy serves all trials that reach this machine under the same address.
    """

    def __init__(self, config: CliConfig, *, name: str, layer: Layer | None, source: Callable[[], Source]) -> None:
        """`source` makes what answers, for one proxy."""
        self.name = name
        self.version = config.version
        self.model_name: str | None = config.model
        self.layer = layer
        self._config = config
        self._source = source
        self._proxies: dict[str, ModelProxy] = {}
        self._starting = asyncio.Lock()

    async def run(self, run: AgentRun) -> AgentResult:
        """Run the program to its end, or to that of its budget.

        Raises TaskUnsupported for a task that needs a talk that the program cannot have, AgentSetupError for a program
        that never asked its model, and what ended the model's answers if that was not the agent's doing.
        """
        config = self._config
        refuse_what_needs_a_talk(run, continues=config.continues)
        proxy = await self._proxy(run.sandbox.host_address or "127.0.0.1")
        budget = Budget(
            requests=config.max_turns,
            tokens=config.token_budget,
            cost_usd=config.cost_budget_usd,
            seconds=run.timeout_sec,
        )
        lease = proxy.open(
            task_name=run.task_name,
            step=run.step.name,
            seed=run.seed,
            trajectory=run.trajectory,
            rollout=run.rollout,
            budget=budget,
        )
        try:
            async with self._reach(lease, run) as reach:
                result = await self._talk(run, lease, reach)
        finally:
            await lease.close()
        lease.raise_failure()
        return result

    async def close(self) -> None:
        """End the proxies."""
        for proxy in self._proxies.values():
            await proxy.__aexit__(None, None, None)
        self._proxies.clear()

    async def _proxy(self, host: str) -> ModelProxy:
        async with self._starting:
            if host not in self._proxies:
                self._proxies[host] = await ModelProxy(self._source(), host=host).__aenter__()
            return self._proxies[host]

    @asynccontextmanager
    async def _reach(self, lease: Lease, run: AgentRun) -> AsyncIterator[_Reach]:
        """Directly where the sandbox reaches this machine, else through a queue of files inside it."""
        if run.sandbox.host_address is not None:
            yield _Reach(base_url=_base_url(lease, self._config.dialect), key=lease.key)
            return
        async with relayed(lease, run.sandbox, user=run.step.agent_user) as inside:
            yield _Reach(base_url=_base_url(inside, self._config.dialect), key=inside.key)

    async def _talk(self, run: AgentRun, lease: Lease, reach: _Reach) -> AgentResult:
        """Tell the program the instruction and, each time that it has finished, what the user says next."""
        config, session = self._config, run.session
        until = time.monotonic() + run.timeout_sec - min(_RESERVE_SEC, run.timeout_sec * _RESERVE_SHARE)
        continued = session.interaction.conversation == "continue" and session.conversation is not None
        message: str | None = run.step.instruction if continued else prompt_of(run, skills=config.skills)
        number, result = 0, AgentResult()
        while message is not None:
            number, answered = number + 1, lease.answers
            program = Program(
                sandbox=run.sandbox,
                command=with_skills(config.command, config.skills),
                env=self._env(run, reach, continued=continued),
                user=run.step.agent_user,
                timeout=max(0.0, until - time.monotonic()),
                result=config.result,
                log_bytes=config.log_bytes,
            )
            ended = await program.run(message, over=lease.ended, grace=config.ending_sec)
            self._keep(run, lease, ended, number)
            result = self._result(lease, ended)
            if result.stop is AgentStop.FINISHED and lease.answers == answered:
                return replace(result, stop=AgentStop.EXITED, detail="the program asked its model nothing any more")
            session.conversation, continued = _BEGUN, True
            message = session.next_turn() if result.stop is AgentStop.FINISHED else None
        return result

    def _env(self, run: AgentRun, reach: _Reach, *, continued: bool) -> dict[str, str]:
        """The command's variables. The key is nowhere but here, and in what the program makes of it."""
        config = self._config
        known = {
            "base_url": reach.base_url,
            "key": reach.key,
            "model": config.model_alias or config.model,
            "context_window": config.context_window,
            "max_output_tokens": config.max_output_tokens,
        }
        env = {name: filled(template, known) for name, template in config.env.items()}
        told = {
            "MODEL": str(known["model"]),
            "PREFIX": PREFIX,
            "CONTINUED": "1" if continued else None,
            "SKILLS": run.session.interaction.skills_dir,
            "CONTEXT_WINDOW": None if config.context_window is None else str(config.context_window),
            "MAX_OUTPUT_TOKENS": None if config.max_output_tokens is None else str(config.max_output_tokens),
        }
        return {name: value for name, value in {**told, **env}.items() if value is not None}

    def _keep(self, run: AgentRun, lease: Lease, ended: Ended, number: int) -> None:
        """What the program said in its run of that number, without secrets."""
        clean = Redactor([lease.key])
        for name, text in (("stdout", ended.stdout), ("stderr", ended.stderr)):
            if text:
                file = f"{name}.txt" if number == 1 else f"{name}-{number}.txt"
                write_atomic(run.logs_dir / file, clean(run.redact(text)), durable=False)

    def _result(self, lease: Lease, ended: Ended) -> AgentResult:
        """Why it stopped: by what the proxy knows, then by its own result; its exit code is what it is."""
        lease.raise_failure()
        metadata = {"exit_code": ended.exit_code, "conversations": lease.recorder.conversations}
        words = Redactor([lease.key])(ended.last_words)
        if lease.answers == 0 and not lease.overflowed:
            if lease.trouble is not None:
                raise lease.trouble
            how = "was killed" if ended.exit_code is None else f"ended (exit code {ended.exit_code})"
            raise AgentSetupError(f"{self.name} {how} without one answer of its model: {words}")
        if lease.stop is not None:
            detail = f"{lease.detail}; the program did not end by itself" if ended.cut_off else lease.detail
            return AgentResult(stop=lease.stop, detail=detail, metadata=metadata)
        if ended.timed_out:
            detail = "the program was ended at its deadline"
            return AgentResult(stop=AgentStop.TIMEOUT, detail=detail, metadata=metadata)
        told = read_end(self._config.ends, ended.result, ended.exit_code)
        if told is None:
            good = not self._config.ends and ended.exit_code == 0
            told = (AgentStop.FINISHED, None) if good else (AgentStop.EXITED, None)
        stop, detail = told
        if stop is not AgentStop.FINISHED and lease.trouble is not None:
            raise lease.trouble
        if stop is AgentStop.EXITED and lease.overflowed:
            stop = AgentStop.CONTEXT_OVERFLOW
        if stop is AgentStop.EXITED:
            detail = f"exit code {ended.exit_code}: {detail or words}"
        return AgentResult(stop=stop, detail=detail, metadata=metadata)


def _base_url(address: Lease | Address, dialect: Dialect) -> str:
    """What clients of a dialect are told to add their paths to."""
    match dialect:
        case "messages":
            return address.anthropic_base_url
        case "gemini":
            return address.google_base_url
        case "chat" | "responses":
            return address.openai_base_url


def filled(template: str, known: dict[str, str | int | None]) -> str | None:
    """A variable's value; None if it names something that is not set."""
    for name, value in known.items():
        mark = f"{{{name}}}"
        if mark in template:
            if value is None:
                return None
            template = template.replace(mark, str(value))
    return template

"""One execution of an agent's program in its sandbox: started, watched, ended, and what it said brought back."""

from __future__ import annotations

import asyncio
import secrets
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from backends.errors import SandboxError
from backends.protocol import SandboxBackendProtocol
from backends.spec import ExecuteResponse

LOGS = "/logs/agent"
"""A folder of the sandbox whose content the trial keeps."""

_HELPER_SEC = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How the program ended, and the last bytes of what it said.

    Attributes:
        exit_code: None if it was killed.
        timed_out: its deadline passed. cut_off: it went on although its model answered no more, and was killed.
        result: its structured result, from stdout or from a file.
    """

    exit_code: int | None
    timed_out: bool
    cut_off: bool
    stdout: str
    stderr: str
    result: str

    @property
    def last_words(self) -> str:
        """Its last line on stderr, else on stdout."""
        lines = (self.stderr.strip() or self.stdout.strip()).splitlines()
        return lines[-1].strip()[-300:] if lines else "it said nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What to run, by whom, and for how long; times in seconds."""

    sandbox: SandboxBackendProtocol
    command: str
    env: Mapping[str, str]
    user: str | None
    timeout: float
    result: str
    log_bytes: int

    async def run(self, prompt: str, *, over: asyncio.Event, grace: float) -> Ended:
        """Run it with the prompt on stdin. `over` tells that nothing answers it any more: it gets `grace` to end.

        Cancelled, it kills what it started.
        """
        place = f"/tmp/.agent-{secrets.token_hex(6)}"  # noqa: S108 – inside the sandbox
        script = (
            f"mkdir -p {LOGS} && (umask 077 && mkdir {place}) || exit 125\n"
            f"(\n{self.command}\n) >{place}/stdout 2>{place}/stderr\n"
        )
        work = asyncio.create_task(
            self.sandbox.execute(
                script,
                timeout=self.timeout,
                env={**self.env, "LOGS": LOGS},
                user=self.user,
                stdin=prompt.encode("utf-8", "replace"),
                max_output=4096,
            )
        )
        response = await _watched(work, over, grace)
        stdout, stderr, result = await self._collect(place)
        return Ended(
            exit_code=response.exit_code if response else None,
            timed_out=response.timed_out if response else False,
            cut_off=response is None,
            stdout=stdout,
            stderr=stderr or (response.output if response else ""),
            result=stdout if self.result == "stdout" else result,
        )

    async def _collect(self, place: str) -> tuple[str, str, str]:
        paths = [f"{place}/stdout", f"{place}/stderr"]
        if self.result != "stdout":
            paths.append(f"{LOGS}/{self.result}")
        said = [await self._tail(path) for path in paths]
        await self._quiet(f"rm -rf {place}")
        return said[0], said[1], said[2] if len(said) > 2 else ""

    async def _tail(self, path: str) -> str:
        """The end of a file; empty where there is none. What stands there is hostile, a link or a pipe included."""
        quoted = shlex.quote(path)
        response = await self._quiet(f"[ -f {quoted} ] && [ ! -L {quoted} ] && tail -c {self.log_bytes} {quoted}")
        return response.stdout.decode("utf-8", "replace") if response else ""

    async def _quiet(self, command: str) -> ExecuteResponse | None:
        try:
            return await self.sandbox.execute(
                command, timeout=_HELPER_SEC, cwd="/", user=self.user, max_output=self.log_bytes
            )
        except SandboxError:
            return None


async def _watched(work: asyncio.Task[ExecuteResponse], over: asyncio.Event, grace: float) -> ExecuteResponse | None:
    """The command's response; None if it was killed because it did not end by itself."""
    waiting = asyncio.create_task(over.wait())
    try:
        await asyncio.wait({work, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            await asyncio.wait({work}, timeout=grace)
        if work.done():
            return work.result()
        return None
    finally:
        waiting.cancel()
        work.cancel()
        await asyncio.gather(waiting, work, return_exceptions=True)

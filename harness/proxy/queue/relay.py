"""The queue's two ends, tied to the life of one agent's run."""

from __future__ import annotations

import asyncio
import secrets
import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

from backends.errors import SandboxError
from backends.protocol import SandboxBackendProtocol
from backends.spec import ExecuteResponse
from harness.errors import AgentSetupError
from harness.proxy.lease import Lease
from harness.proxy.queue.http import respond

if TYPE_CHECKING:
    from harness.proxy.app import App

_POLL_SEC = 20
_CALL_SEC = 60.0
_MAX_NEWS = 160 << 20
"""One poll's output: the relay stops at 32 MiB, but always tells of one request, of at most 64 MiB and its head."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """How the agent reaches the model from inside: the same words as a lease's."""

    anthropic_base_url: str
    google_base_url: str
    openai_base_url: str
    key: str


@asynccontextmanager
async def relayed(lease: Lease, sandbox: SandboxBackendProtocol, *, user: str | None = None) -> AsyncIterator[Address]:
    """A relay in the sandbox, for as long as the context lasts. `user` is whom it runs as: the agent's own is best.

    If the sandbox fails on the way, that is the lease's `failure`. Raises AgentSetupError where the sandbox has no
    perl, and SandboxError where it fails at the start.
    """
    assert lease.app is not None
    queue = Queue(sandbox, f"/tmp/.model-{secrets.token_hex(6)}", user=user)  # noqa: S108 – inside the sandbox
    try:
        port = await queue.start()
        pump = asyncio.create_task(_pump(queue, lease, lease.app))
        try:
            url = f"http://127.0.0.1:{port}/{lease.name}"
            yield Address(anthropic_base_url=url, google_base_url=url, openai_base_url=f"{url}/v1", key=lease.key)
        finally:
            pump.cancel()
            await asyncio.gather(pump, return_exceptions=True)
    finally:
        with suppress(SandboxError):
            await asyncio.shield(queue.stop())


class Queue:
    """The files in the sandbox, and the relay's commands on them. What they print is hostile."""

    def __init__(self, sandbox: SandboxBackendProtocol, folder: str, *, user: str | None) -> None:
        self.session = ""
        self._sandbox = sandbox
        self._folder = folder
        self._user = user

    async def start(self) -> int:
        """Start the relay; its port."""
        program = files("harness.proxy.queue").joinpath("relay.pl").read_bytes()
        made = await self._sandbox.execute(
            f"command -v perl >/dev/null || exit 127; umask 077; mkdir {self._folder} && cat > {self._folder}/relay.pl",
            timeout=_CALL_SEC,
            user=self._user,
            stdin=program,
        )
        if made.exit_code == 127:
            raise AgentSetupError(
                "a sandbox without a network reaches the model through a relay in Perl, and this image has no perl: "
                "install perl-base in it, or give the sandbox a network"
            )
        started = await self._call("start")
        words = started.stdout.decode("ascii", "replace").split()
        if made.exit_code != 0 or started.exit_code != 0 or len(words) != 2 or not words[0].isdecimal():
            raise AgentSetupError(f"the relay to the model did not start: {(started.output or made.output)[:300]}")
        self.session = words[1]
        return int(words[0])

    async def poll(self, received: list[int]) -> list[tuple[str, int, bytes]]:
        """News, after at most 20 s: ("R", index, request), ("G", index, b"") or ("E", 0, b"")."""
        acks = ",".join(map(str, received))
        answer = await self._call("poll", self.session, str(_POLL_SEC), acks, timeout=_POLL_SEC + _CALL_SEC)
        return list(_news(answer.stdout))

    async def deliver(self, index: int, part: int, data: bytes, *, last: bool) -> bool:
        """Hand over one piece of a response; False where nobody waits for it any more. The same piece twice is one."""
        where = (str(index), str(part), "1" if last else "")
        return (await self._call("deliver", self.session, *where, stdin=data)).exit_code == 0

    async def stop(self) -> None:
        """End the relay, and remove its files."""
        await self._call("stop")

    async def _call(
        self, command: str, *arguments: str, stdin: bytes = b"", timeout: float = _CALL_SEC
    ) -> ExecuteResponse:
        argv = shlex.join(["perl", f"{self._folder}/relay.pl", command, self._folder, *arguments])
        return await self._sandbox.execute(argv, timeout=timeout, user=self._user, stdin=stdin, max_output=_MAX_NEWS)


async def _pump(queue: Queue, lease: Lease, app: App) -> None:
    """Fetch requests until cancelled, and answer each in a task of its own."""
    answers: dict[int, asyncio.Task[None]] = {}
    received: list[int] = []
    try:
        while True:
            news = await queue.poll(received)
            received = [index for kind, index, _ in news if kind == "R"]
            for kind, index, request in news:
                if kind == "R" and index not in answers:
                    answers[index] = asyncio.create_task(_answer(queue, lease, app, index, request))
                elif kind == "G" and index in answers:
                    answers[index].cancel()
                elif kind == "E":
                    lease.recorder.event("the relay in the sandbox has ended", {"event": "relay_ended"})
                    return
    except SandboxError as error:
        lease.fail(error)
    finally:
        for task in answers.values():
            task.cancel()
        await asyncio.gather(*answers.values(), return_exceptions=True)


async def _answer(queue: Queue, lease: Lease, app: App, index: int, request: bytes) -> None:
    part = 0
    pieces = respond(app, request)
    try:
        async for piece, last in pieces:
            if not await queue.deliver(index, part, piece, last=last):
                return
            part += 1
    except SandboxError as error:
        lease.fail(error)
    finally:
        await pieces.aclose()  # type: ignore[attr-defined]


def _news(data: bytes) -> list[tuple[str, int, bytes]]:
    """The news in a poll's output, up to the first that is none."""
    news: list[tuple[str, int, bytes]] = []
    at = 0
    while (end := data.find(b"\n", at)) >= 0:
        words = data[at:end].decode("ascii", "replace").split()
        at = end + 1
        if words == ["E"]:
            news.append(("E", 0, b""))
        elif len(words) == 2 and words[0] == "G" and words[1].isdecimal():
            news.append(("G", int(words[1]), b""))
        elif len(words) == 3 and words[0] == "R" and words[1].isdecimal() and words[2].isdecimal():
            size = int(words[2])
            if at + size > len(data):
                break
            news.append(("R", int(words[1]), data[at : at + size]))
            at += size
        else:
            break
    return news

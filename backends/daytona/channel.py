"""One Daytona sandbox as a channel: its toolbox for commands and files, the API for its life."""

from __future__ import annotations

import asyncio
import math
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import IO, cast

from daytona import AsyncSandbox

from backends.daytona.client import CALL_TIMEOUT_SEC, Client
from backends.daytona.errors import is_gone, status_of
from backends.errors import SandboxError
from backends.frame import Request
from backends.remote.channel import Reply
from backends.remote.retry import repeated
from backends.remote.sandbox import TRANSFER_TIMEOUT_SEC
from backends.remote.text import INLINE_STDIN_BYTES, decode, line
from backends.remote.users import as_user

_SLACK_SEC = 10.0  # the SDK itself waits 5 s longer than the timeout it is given
_STARTING_SEC = 20.0
_STARTING_ATTEMPTS = 6
_IN_MEMORY_BYTES = 8 << 20
_CHUNK = 256 << 10


class DaytonaChannel:
    """The SDK's sandbox, whose own user is root."""

    def __init__(self, client: Client, sandbox: AsyncSandbox) -> None:
        self._client = client
        self._sandbox = sandbox
        self._born = time.monotonic()

    @property
    def id(self) -> str:
        """See Channel."""
        return self._sandbox.id

    async def run(self, request: Request, *, user: str | None, timeout: float) -> Reply:
        """See Channel. One request to the toolbox, that answers when the command has ended."""
        token = secrets.token_hex(16)
        stdin_path = None
        if len(request.stdin) > INLINE_STDIN_BYTES:
            stdin_path = f"/tmp/.harness-{token}"  # noqa: S108 - inside the sandbox, and no name to guess
            async with self._client.call("upload", timeout=TRANSFER_TIMEOUT_SEC, sandbox_id=self.id):
                await self._sandbox.fs.upload_file(request.stdin, stdin_path, int(TRANSFER_TIMEOUT_SEC))
        command, env = line(as_user(request, user), token, stdin_path=stdin_path)
        whole = math.ceil(timeout)

        async def attempt() -> Reply:
            async with self._client.call("execute", timeout=whole + _SLACK_SEC, sandbox_id=self.id):
                answer = await self._sandbox.process.exec(command, env=env, timeout=whole)
            return decode(answer.result, request, token)

        return await repeated(attempt, attempts=_STARTING_ATTEMPTS, repeat=self._never_ran)

    def _never_ran(self, error: SandboxError) -> bool:
        """Whether a command was turned away before it began: by the rate limit, or by a sandbox that is not up yet.

        The service calls a sandbox started some seconds before its toolbox can be reached.
        """
        status = status_of(error)
        return status == 429 or (status == 400 and time.monotonic() - self._born < _STARTING_SEC)

    async def put(self, path: str, source: IO[bytes]) -> None:
        """See Channel."""
        limit = int(TRANSFER_TIMEOUT_SEC)
        async with self._client.call("upload", timeout=TRANSFER_TIMEOUT_SEC, sandbox_id=self.id):
            start = await asyncio.to_thread(source.read, _IN_MEMORY_BYTES)
            if len(start) < _IN_MEMORY_BYTES:
                await self._sandbox.fs.upload_file(start, path, limit)
            else:
                await self._sandbox.fs.upload_file_stream(_chunks(start, source), path, limit)

    async def get(self, path: str, target: IO[bytes], *, max_bytes: int) -> None:
        """See Channel."""
        async with self._client.call("download", timeout=TRANSFER_TIMEOUT_SEC, sandbox_id=self.id):
            size = 0
            stream = await self._sandbox.fs.download_file_stream(path, int(TRANSFER_TIMEOUT_SEC))
            async with aclosing(cast(AsyncGenerator[bytes], stream)):
                async for chunk in stream:
                    target.write(chunk)
                    size += len(chunk)
                    if size > max_bytes:
                        break

    async def alive(self) -> bool:
        """See Channel."""
        try:
            async with self._client.call("inspect", timeout=CALL_TIMEOUT_SEC, sandbox_id=self.id):
                await self._sandbox.refresh_data(request_timeout=CALL_TIMEOUT_SEC)
        except SandboxError as error:
            if is_gone(error):
                return False
            raise
        return state(self._sandbox) == "started"

    async def extend(self, seconds: float) -> None:
        """See Channel. The service counts whole minutes."""
        async with self._client.call("renew", sandbox_id=self.id):
            await self._sandbox.set_ttl(minutes(seconds), request_timeout=CALL_TIMEOUT_SEC)

    async def destroy(self) -> None:
        """See Channel."""
        await delete(self._client, self._sandbox)


async def delete(client: Client, sandbox: AsyncSandbox) -> None:
    """End a sandbox; one that is gone is fine. While it changes its state the service refuses: that passes."""

    async def attempt() -> None:
        try:
            async with client.call("remove", sandbox_id=sandbox.id):
                await sandbox.delete(timeout=CALL_TIMEOUT_SEC)
        except SandboxError as error:
            if not is_gone(error):
                raise

    await repeated(attempt)


async def _chunks(start: bytes, source: IO[bytes]) -> AsyncIterator[bytes]:
    chunk = start
    while chunk:
        yield chunk
        chunk = await asyncio.to_thread(source.read, _CHUNK)


def state(sandbox: AsyncSandbox) -> str:
    """What the service last said of a sandbox, in its own word."""
    return sandbox.state.value if sandbox.state is not None else "unknown"


def minutes(seconds: float) -> int:
    """Whole minutes that are at least so many seconds."""
    return max(1, math.ceil(seconds / 60))

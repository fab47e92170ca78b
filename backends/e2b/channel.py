"""One E2B sandbox as a channel.

Every command is started once and then waited for; where the stream breaks while the sandbox lives, the process is
attached to again, never started again. The command line is shielded from the login shell that envd puts before it:
the user's own profile is not read (an agent can write it), and PATH is set back to what the template says.
"""

from __future__ import annotations

import io
import math
import secrets
import shlex
import time
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, suppress
from typing import IO, Any

import httpx
from connectrpc.errors import ConnectError
from e2b import AsyncSandbox, CommandExitException
from e2b import exceptions as e2b

from backends.e2b.errors import NAME
from backends.errors import SandboxError, SandboxUnavailable
from backends.frame import Request
from backends.remote import text
from backends.remote.channel import Reply
from backends.remote.failures import Translate, deadline
from backends.remote.retry import repeated

ADMIN = "root"
CALL_SEC = 30.0
TRANSFER_SEC = 600.0

_ATTACHMENTS = 5
_HOME = "/nonexistent"
_LOGIN = (
    "unset HOME; export HOME=~; "
    'while IFS= read -r -d "" v; do case $v in PATH=*) export "$v"; break;; esac; done </proc/$$/environ; '
)
_BROKEN = (e2b.SandboxUnreachableException, ConnectError, httpx.TransportError)


class E2BChannel:
    """See Channel. `options` are the SDK's connection options."""

    def __init__(self, sandbox: AsyncSandbox, options: Mapping[str, Any], translate: Translate) -> None:
        self.id = sandbox.sandbox_id
        self._sandbox = sandbox
        self._options = options
        self._translate = translate

    async def run(self, request: Request, *, user: str | None, timeout: float) -> Reply:
        """See Channel."""
        token = secrets.token_hex(16)
        stdin_path = None
        if len(request.stdin) > text.INLINE_STDIN_BYTES:
            stdin_path = f"/tmp/.harness-{token}"  # noqa: S108 - inside the sandbox, and no name to guess
            await self._write(stdin_path, io.BytesIO(request.stdin), user)
        line, env = text.line(request, token, stdin_path=stdin_path)
        home = f"export HOME={shlex.quote(env['HOME'])}; " if "HOME" in env else ""
        output = await self._command(
            _LOGIN + home + line, {**env, "HOME": _HOME}, user=user, timeout=timeout, limit=text.reply_size(request)
        )
        return text.decode(output, request, token)

    async def directory(self) -> str:
        """Where the template lets commands start."""
        return (await self._command("pwd", {}, user=None, timeout=CALL_SEC, limit=1 << 16, cwd=None)).strip()

    async def put(self, path: str, source: IO[bytes]) -> None:
        """See Channel."""
        await self._write(path, source, ADMIN)

    async def get(self, path: str, target: IO[bytes], *, max_bytes: int) -> None:
        """See Channel."""
        async with self._deadline("download", TRANSFER_SEC):
            stream = await self._sandbox.files.read(path, format="stream", user=ADMIN, request_timeout=TRANSFER_SEC)
            async with stream:
                size = 0
                async for chunk in stream:
                    target.write(chunk)
                    size += len(chunk)
                    if size > max_bytes:
                        return

    async def alive(self) -> bool:
        """See Channel."""

        async def ask() -> bool:
            async with self._deadline("alive", CALL_SEC):
                return await self._sandbox.is_running(request_timeout=CALL_SEC)

        return await repeated(ask, attempts=2)

    async def extend(self, seconds: float) -> None:
        """See Channel."""

        async def ask() -> None:
            async with self._deadline("renew", CALL_SEC):
                await AsyncSandbox.set_timeout(self.id, math.ceil(seconds), **self._options)

        await repeated(ask)

    async def destroy(self) -> None:
        """See Channel."""
        await kill(self.id, self._options, self._translate)

    async def _write(self, path: str, source: IO[bytes], user: str | None) -> None:
        async with self._deadline("upload", TRANSFER_SEC):
            await self._sandbox.files.write(path, source, user=user, request_timeout=TRANSFER_SEC)

    async def _command(
        self, line: str, env: dict[str, str], *, user: str | None, timeout: float, limit: int, cwd: str | None = "/"
    ) -> str:
        """stdout of a command line, however it ends. The SDK waits for `timeout`, and a little longer for the start."""
        collected = _Collected(limit)
        until = time.monotonic() + timeout
        async with self._deadline("execute", timeout + CALL_SEC):
            handle = await self._sandbox.commands.run(
                line,
                background=True,
                envs=env,
                user=user,
                cwd=cwd,
                timeout=timeout,
                request_timeout=CALL_SEC,
                on_stdout=collected,
                retain_output=False,
            )
            for _ in range(_ATTACHMENTS):
                try:
                    with suppress(CommandExitException):
                        await handle.wait()
                    return collected.text()
                except Exception as error:
                    if collected.failure is not None:
                        raise collected.failure from error
                    if not _broken(error) or not await self._sandbox.is_running(request_timeout=CALL_SEC):
                        raise
                finally:
                    await handle.disconnect()
                handle = await self._attach(handle.pid, until, collected)
        raise SandboxUnavailable("the connection broke again and again", operation="execute", sandbox_id=self.id)

    async def _attach(self, pid: int, until: float, collected: _Collected) -> Any:
        try:
            return await self._sandbox.commands.connect(
                pid,
                timeout=max(1.0, until - time.monotonic()),
                request_timeout=CALL_SEC,
                on_stdout=collected,
                retain_output=False,
            )
        except e2b.NotFoundException as error:
            raise SandboxUnavailable(
                "the connection broke, and the command ended before it could be attached to again",
                backend=NAME,
                operation="execute",
                sandbox_id=self.id,
            ) from error

    def _deadline(self, operation: str, timeout: float) -> AbstractAsyncContextManager[None]:
        return deadline(self._translate, operation, backend=NAME, timeout=timeout, sandbox_id=self.id)


class _Collected:
    """Takes output as it comes, up to a limit."""

    def __init__(self, limit: int) -> None:
        self.failure: SandboxError | None = None
        self._limit = limit
        self._parts: list[str] = []

    def __call__(self, part: str) -> None:
        self._limit -= len(part)
        if self._limit < 0:
            self.failure = text.too_much()
            raise self.failure
        self._parts.append(part)

    def text(self) -> str:
        return "".join(self._parts)


def _broken(error: Exception) -> bool:
    """Whether the stream ended before the command did, as far as can be told: the SDK raises a bare Exception, too."""
    return isinstance(error, _BROKEN) or type(error) is Exception


async def kill(sandbox_id: str, options: Mapping[str, Any], translate: Translate) -> None:
    """End a sandbox by its id; one that is gone is fine."""

    async def ask() -> None:
        async with deadline(translate, "remove", backend=NAME, timeout=CALL_SEC, sandbox_id=sandbox_id):
            await AsyncSandbox.kill(sandbox_id, **options)

    await repeated(ask)

"""One Modal sandbox as a channel: framed requests through exec, files through exec, life and death."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine
from contextlib import aclosing, suppress
from typing import IO, Any, TypeVar

import modal
from modal_proto import api_pb2

from backends.errors import SandboxError, SandboxOutOfMemory, SandboxUnavailable
from backends.frame import Request
from backends.modal.entrypoint import set_clock
from backends.modal.errors import NAME
from backends.modal.session import CALL_TIMEOUT_SEC, call
from backends.remote.channel import Reply
from backends.remote.users import as_user

T = TypeVar("T")

TRANSFER_TIMEOUT_SEC = 600.0
PROBE_SEC = 15.0
"""How often a command that says nothing is checked upon: the SDK waits for ever for a worker that died."""

_CHUNK = 1 << 20
_LAST_WORDS_SEC = 10.0
_OOM = frozenset(
    {
        api_pb2.GenericResult.GENERIC_STATUS_KERNEL_OOM_KILL,
        api_pb2.GenericResult.GENERIC_STATUS_MEMORY_MANAGER_EVICTION,
        api_pb2.GenericResult.GENERIC_STATUS_MEMORY_THRASHING_EVICTION,
    }
)


class ModalChannel:
    """See `backends.remote.channel`."""

    def __init__(self, sandbox: modal.Sandbox) -> None:
        self._sandbox = sandbox
        self._ended = False

    @property
    def id(self) -> str:
        """See Channel."""
        return str(self._sandbox.object_id)

    async def run(self, request: Request, *, user: str | None, timeout: float) -> Reply:
        """See Channel. The server's own deadline is a second one; -1, the SDK's word for it, is no exit code."""
        work = self._reply(as_user(request, user), timeout)
        return await self._watched(work, "execute", timeout)

    async def put(self, path: str, source: IO[bytes]) -> None:
        """See Channel."""
        await self._watched(self._put(path, source), "upload", TRANSFER_TIMEOUT_SEC)

    async def get(self, path: str, target: IO[bytes], *, max_bytes: int) -> None:
        """See Channel."""
        await self._watched(self._get(path, target, max_bytes), "download", TRANSFER_TIMEOUT_SEC)

    async def alive(self) -> bool:
        """See Channel."""
        if self._ended:
            return False
        async with call("poll", sandbox_id=self.id):
            return await self._sandbox.poll.aio() is None

    async def extend(self, seconds: float) -> None:
        """See Channel. Modal cannot prolong a sandbox; the clock inside can, and it rules (see `entrypoint`)."""
        reply = await self.run(set_clock(seconds), user=None, timeout=CALL_TIMEOUT_SEC)
        if reply.data != b"set\n":
            said = reply.data.decode("utf-8", "replace").strip() or "the clock inside is gone"
            raise SandboxError(f"modal renew: {said}", backend=NAME, operation="renew", sandbox_id=self.id)

    async def destroy(self) -> None:
        """See Channel."""
        if self._ended:
            return
        try:
            async with call("terminate", sandbox_id=self.id):
                await self._sandbox.terminate.aio()
        except SandboxUnavailable as error:
            if not isinstance(error.__cause__, modal.exception.NotFoundError):
                raise
        self._ended = True
        with suppress(SandboxError):  # closes the connection to its worker, which would stay open for half a minute
            async with call("detach", sandbox_id=self.id):
                await self._sandbox.detach.aio()  # type: ignore[no-untyped-call]

    async def _reply(self, request: Request, timeout: float) -> Reply:
        # A framed request enters its own directory; another is run where the image starts.
        process = await self._start(request.argv, dict(request.env), timeout, workdir="/" if request.mark else None)
        feeder = asyncio.create_task(_feed(process, request.stdin)) if request.stdin else None
        try:
            data = bytearray()
            async with aclosing(aiter(process.stdout)) as chunks:
                async for chunk in chunks:
                    data += chunk
                    if len(data) > request.limit:
                        raise SandboxError(
                            "the sandbox sent more than the command may return",
                            backend=NAME,
                            operation="execute",
                            sandbox_id=self.id,
                        )
        finally:
            if feeder is not None:
                feeder.cancel()
                await asyncio.gather(feeder, return_exceptions=True)
        if request.mark and data.count(request.mark.encode()) == _MARKS and data.endswith(b"\n"):
            return Reply(bytes(data))
        return await self._last_words(process, bytes(data))

    async def _last_words(self, process: Any, data: bytes) -> Reply:
        """What else there is to learn of a request that did not answer as our wrapper does."""
        async with asyncio.timeout(_LAST_WORDS_SEC):
            code = await process.wait.aio()
            complaint = b"" if data else await process.stderr.read.aio()
        return Reply(data or complaint[-4096:], None if code < 0 else code)

    async def _start(
        self, argv: tuple[str, ...], env: dict[str, str | None], timeout: float, workdir: str | None = "/"
    ) -> Any:
        # Never without a deadline: the SDK would wait for ever for a worker that is lost.
        return await self._sandbox.exec.aio(*argv, env=env, workdir=workdir, timeout=math.ceil(timeout), text=False)

    async def _put(self, path: str, source: IO[bytes]) -> None:
        process = await self._start(("/bin/sh", "-c", 'cat >"$1"', "harness", path), {}, TRANSFER_TIMEOUT_SEC)
        while chunk := source.read(_CHUNK):
            process.stdin.write(chunk)
            await process.stdin.drain.aio()
        process.stdin.write_eof()
        await process.stdin.drain.aio()
        await self._expect_success(process, "upload", path)

    async def _get(self, path: str, target: IO[bytes], max_bytes: int) -> None:
        argv = ("/bin/sh", "-c", 'exec head -c "$2" "$1"', "harness", path, str(max_bytes + 1))
        process = await self._start(argv, {}, TRANSFER_TIMEOUT_SEC)
        async with aclosing(aiter(process.stdout)) as chunks:
            async for chunk in chunks:
                target.write(chunk)
        await self._expect_success(process, "download", path)

    async def _expect_success(self, process: Any, operation: str, path: str) -> None:
        reply = await self._last_words(process, b"")
        if reply.exit_code != 0:
            said = reply.data.decode("utf-8", "replace").strip() or f"exit code {reply.exit_code}"
            raise SandboxError(
                f"modal {operation} of {path}: {said}", backend=NAME, operation=operation, sandbox_id=self.id
            )

    async def _watched(self, work: Coroutine[Any, Any, T], operation: str, timeout: float) -> T:
        """Carry `work` out with a deadline, and end it early if the sandbox is found dead meanwhile."""
        task = asyncio.ensure_future(work)
        try:
            async with call(operation, timeout=timeout, sandbox_id=self.id):
                while not (await asyncio.wait({task}, timeout=PROBE_SEC))[0]:
                    await self._expect_alive(operation)
                return await task
        except SandboxUnavailable as error:
            raise await self._obituary(operation) or error from error
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task}, timeout=_LAST_WORDS_SEC)

    async def _expect_alive(self, operation: str) -> None:
        """Raise if the control plane says that the sandbox ended. That it does not answer says nothing."""
        death = await self._obituary(operation)
        if death is not None:
            raise death

    async def _obituary(self, operation: str) -> SandboxError | None:
        """Why the sandbox is no more; None if it lives, or nobody knows."""
        try:
            async with call("poll", timeout=_LAST_WORDS_SEC, sandbox_id=self.id):
                code = await self._sandbox.poll.aio()
        except SandboxError:
            return None
        if code is None:
            return None
        status = _status(self._sandbox)
        kind = SandboxOutOfMemory if status in _OOM else SandboxUnavailable
        shown = api_pb2.GenericResult.GenericStatus.Name(status) if status else f"exit code {code}"
        shown = shown.removeprefix("GENERIC_STATUS_").lower().replace("_", " ")
        return kind(
            f"modal {operation}: the sandbox has ended ({shown})", backend=NAME, operation=operation, sandbox_id=self.id
        )


_MARKS = 3  # of a whole frame: before the streams, between them, and after


async def _feed(process: Any, data: bytes) -> None:
    """Write stdin. A command may end without reading it all; its reply tells how it went."""
    with suppress(modal.exception.Error, OSError):
        for start in range(0, len(data), _CHUNK):
            process.stdin.write(data[start : start + _CHUNK])
            await process.stdin.drain.aio()
        process.stdin.write_eof()
        await process.stdin.drain.aio()


def _status(sandbox: modal.Sandbox) -> int | None:
    """How the sandbox ended, as the control plane said at the last poll.

    The SDK keeps it, but shows a number only in which an eviction for memory and a kill from inside look alike.
    """
    from modal._utils.async_utils import synchronizer

    try:
        return int(synchronizer._translate_in(sandbox)._impl.result.status)  # type: ignore[no-untyped-call]
    except AttributeError:
        return None

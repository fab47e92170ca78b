"""One container as a sandbox."""

from __future__ import annotations

import asyncio
import shlex
import tempfile
import time
from collections.abc import AsyncIterator, Coroutine, Mapping
from pathlib import Path, PurePosixPath
from typing import IO, Any

from aiodocker import DockerError

from backends import archive, frame, posix
from backends.docker.engine import Engine
from backends.docker.errors import NAME, UNREACHABLE
from backends.docker.events import death
from backends.errors import SandboxDiskFull, SandboxError, SandboxTimeout, SandboxUnavailable, SandboxUnusable
from backends.files import ShellFiles
from backends.lifecycle import finish
from backends.protocol import Capabilities
from backends.spec import DEFAULT_MAX_OUTPUT, ExecuteResponse

GRACE_SEC = 15.0
"""What the engine may add to a command's own deadline before the host takes over."""

TRANSFER_TIMEOUT_SEC = 600.0

_ABORT_SEC = 30.0
_ABORT_ROUNDS = 10  # an exec that the engine was still starting at the first is found by a later one
_PROBES = 4  # a dying container is listed as running for a while
_PROBE_SEC = 1.0
_SPOOL_BYTES = 1 << 20
_FULL = ("No space left on device", "Disk quota exceeded")
_ARCHIVE_SLACK = 64 << 20  # headers of many small files; beyond it the extractor would refuse anyway


class DockerSandbox(ShellFiles):
    """A running container. Files belong to the default user's view: every operation but transfers runs as that user."""

    backend = NAME

    def __init__(
        self, engine: Engine, container_id: str, *, name: str, workdir: str, user: str, capabilities: Capabilities
    ) -> None:
        self.id = container_id
        self.name = name
        self.workdir = workdir
        self.file_shell = self.execute
        self.capabilities = capabilities
        self._engine = engine
        self.user = user or "0"
        self._born = time.time()

    async def execute(
        self,
        command: str,
        *,
        timeout: float,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        stdin: bytes | None = None,
        max_output: int = DEFAULT_MAX_OUTPUT,
    ) -> ExecuteResponse:
        """See SandboxBackendProtocol."""
        request = frame.request(
            command,
            timeout=timeout,
            cwd=posix.absolute(cwd or ".", self.workdir),
            max_output=max_output,
            env=env,
            stdin=stdin,
        )
        return await self._run(request, timeout=timeout, user=self.user if user is None else user)

    async def upload(self, source: Path, target: str) -> None:
        """See SandboxBackendProtocol. What arrives belongs to root, whoever the default user is."""
        place = PurePosixPath(posix.absolute(target, self.workdir))
        folder = place if await asyncio.to_thread(source.is_dir) else place.parent
        with tempfile.SpooledTemporaryFile(max_size=_SPOOL_BYTES) as file:
            await asyncio.to_thread(archive.pack, source, file, name=place.name)
            size = file.tell()
            file.seek(0)
            where = shlex.quote(str(folder))
            request = frame.request(
                f"command -v tar >/dev/null || exit 90\nmkdir -p {where} && exec tar -xf - -C {where} --no-same-owner",
                timeout=TRANSFER_TIMEOUT_SEC,
                cwd="/",
                max_output=4096,
                stdin_size=size,
            )
            response = await self._run(request, timeout=TRANSFER_TIMEOUT_SEC, user="0", source=file)
            if response.exit_code == 90:
                file.seek(0)
                await self._put_archive(str(folder), file)
            elif response.exit_code != 0:
                raise _upload_error(response, str(place), self.id)

    async def download(self, source: str, target: Path, *, max_bytes: int = 1 << 30) -> list[str]:
        """See SandboxBackendProtocol. The engine packs what is there: nothing inside need be trusted or exist."""
        path = posix.absolute(source, self.workdir)
        with tempfile.SpooledTemporaryFile(max_size=_SPOOL_BYTES) as file:
            await self._fetch(path, file, max_bytes)
            file.seek(0)
            root = PurePosixPath(path).name or "."
            return await asyncio.to_thread(archive.unpack, file, target, max_bytes=max_bytes, root=root)

    async def kill_processes(self) -> None:
        """See SandboxBackendProtocol. Only the first process is out of reach, and it is ours."""
        said = await self._kill_all()
        if said is not None and await self.is_alive():
            # A fork bomb leaves no room for the very process that would end it.
            async with self._engine.call("update", sandbox_id=self.id) as client:
                await client._query_json(f"containers/{self.id}/update", "POST", data={"PidsLimit": -1})
            said = await self._kill_all()
        if said is not None:
            raise await self._no_shell("kill_processes", said)

    async def is_alive(self) -> bool:
        """See SandboxBackendProtocol."""
        try:
            async with self._engine.call("inspect", sandbox_id=self.id) as client:
                found = await client.containers.container(self.id).show()
        except SandboxError:
            return False
        return bool(found["State"]["Running"])

    async def renew(self) -> None:
        """See SandboxBackendProtocol."""
        async with self._engine.call("renew", sandbox_id=self.id) as client:
            await client.containers.container(self.id).kill(signal="USR1")

    async def stop(self) -> None:
        """See SandboxBackendProtocol."""
        await remove(self._engine, self.id)

    async def _run(
        self, request: frame.Request, *, timeout: float, user: str, source: IO[bytes] | None = None
    ) -> ExecuteResponse:
        started = time.monotonic()
        work = asyncio.create_task(self._engine.exec(self.id, request, user=user, source=source))
        late = False
        try:
            if not (await asyncio.wait({work}, timeout=timeout + GRACE_SEC))[0]:
                late = True
                await self._sweep(request, user, wrapper=False)
                await asyncio.wait({work}, timeout=GRACE_SEC)
        except asyncio.CancelledError:
            await finish(self._abort(request, user, work), timeout=_ABORT_SEC)
            raise
        if not work.done():
            await finish(self._abort(request, user, work), timeout=_ABORT_SEC)
            raise SandboxTimeout(
                "the engine did not end a command after its deadline",
                backend=NAME,
                operation="execute",
                sandbox_id=self.id,
            )
        reply, run = work.result()
        duration = time.monotonic() - started
        try:
            response = frame.parse(request, reply, duration)
        except frame.FrameError as error:
            return await self._unframed(error, run, late=late, duration=duration)
        if response.timed_out:
            # The deadline inside reaches what its own user may see; root's children may have changed theirs.
            await self._shielded(self._sweep(request, user, wrapper=False))
        return response

    async def _unframed(self, error: frame.FrameError, run: Any, *, late: bool, duration: float) -> ExecuteResponse:
        """A wrapper that a command killed still leaves the exit code that the engine saw; all else is trouble."""
        if not await self._answers():
            raise await self._no_shell("execute", str(error)) from error
        async with self._engine.call("inspect", sandbox_id=self.id):
            code = (await run.inspect())["ExitCode"]
        if error.began and (late or isinstance(code, int)):
            return ExecuteResponse(exit_code=None if late else code, timed_out=late, duration_sec=duration)
        raise SandboxError(
            f"the command could not be started: {error}", backend=NAME, operation="execute", sandbox_id=self.id
        ) from error

    async def _answers(self) -> bool:
        """Whether a process still starts inside. A dying container is listed as running for a while longer."""
        probe = frame.Request(argv=("/bin/sh", "-c", "echo alive"), env={}, limit=1 << 16)
        try:
            async with asyncio.timeout(_ABORT_SEC):
                return (await self._engine.exec(self.id, probe))[0] == b"alive\n"
        except SandboxError as error:
            if getattr(error.__cause__, "status", None) == UNREACHABLE:
                raise
        except TimeoutError:
            pass
        return False

    async def _no_shell(self, operation: str, said: str) -> SandboxError:
        """What to raise where a shell of ours did not do its work: the sandbox ended, or it lives and starts none."""
        for _ in range(_PROBES):
            died = await death(self._engine, self.id, self._born)
            if died.exit_code is not None or not await self.is_alive():
                return died.error(self.id, operation)
            if await self._answers():
                return SandboxError(
                    f"docker {operation}: {said}", backend=NAME, operation=operation, sandbox_id=self.id
                )
            await asyncio.sleep(_PROBE_SEC)
        return SandboxUnusable(
            f"no shell starts in the sandbox any more: {said}", backend=NAME, operation=operation, sandbox_id=self.id
        )

    async def _sweep(self, request: frame.Request, user: str, *, wrapper: bool) -> None:
        """Kill what a command left, also under users that the sweep's own user cannot look into."""
        reply, _ = await self._engine.exec(self.id, frame.sweep(request.nonce, wrapper=wrapper), user=user)
        for other in sorted(set(reply.split()))[:8]:
            if other.isdigit() and other.decode() != user:
                await self._engine.exec(self.id, frame.sweep(request.nonce, wrapper=wrapper), user=other.decode())

    async def _abort(self, request: frame.Request, user: str, work: asyncio.Task[Any]) -> None:
        """Kill a command and its wrapper, however far the engine has come with starting them."""
        try:
            for _ in range(_ABORT_ROUNDS):
                await self._sweep(request, user, wrapper=True)
                if (await asyncio.wait({work}, timeout=0.5))[0]:
                    break
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)

    async def _shielded(self, work: Coroutine[Any, Any, None]) -> None:
        await finish(work, timeout=_ABORT_SEC)

    async def _kill_all(self) -> str | None:
        """None when it is done; else what was said in place of that."""
        request = frame.Request(argv=("/bin/sh", "-c", "kill -9 -1; echo done"), env={}, limit=1 << 16)
        try:
            async with asyncio.timeout(_ABORT_SEC):
                reply, _ = await self._engine.exec(self.id, request, user="0")
        except SandboxUnavailable:
            raise
        except SandboxError as error:
            return str(error)
        return None if reply.endswith(b"done\n") else reply[-300:].decode("utf-8", "replace").strip()

    async def _put_archive(self, folder: str, file: IO[bytes]) -> None:
        """For images without tar. The engine writes below mounts, so files on a tmpfs would not be seen inside."""
        request = frame.request(f"mkdir -p {shlex.quote(folder)}", timeout=60, cwd="/", max_output=4096)
        await self._run(request, timeout=60, user="0")
        async with self._engine.call("upload", timeout=TRANSFER_TIMEOUT_SEC, sandbox_id=self.id) as client:
            path = f"containers/{self.id}/archive"
            async with client._query(path, method="PUT", params={"path": folder}, data=_chunks(file)):
                pass

    async def _fetch(self, path: str, file: IO[bytes], max_bytes: int) -> None:
        try:
            await self._get_archive(path, file, max_bytes)
        except SandboxUnavailable as error:
            if getattr(error.__cause__, "status", None) == 404 and await self.is_alive():
                raise FileNotFoundError(f"{path}: no such file or directory") from error
            raise

    async def _get_archive(self, path: str, file: IO[bytes], max_bytes: int) -> None:
        async with (
            self._engine.call("download", timeout=TRANSFER_TIMEOUT_SEC, sandbox_id=self.id) as client,
            client._query(f"containers/{self.id}/archive", params={"path": path}) as response,
        ):
            try:
                async for chunk in response.content.iter_chunked(1 << 18):
                    file.write(chunk)
                    if file.tell() > max_bytes + _ARCHIVE_SLACK:
                        break
            finally:
                response.close()  # the client leaves that to us, and what is unread is not wanted


async def _chunks(file: IO[bytes]) -> AsyncIterator[bytes]:
    while chunk := file.read(1 << 18):
        yield chunk


def _upload_error(response: ExecuteResponse, place: str, sandbox_id: str) -> SandboxError:
    lines = response.stderr.decode("utf-8", "replace").strip().splitlines()
    full = any(line.endswith(_FULL) or ": Wrote only " in line for line in lines)
    what = "it took too long" if response.timed_out else next(iter(lines), f"tar ended with {response.exit_code}")
    return (SandboxDiskFull if full else SandboxError)(
        f"the upload to {place} failed: {what}", backend=NAME, operation="upload", sandbox_id=sandbox_id
    )


async def remove(engine: Engine, container: str) -> None:
    """Remove a container by id or name, running or not, and wait until it is gone. One that is gone is fine."""
    try:
        async with engine.call("remove", sandbox_id=container) as client:
            found = client.containers.container(container)
            try:
                await found.delete(force=True, v=True)
            except DockerError as error:
                if error.status != 409:
                    raise
                # Its own removal is under way (it ended by itself, or another caller removes it).
                while await found.show():  # noqa: ASYNC110 - the engine ends it
                    await asyncio.sleep(0.05)
    except SandboxUnavailable as error:
        if getattr(error.__cause__, "status", None) != 404:
            raise

"""A channel as a sandbox: the whole protocol over one framed command, one put and one get."""

from __future__ import annotations

import asyncio
import secrets
import shlex
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from backends import archive, frame, posix
from backends.errors import SandboxError, SandboxOutOfMemory, SandboxTimeout, SandboxUnavailable, SandboxUnusable
from backends.files import ShellFiles
from backends.lifecycle import finish
from backends.protocol import Capabilities
from backends.remote.channel import Channel, Reply
from backends.remote.lease import Lease
from backends.remote.processes import kill_all
from backends.spec import DEFAULT_MAX_OUTPUT, ExecuteResponse

GRACE_SEC = 15.0
"""What the network and the provider may add to a command's own deadline before the host takes over."""

TRANSFER_TIMEOUT_SEC = 600.0

_ABORT_SEC = 30.0
_ABORT_ROUNDS = 10  # a command that the provider was still starting at the first is found by a later one
_KILL_SEC = 60.0
_PROBES = 3
_PROBE_SEC = 1.0
_SMALL_BYTES = 1 << 20  # a tree up to this size comes back in the reply itself
_INLINE_BYTES = 48_000
_ARCHIVE_SLACK = 64 << 20  # headers of many small files; beyond it the extractor would refuse anyway
_SIGKILL_CODE = 137


class RemoteSandbox(ShellFiles):
    """A live sandbox of a cloud. Made by `Launcher.start`.

    `admin` is the user that prepares, transfers and kills (None: the sandbox's own). Files belong to the default
    user's view: every operation but transfers runs as that user.
    """

    def __init__(
        self,
        channel: Channel,
        *,
        backend: str,
        capabilities: Capabilities,
        workdir: str,
        user: str,
        env: Mapping[str, str],
        admin: str | None,
        spared: str,
        lease: Lease,
        stopped: Callable[[], None],
    ) -> None:
        self.id = channel.id
        self.backend = backend
        self.capabilities = capabilities
        self.workdir = workdir
        self.file_shell = self.execute
        self.user = user
        self.host_address: str | None = None
        self._channel = channel
        self._env = dict(env)
        self._admin = admin
        self._spared = spared
        self._lease = lease
        self._stopped = stopped

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
            env={**self._env, **(env or {})},
            stdin=stdin,
        )
        return await self._run(request, timeout=timeout, user=self.user if user is None else user)

    async def upload(self, source: Path, target: str) -> None:
        """See SandboxBackendProtocol. What arrives belongs to the administering user. The image needs tar."""
        place = PurePosixPath(posix.absolute(target, self.workdir))
        single = not await asyncio.to_thread(source.is_dir)
        folder = shlex.quote(str(place.parent if single else place))
        unpack = f"mkdir -p {folder} && tar -xpf - --no-same-owner -C {folder}"
        if single:
            unpack = f'[ ! -d {shlex.quote(str(place))} ] || {{ echo "tar: Is a directory" >&2; exit 1; }}\n{unpack}'
        with tempfile.SpooledTemporaryFile(max_size=_SMALL_BYTES) as file:
            await asyncio.to_thread(archive.pack, source, file, name=place.name if single else None)
            size = file.tell()
            file.seek(0)
            if size <= _INLINE_BYTES:
                response = await self._transfer(unpack, stdin=file.read())
            else:
                draft = f"/tmp/.harness-{secrets.token_hex(8)}"  # noqa: S108 - inside the sandbox, and no name to guess
                try:
                    await self._channel.put(draft, file)
                    response = await self._transfer(f"trap 'rm -f {draft}' EXIT\n({unpack}) <{draft}")
                except BaseException:
                    await finish(self._forget(draft), timeout=_ABORT_SEC)
                    raise
        posix.check(response, str(place))

    async def download(self, source: str, target: Path, *, max_bytes: int = 1 << 30) -> list[str]:
        """See SandboxBackendProtocol. The image needs tar, whose output is not trusted."""
        path = PurePosixPath(posix.absolute(source, self.workdir))
        place, folder, name = shlex.quote(str(path)), shlex.quote(str(path.parent)), shlex.quote(f"./{path.name}")
        pack = (
            f"[ -e {place} ] || exec ls -d {place}\n"
            f"if [ -d {place} ]; then exec tar -cf - -C {place} .; else exec tar -chf - -C {folder} -- {name}; fi"
        )
        with tempfile.SpooledTemporaryFile(max_size=_SMALL_BYTES) as file:
            response = await self._transfer(pack, max_output=min(_SMALL_BYTES, max_bytes + 65_536))
            if not response.stdout:
                posix.check(response, str(path))
            if response.stdout_size > len(response.stdout):
                await self._fetch(pack, file, max_bytes)
            else:
                file.write(response.stdout)
            file.seek(0)
            root = "." if file.read(3) == b"./\0" else path.name
            file.seek(0)
            return await asyncio.to_thread(archive.unpack, file, target, max_bytes=max_bytes, root=root)

    async def kill_processes(self) -> None:
        """See SandboxBackendProtocol; what is spared, and why, is in `backends.remote.processes`."""
        reply = await self._channel.run(kill_all(self._spared), user=self._admin, timeout=_KILL_SEC)
        if reply.data.strip() != b"done":
            raise await self._no_shell("kill_processes", f"processes could not be killed: {_shown(reply)}")

    async def is_alive(self) -> bool:
        """See SandboxBackendProtocol."""
        try:
            return await self._channel.alive()
        except SandboxError:
            return False

    async def renew(self) -> None:
        """See SandboxBackendProtocol."""
        await self._lease.renew()

    async def stop(self) -> None:
        """See SandboxBackendProtocol."""
        await self._lease.stop()
        try:
            await self._channel.destroy()
        finally:
            self._stopped()

    async def _transfer(
        self, command: str, *, stdin: bytes | None = None, max_output: int = 1 << 16
    ) -> ExecuteResponse:
        request = frame.request(
            f"export LC_ALL=C\n{command}",
            timeout=TRANSFER_TIMEOUT_SEC,
            cwd="/",
            max_output=max_output,
            stdin=stdin,
        )
        return await self._run(request, timeout=TRANSFER_TIMEOUT_SEC, user=self._admin)

    async def _fetch(self, pack: str, file: Any, max_bytes: int) -> None:
        """A tree that is too large for a reply: packed into a file inside, fetched, removed."""
        limit = max_bytes + _ARCHIVE_SLACK
        draft = f"/tmp/.harness-{secrets.token_hex(8)}"  # noqa: S108 - inside the sandbox, and no name to guess
        try:
            response = await self._transfer(f"umask 077; ({pack}) | head -c {limit} >{draft}")
            posix.check(response, draft)
            await self._channel.get(draft, file, max_bytes=limit)
        finally:
            await finish(self._forget(draft), timeout=_ABORT_SEC)

    async def _forget(self, draft: str) -> None:
        await self._transfer(f"rm -f {draft}")

    async def _run(self, request: frame.Request, *, timeout: float, user: str | None) -> ExecuteResponse:
        started = time.monotonic()
        work = asyncio.create_task(self._channel.run(request, user=user, timeout=timeout + 2 * GRACE_SEC))
        late = False
        try:
            if not (await asyncio.wait({work}, timeout=timeout + GRACE_SEC))[0]:
                late = True
                await self._sweep(request, wrapper=False)
                await asyncio.wait({work}, timeout=GRACE_SEC)
        except asyncio.CancelledError:
            await finish(self._abort(request, work), timeout=_ABORT_SEC)
            raise
        if not work.done():
            await finish(self._abort(request, work), timeout=_ABORT_SEC)
            raise self._error(SandboxTimeout, "execute", "the provider did not end a command after its deadline")
        try:
            reply = work.result()
        except SandboxError as error:
            await self._failed(error, request)
            raise
        duration = time.monotonic() - started
        try:
            response = frame.parse(request, reply.data, duration)
        except frame.FrameError as error:
            return await self._unframed(error, reply, late=late, duration=duration)
        if response.timed_out:
            # The deadline inside reaches what its own user may see; root's children may have changed theirs.
            await finish(self._sweep(request, wrapper=False), timeout=_ABORT_SEC)
        return response

    async def _failed(self, error: SandboxError, request: frame.Request) -> None:
        """A call that broke says little: the command may run on, or the whole sandbox may be gone."""
        if isinstance(error, SandboxUnavailable | SandboxOutOfMemory):
            return
        if not await self.is_alive():
            raise self._error(SandboxUnavailable, "execute", f"the sandbox is gone: {error}") from error
        await finish(self._sweep(request, wrapper=True), timeout=_ABORT_SEC)

    async def _unframed(self, error: frame.FrameError, reply: Reply, *, late: bool, duration: float) -> ExecuteResponse:
        """A wrapper that a command killed began, and left no whole reply; all else is trouble."""
        await self._check_alive("execute")
        if error.began:
            code = _SIGKILL_CODE if reply.exit_code is None else reply.exit_code
            return ExecuteResponse(exit_code=None if late else code, timed_out=late, duration_sec=duration)
        raise await self._no_shell("execute", f"the command could not be started: {error}") from error

    async def _no_shell(self, operation: str, said: str) -> SandboxError:
        """What to raise where the provider answered, and a shell of ours did not do its work.

        Only answers prove anything: what the provider's trouble does to a call, a sandbox without a shell need not.
        """
        probe = frame.Request(argv=("/bin/sh", "-c", "echo alive"), env={}, limit=1 << 16)
        for _ in range(_PROBES):
            await self._check_alive(operation)
            try:
                reply = await self._channel.run(probe, user=self._admin, timeout=_ABORT_SEC)
            except SandboxError:
                return self._error(SandboxError, operation, said)
            if reply.data == b"alive\n":
                return self._error(SandboxError, operation, said)
            await asyncio.sleep(_PROBE_SEC)
        return self._error(SandboxUnusable, operation, f"no shell starts in the sandbox any more: {said}")

    async def _sweep(self, request: frame.Request, *, wrapper: bool) -> None:
        """Kill what a command left, as the user that may see all of it."""
        await self._channel.run(frame.sweep(request.nonce, wrapper=wrapper), user=self._admin, timeout=_ABORT_SEC)

    async def _abort(self, request: frame.Request, work: asyncio.Task[Reply]) -> None:
        """Kill a command and its wrapper, however far the provider has come with starting them."""
        try:
            for _ in range(_ABORT_ROUNDS):
                await self._sweep(request, wrapper=True)
                if (await asyncio.wait({work}, timeout=0.5))[0]:
                    break
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)

    async def _check_alive(self, operation: str) -> None:
        if not await self.is_alive():
            raise self._error(SandboxUnavailable, operation, "the sandbox is gone")

    def _error(self, kind: type[SandboxError], operation: str, text: str) -> SandboxError:
        return kind(
            f"{self.backend} {operation}: {text}", backend=self.backend, operation=operation, sandbox_id=self.id
        )


def _shown(reply: Reply) -> str:
    return reply.data[-300:].decode("utf-8", "replace").strip() or "no reply"

"""What the sandboxes of the loopback control planes really are: namespaces of this machine, each with its own `/`.

A box knows nothing of any cloud. It runs what it is told, as a provider's daemon would: output is passed on as it
comes, and a process has not ended before its pipes are closed, however long a child in the background holds them.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import cast

from backends import SandboxSpec
from backends.local.entry import ANSWER_SEC, DOORMAN, answered
from backends.local.provider import LocalProvider
from backends.local.sandbox import LocalSandbox
from backends.local.spawn import CLEAN_ENV
from backends.local.tags import kill_tagged
from backends.spec import NetworkMode

_DAY = 86_400.0


class Process:
    """One process in a box: its output in order, and its end."""

    def __init__(self, pid: int, tag: int) -> None:
        self.pid = pid
        self._tag = tag
        self._chunks: asyncio.Queue[tuple[str, bytes] | None] = asyncio.Queue()
        self._code: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._tasks: list[asyncio.Task[None]] = []

    def follow(self, out: int, err: int) -> None:
        ended = asyncio.create_task(self._wait())
        readers = [asyncio.create_task(self._read("stdout", out)), asyncio.create_task(self._read("stderr", err))]
        self._tasks = [*readers, ended, asyncio.create_task(self._finish(readers))]

    async def output(self) -> AsyncIterator[tuple[str, bytes]]:
        """("stdout" or "stderr", bytes) until both are closed. Two followers share what comes; none is replayed."""
        while (chunk := await self._chunks.get()) is not None:
            yield chunk
        self._chunks.put_nowait(None)

    async def exit_code(self) -> int:
        """-n for one that signal n ended."""
        return await asyncio.shield(self._code)

    async def communicate(self) -> tuple[int, bytes, bytes]:
        """(exit code, stdout, stderr)"""
        found = {"stdout": b"", "stderr": b""}
        async for stream, data in self.output():
            found[stream] += data
        return await self.exit_code(), found["stdout"], found["stderr"]

    def kill(self) -> None:
        """SIGKILL for it and all that it started."""
        kill_tagged(self._tag, self._tag + 1)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _wait(self) -> None:
        loop = asyncio.get_running_loop()
        pidfd = os.pidfd_open(self.pid)
        ended = loop.create_future()
        loop.add_reader(pidfd, lambda: ended.done() or ended.set_result(None))
        try:
            await ended
        finally:
            loop.remove_reader(pidfd)
            os.close(pidfd)
            with suppress(ChildProcessError):
                _, status = os.waitpid(self.pid, 0 if ended.done() and not ended.cancelled() else os.WNOHANG)
                if not self._code.done():
                    self._code.set_result(os.waitstatus_to_exitcode(status))

    async def _read(self, name: str, fd: int) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(fd, "rb"))
        try:
            while data := await reader.read(1 << 16):
                self._chunks.put_nowait((name, data))
        finally:
            transport.close()

    async def _finish(self, readers: Sequence[asyncio.Task[None]]) -> None:
        await asyncio.gather(*readers, return_exceptions=True)
        self._chunks.put_nowait(None)


class Box:
    """One fake machine. `files`, `run` and `stop` are all that a control plane needs."""

    def __init__(
        self, provider: LocalProvider, sandbox: LocalSandbox, folder: tempfile.TemporaryDirectory[str]
    ) -> None:
        self.files = sandbox
        self.processes: list[Process] = []
        self._provider = provider
        self._sandbox = sandbox
        self._folder = folder

    @classmethod
    async def start(cls, *, directories: Sequence[str] = (), network: bool = False) -> Box:
        folder = tempfile.TemporaryDirectory(prefix="localbox-")
        try:
            (Path(folder.name) / "Dockerfile").write_text("FROM scratch\n")
            provider = LocalProvider()
            spec = SandboxSpec(
                build_dir=Path(folder.name),
                directories=tuple(directories),
                network=NetworkMode.FULL if network else NetworkMode.NONE,
                ttl_sec=_DAY,
            )
            return cls(provider, cast(LocalSandbox, await provider.start(spec)), folder)
        except BaseException:
            folder.cleanup()
            raise

    @property
    def root(self) -> Path:
        """Where the box's `/` lies on the host."""
        return self._sandbox._home.root

    async def alive(self) -> bool:
        return await self._sandbox.is_alive()

    def run(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: str = "/", stdin: bytes | int = b""
    ) -> Process:
        """Start a process. It sees `env` and, unless that says otherwise, a usual PATH and HOME.

        `stdin` is content, or a descriptor that is left open.
        """
        exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in (env or {}).items())
        script = f"exec 3<&-\n{exports}cd {shlex.quote(cwd)} || exit 126\nexec {shlex.join(argv)}\n"
        sandbox = self._sandbox
        tag = sandbox._next_tag
        sandbox._next_tag += 1
        text = _memory_file(script.encode("utf-8", "surrogateescape"))
        source = stdin if isinstance(stdin, int) else _memory_file(stdin)
        (out, out_end), (err, err_end) = os.pipe(), os.pipe()
        try:
            entry = sandbox._entry(tag, sandbox._own_limits)
            pid = answered(DOORMAN.ask(entry, CLEAN_ENV, source, out_end, err_end, text), within=ANSWER_SEC)
        finally:
            for fd in (text, out_end, err_end, *([] if isinstance(stdin, int) else [source])):
                os.close(fd)
        process = Process(pid, tag)
        self.processes.append(process)
        process.follow(out, err)
        return process

    async def stop(self) -> None:
        """End everything in the box and remove it. Idempotent."""
        await self._sandbox.stop()
        processes, self.processes = self.processes, []
        for process in processes:
            await process.exit_code()
            await process.close()
        self._folder.cleanup()


def _memory_file(content: bytes) -> int:
    fd = os.memfd_create("box")
    with os.fdopen(os.dup(fd), "wb") as file:
        file.write(content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd

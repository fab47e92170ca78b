"""One live local sandbox."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import re
import shlex
import signal
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from backends import archive, posix
from backends.errors import SandboxError, SandboxUnavailable, SandboxUnsupported
from backends.files import ShellFiles
from backends.local.entry import Entry, NotStarted
from backends.local.home import Home, destroy, restore
from backends.local.init import Init
from backends.local.namespaces import Isolation, Limits
from backends.local.process import run, run_blocking
from backends.local.streams import Leftovers
from backends.local.tags import kill_tagged
from backends.protocol import Capabilities
from backends.spec import DEFAULT_MAX_OUTPUT, ExecuteResponse, NetworkMode, SandboxSpec

_TRANSFER_TIMEOUT_SEC = 600.0
_KILL_TIMEOUT_SEC = 30.0
_KILL_ROUNDS = 5
_DEFAULT_PROCESSES = 1024
_DEFAULT_FILE_MB = 10 * 1024
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TAR_TROUBLE = re.compile(rb"^tar: (.*): (?:Cannot|File removed|socket ignored)", re.MULTILINE)
_KILL_ALL = b"""kill -9 -1
living() {
  count=0
  for f in /proc/[0-9]*/stat; do
    read -r line 2>/dev/null <"$f" || continue
    case ${line##*) } in [ZX]*) ;; *) count=$((count + 1)) ;; esac
  done
  [ $count -gt 3 ]
}
n=0
while living; do [ $n -lt 500 ] || exit 1; n=$((n + 1)); sleep 0.01; done
"""
"""Kills all, and waits until none but the first process, its reader and this shell lives; 1 if some still do."""


class LocalSandbox(ShellFiles):
    """A namespace on this machine (or, unsafely, none). Made by `LocalProvider.start`."""

    def __init__(
        self,
        home: Home,
        spec: SandboxSpec,
        *,
        isolation: Isolation,
        capabilities: Capabilities,
        workdir: str,
        env: Mapping[str, str],
        user: str | None,
        init: Init | None,
        forget: Callable[[str], None],
    ) -> None:
        self._home = home
        self._spec = spec
        self._isolation = isolation
        self._capabilities = capabilities
        self.workdir = workdir
        self.file_shell = self._file_shell
        self._env = dict(env)
        self._users = {None, "root", "0", user, spec.user}
        self._init = init
        self._forget = forget
        self._leftovers = Leftovers()
        self._next_tag = home.first_tag + 1
        self._stopping: asyncio.Task[None] | None = None
        self._end = asyncio.get_running_loop().call_later(spec.ttl_sec, self._begin_stop)
        self._limits = Limits(
            processes=spec.resources.pids or _DEFAULT_PROCESSES,
            file_bytes=(spec.resources.disk_mb or _DEFAULT_FILE_MB) << 20,
            data_bytes=spec.resources.memory_mb << 20 if spec.resources.memory_mb else None,
        )
        self._own_limits = dataclasses.replace(self._limits, processes=None, data_bytes=None)

    @property
    def id(self) -> str:
        return self._home.id

    @property
    def backend(self) -> str:
        return "local"

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    @property
    def host_address(self) -> str | None:
        full = self._spec.network is NetworkMode.FULL or self._isolation is Isolation.NONE
        return "127.0.0.1" if full else None

    @property
    def user(self) -> str:
        return "root"

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
        if user not in self._users:
            raise SandboxUnsupported(
                f"the local backend has one user, so it cannot run a command as {user!r}; use `--backend docker`",
                backend="local",
                operation="execute",
                sandbox_id=self.id,
            )
        place = posix.absolute(cwd or ".", self.workdir)
        script = _script(command, place, self._env | dict(env or {}))
        return await self._run(script, stdin=stdin, timeout=timeout, max_output=max_output)

    async def _file_shell(
        self, command: str, *, timeout: float, cwd: str, stdin: bytes | None, max_output: int
    ) -> ExecuteResponse:
        """`execute` for our own file operations: not kept out by commands that hold all the processes they may."""
        script = _script(command, cwd, {})
        return await self._run(script, stdin=stdin, timeout=timeout, max_output=max_output, limits=self._own_limits)

    async def upload(self, source: Path, target: str) -> None:
        place = posix.absolute(target, self.workdir)
        with tempfile.TemporaryFile() as file:
            name = None if source.is_dir() else place.rpartition("/")[2]  # noqa: ASYNC240 - one stat
            await asyncio.to_thread(archive.pack, source, file, name=name)
            os.lseek(file.fileno(), 0, os.SEEK_SET)
            folder = place if name is None else place.rpartition("/")[0] or "/"
            refuse = f'[ ! -d {shlex.quote(place)} ] || {{ echo "tar: Is a directory" >&2; exit 1; }}\n' if name else ""
            script = (
                f"{refuse}mkdir -p {shlex.quote(folder)} && exec tar -xpf - --no-same-owner -C {shlex.quote(folder)}"
            )
            response = await self._run(
                _script(script, "/", {"LC_ALL": "C"}),
                stdin=file.fileno(),
                timeout=_TRANSFER_TIMEOUT_SEC,
                max_output=1 << 16,
                limits=self._own_limits,
            )
        posix.check(response, place)

    async def download(self, source: str, target: Path, *, max_bytes: int = 1 << 30) -> list[str]:
        place = posix.absolute(source, self.workdir)
        folder, _, name = place.rpartition("/")
        quoted = shlex.quote(place)
        script = (
            f"[ -e {quoted} ] || exec ls -d {quoted}\n"
            f"if [ -d {quoted} ]; then exec tar -cf - -C {quoted} .; "
            f"else exec tar -chf - -C {shlex.quote(folder or '/')} -- {shlex.quote('./' + name)}; fi"
        )
        with tempfile.TemporaryFile() as file:
            # tar may write headers on top of what is asked for; the extractor counts exactly
            limits = dataclasses.replace(self._own_limits, file_bytes=max_bytes + (64 << 20))
            response = await self._run(
                _script(script, "/", {"LC_ALL": "C"}),
                stdin=None,
                stdout=file.fileno(),
                timeout=_TRANSFER_TIMEOUT_SEC,
                max_output=1 << 20,
                limits=limits,
            )
            if response.exit_code == 128 + signal.SIGXFSZ:
                raise SandboxError(f"{place} is larger than {max_bytes} bytes", backend="local", operation="download")
            size = os.lseek(file.fileno(), 0, os.SEEK_END)
            if size == 0:
                posix.check(response, place)
            os.lseek(file.fileno(), 0, os.SEEK_SET)
            root = "." if size and _starts_with_directory(file.fileno()) else name
            dropped = await asyncio.to_thread(archive.unpack, file, target, max_bytes=max_bytes, root=root)
        return dropped + [match.decode("utf-8", "replace") for match in _TAR_TROUBLE.findall(response.stderr)]

    async def kill_processes(self) -> None:
        self._check_alive("kill_processes")
        try:
            await asyncio.to_thread(self._end_commands)
        finally:
            self._check_alive("kill_processes")

    async def is_alive(self) -> bool:
        return self._alive()

    async def renew(self) -> None:
        self._check_alive("renew")
        self._end.cancel()
        self._end = asyncio.get_running_loop().call_later(self._spec.ttl_sec, self._begin_stop)

    async def stop(self) -> None:
        await asyncio.shield(self._begin_stop())

    async def chmod(self, path: str, mode: int) -> None:
        """Set the mode of a file, or of everything in a directory, as `COPY --chmod` does."""
        response = await self.execute(f"chmod -R {mode:o} {shlex.quote(path)}", timeout=posix.FILE_TIMEOUT_SEC)
        posix.check(response, path)

    def _begin_stop(self) -> asyncio.Task[None]:
        if self._stopping is None:
            self._stopping = asyncio.ensure_future(self._stop())
        return self._stopping

    async def _stop(self) -> None:
        self._end.cancel()
        try:
            if self._init is not None:
                await self._init.kill()
        finally:
            self._leftovers.close()
            await asyncio.to_thread(destroy, self._home)
            self._forget(self.id)

    def _alive(self) -> bool:
        return self._stopping is None and (self._init is None or self._init.alive())

    def _check_alive(self, operation: str) -> None:
        if not self._alive():
            raise SandboxUnavailable(
                f"local sandbox {self.id} has ended", backend="local", operation=operation, sandbox_id=self.id
            )

    def _entry(self, tag: int, limits: Limits) -> Entry:
        return Entry(
            pidfd=self._init.pidfd if self._init is not None else None,
            uid=self._home.uid,
            network=self._spec.network is NetworkMode.FULL,
            tag=tag,
            limits=limits,
        )

    def _kill_all(self) -> None:
        """The same, for a command that is ended anyway, in a sandbox that may be gone."""
        with suppress(SandboxError):
            self._end_commands()

    def _end_commands(self) -> None:
        """Kill every process of every command at once: in a namespace even a fork bomb cannot outrun this.

        Raises SandboxError if they may live on.
        """
        try:
            ended = self._isolation is not Isolation.NONE and self._ended_inside()
        except NotStarted as error:
            raise self._not_ended(str(error)) from error
        # Who kills whatever comes in cannot reach us out here.
        if not ended and not any(kill_tagged(self._home.first_tag, self._home.end_tag) for _ in range(_KILL_ROUNDS)):
            raise self._not_ended("some live on")
        if self._isolation is not Isolation.NONE:
            restore(self._home)  # and now there is nobody left to undo it

    def _ended_inside(self) -> bool:
        restore(self._home)  # or nothing of ours could be started
        entry = self._entry(self._home.first_tag, self._own_limits)
        return run_blocking(entry, _KILL_ALL, timeout=_KILL_TIMEOUT_SEC) == 0

    def _not_ended(self, why: str) -> SandboxError:
        return SandboxError(
            f"its processes could not be ended: {why}",
            backend="local",
            operation="kill_processes",
            sandbox_id=self.id,
        )

    async def _run(
        self,
        script: bytes,
        *,
        stdin: bytes | int | None,
        timeout: float,
        max_output: int,
        stdout: int | None = None,
        limits: Limits | None = None,
    ) -> ExecuteResponse:
        self._check_alive("execute")
        tag = self._next_tag
        self._next_tag += 1
        try:
            response = await run(
                self._entry(tag, limits or self._limits),
                kill_all=self._kill_all,
                script=script,
                stdin=stdin,
                stdout=stdout,
                timeout=timeout,
                max_output=max_output,
                leftovers=self._leftovers,
            )
        except (NotStarted, OSError) as error:
            self._check_alive("execute")
            raise SandboxError(
                f"a command could not be started: {error}", backend="local", operation="execute", sandbox_id=self.id
            ) from error
        # A result of a command whose sandbox died under it tells nothing of the command.
        self._check_alive("execute")
        return response


def _script(command: str, cwd: str, env: Mapping[str, str]) -> bytes:
    """What the shell reads: variables and directory on one line, and the command below it."""
    for name, value in env.items():
        if not _NAME.fullmatch(name) or "\0" in value:
            raise ValueError(f"not a variable that a shell can hold: {name!r}")
    if "\0" in command:
        raise ValueError("a command cannot contain a NUL character")
    exports = "".join(f"export {name}={shlex.quote(value)}; " for name, value in env.items())
    text = f"{exports}cd {shlex.quote(cwd)} || exit 126\n{command}\n"
    return text.encode("utf-8", "surrogateescape")


def _starts_with_directory(fd: int) -> bool:
    """Whether the archive's first entry is `./`: a directory was asked for, and not a file."""
    return os.pread(fd, 3, 0) == b"./\0"

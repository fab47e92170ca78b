"""A sandbox that is a folder of this machine, with real commands: for tests whose subject is the agent.

It isolates nothing. Absolute paths of the file methods lie below the folder; commands start in it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

from backends.protocol import Capabilities
from backends.spec import ExecuteResponse, FileInfo, GrepMatch, NetworkMode, cut_utf8

NOTHING = Capabilities(
    networks=frozenset(NetworkMode),
    users=False,
    images=False,
    dockerfiles="none",
    memory_limit=False,
    gpus=False,
    isolation="none",
)


@dataclass
class FolderSandbox:
    """The whole protocol over a folder; `calls` names the methods that were used, in order."""

    root: Path
    id: str = "folder"
    backend: str = "folder"
    workdir: str = "/"
    user: str = "root"
    host_address: str | None = "127.0.0.1"
    capabilities: Capabilities = NOTHING
    calls: list[str] = field(default_factory=list)

    def _at(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    async def execute(
        self,
        command: str,
        *,
        timeout: float,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        stdin: bytes | None = None,
        max_output: int = 1 << 20,
    ) -> ExecuteResponse:
        self.calls.append("execute")
        started = time.monotonic()
        process = await asyncio.create_subprocess_exec(
            "bash",
            "-c",
            command,
            cwd=self._at(cwd or "."),
            env={**os.environ, **(env or {})},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        timed_out = False
        reading = asyncio.ensure_future(process.communicate(stdin))
        try:
            done, _ = await asyncio.wait({reading}, timeout=timeout)
            timed_out = not done
        finally:
            if not reading.done():
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await asyncio.wait({reading})
        out, err = reading.result()
        return ExecuteResponse(
            stdout=cut_utf8(out, max_output),
            stderr=cut_utf8(err, max_output),
            stdout_size=len(out),
            stderr_size=len(err),
            exit_code=None if timed_out else process.returncode,
            timed_out=timed_out,
            duration_sec=time.monotonic() - started,
        )

    async def read(self, path: str, *, max_bytes: int = 64 << 20) -> bytes:
        self.calls.append("read")
        return self._at(path).read_bytes()[:max_bytes]

    async def write(self, path: str, data: bytes, *, mode: int | None = None) -> None:
        self.calls.append("write")
        self._at(path).parent.mkdir(parents=True, exist_ok=True)
        self._at(path).write_bytes(data)

    async def edit(self, path: str, old: str, new: str, *, replace_all: bool = False) -> int:
        self.calls.append("edit")
        text = self._at(path).read_text()
        count = text.count(old)
        if count == 0 or (count > 1 and not replace_all):
            raise ValueError(f"{self._at(path)}: {count} matches")
        self._at(path).write_text(text.replace(old, new))
        return count

    async def ls(self, path: str = ".") -> list[FileInfo]:
        self.calls.append("ls")
        return [self._info(each) for each in sorted(self._at(path).iterdir())]

    async def grep(
        self, pattern: str, path: str = ".", *, include: str | None = None, max_matches: int = 1000
    ) -> list[GrepMatch]:
        self.calls.append("grep")
        try:
            expression = re.compile(pattern)
        except re.error as error:
            raise ValueError(str(error)) from error
        return [
            GrepMatch(path=self._info(file).path, line=number, text=line)
            for file in sorted(self._at(path).rglob("*"))
            if file.is_file() and fnmatch(file.name, include or "*")
            for number, line in enumerate(file.read_text(errors="replace").splitlines(), 1)
            if expression.search(line)
        ][:max_matches]

    async def glob(self, pattern: str, path: str = ".", *, max_matches: int = 1000) -> list[FileInfo]:
        self.calls.append("glob")
        return [self._info(each) for each in sorted(self._at(path).glob(pattern))][:max_matches]

    async def upload(self, source: Path, target: str) -> None:
        self.calls.append("upload")
        shutil.copytree(source, self._at(target), dirs_exist_ok=True)

    async def download(self, source: str, target: Path, *, max_bytes: int = 1 << 30) -> list[str]:
        shutil.copytree(self._at(source), target, dirs_exist_ok=True)
        return []

    async def kill_processes(self) -> None:
        pass

    async def is_alive(self) -> bool:
        return True

    async def renew(self) -> None:
        pass

    async def stop(self) -> None:
        pass

    def _info(self, path: Path) -> FileInfo:
        kind = "dir" if path.is_dir() else "file"
        return FileInfo(path="/" + path.relative_to(self.root).as_posix(), kind=kind, size=path.stat().st_size)

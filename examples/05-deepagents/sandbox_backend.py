"""deepagents' backend protocol over any sandbox of ours: agents that are built on it run on all of them.

Nothing is needed inside the sandbox but a shell: files travel through our own protocol, not through scripts. The
asynchronous methods are the real ones; the synchronous ones, which deepagents calls from its worker threads, hand
their work to the loop that the sandbox lives in.
"""

from __future__ import annotations

import asyncio
import base64
import shlex
from collections.abc import Coroutine
from typing import Any, TypeVar

from deepagents.backends.protocol import (
    DeleteResult,
    EditResult,
    ExecuteResponse,
    FileDownloadResponse,
    FileInfo,
    FileUploadResponse,
    GlobResult,
    GrepMatch,
    GrepResult,
    LsResult,
    ReadResult,
    SandboxBackendProtocol,
    WriteResult,
)

from backends.protocol import SandboxBackendProtocol as HarnessSandbox
from backends.spec import FileInfo as OurFileInfo

T = TypeVar("T")


class SandboxBackend(SandboxBackendProtocol):
    """One of our sandboxes, as deepagents sees it. Made inside the event loop that the sandbox lives in."""

    def __init__(self, sandbox: HarnessSandbox, *, command_timeout_sec: int = 120) -> None:
        self._sandbox = sandbox
        self._timeout = command_timeout_sec
        self._loop = asyncio.get_running_loop()

    @property
    def id(self) -> str:
        return self._sandbox.id

    async def aexecute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        done = await self._sandbox.execute(command, timeout=timeout or self._timeout)
        return ExecuteResponse(output=done.output, exit_code=done.agent_exit_code, truncated=done.truncated)

    async def aread(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        if limit <= 0:
            return ReadResult(file_data={"content": "", "encoding": "utf-8"}, no_lines_requested=True)
        try:
            raw = await self._sandbox.read(file_path)
        except OSError as error:
            return ReadResult(error=_say(error, file_path))
        try:
            lines = raw.decode().splitlines(keepends=True)
        except UnicodeDecodeError:
            return ReadResult(file_data={"content": base64.b64encode(raw).decode(), "encoding": "base64"})
        page = lines[max(offset, 0) : max(offset, 0) + limit]
        end = max(offset, 0) + len(page)
        return ReadResult(
            file_data={"content": "".join(page), "encoding": "utf-8"},
            total_lines=len(lines) if page else None,
            start_line=end - len(page) + 1 if page else None,
            end_line=end if page else None,
            next_offset=end if page and end < len(lines) else None,
        )

    async def awrite(self, file_path: str, content: str) -> WriteResult:
        try:
            await self._sandbox.write(file_path, content.encode())
        except OSError as error:
            return WriteResult(error=_say(error, file_path))
        return WriteResult(path=file_path)

    async def aedit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> EditResult:
        try:
            count = await self._sandbox.edit(file_path, old_string, new_string, replace_all=replace_all)
        except (OSError, ValueError) as error:
            return EditResult(error=_say(error, file_path))
        return EditResult(path=file_path, occurrences=count)

    async def adelete(self, file_path: str) -> DeleteResult:
        done = await self._sandbox.execute(f"rm -r -- {shlex.quote(file_path)}", timeout=self._timeout)
        return DeleteResult(error=done.output) if done.exit_code else DeleteResult(path=file_path)

    async def als(self, path: str) -> LsResult:
        try:
            return LsResult(entries=[_info(each) for each in await self._sandbox.ls(path)])
        except OSError as error:
            return LsResult(error=_say(error, path))

    async def aglob(self, pattern: str, path: str | None = None) -> GlobResult:
        try:
            return GlobResult(matches=[_info(each) for each in await self._sandbox.glob(pattern, path or ".")])
        except (OSError, ValueError) as error:
            return GlobResult(error=_say(error, path or "."))

    async def agrep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> GrepResult:
        literal = "".join(char if char.isalnum() or char in " _" else f"[{char}]" for char in pattern)
        literal = literal.replace("[\\]", "\\\\").replace("[^]", "\\^")
        try:
            found = await self._sandbox.grep(literal, path or ".", include=glob, max_matches=max_count or 1000)
        except (OSError, ValueError) as error:
            return GrepResult(error=_say(error, path or "."))
        return GrepResult(matches=[GrepMatch(path=each.path, line=each.line, text=each.text) for each in found])

    async def aupload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        return [await self._upload(path, content) for path, content in files]

    async def _upload(self, path: str, content: bytes) -> FileUploadResponse:
        try:
            await self._sandbox.write(path, content)
        except OSError as error:
            return FileUploadResponse(path=path, error=_code(error))
        return FileUploadResponse(path=path)

    async def adownload_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        return [await self._download(path) for path in paths]

    async def _download(self, path: str) -> FileDownloadResponse:
        try:
            return FileDownloadResponse(path=path, content=await self._sandbox.read(path))
        except OSError as error:
            return FileDownloadResponse(path=path, error=_code(error))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        return self._run(self.aexecute(command, timeout=timeout))

    def read(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        return self._run(self.aread(file_path, offset, limit))

    def write(self, file_path: str, content: str) -> WriteResult:
        return self._run(self.awrite(file_path, content))

    def edit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> EditResult:
        return self._run(self.aedit(file_path, old_string, new_string, replace_all))

    def delete(self, file_path: str) -> DeleteResult:
        return self._run(self.adelete(file_path))

    def ls(self, path: str) -> LsResult:
        return self._run(self.als(path))

    def glob(self, pattern: str, path: str | None = None) -> GlobResult:
        return self._run(self.aglob(pattern, path))

    def grep(self, pattern: str, path: str | None = None, glob: str | None = None) -> GrepResult:
        return self._run(self.agrep(pattern, path, glob))

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        return self._run(self.aupload_files(files))

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        return self._run(self.adownload_files(paths))


def _info(entry: OurFileInfo) -> FileInfo:
    return FileInfo(path=entry.path, is_dir=entry.kind == "dir", size=entry.size)


def _say(error: Exception, path: str) -> str:
    reasons = {"file_not_found": "no such file", "is_directory": "is a directory", "permission_denied": "not allowed"}
    code = _code(error) if isinstance(error, OSError) else ""
    return f"{path}: {reasons.get(code, str(error))}"


def _code(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "file_not_found"
    if isinstance(error, IsADirectoryError):
        return "is_directory"
    return "permission_denied" if isinstance(error, PermissionError) else "invalid_path"

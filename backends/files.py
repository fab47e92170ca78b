"""The protocol's file operations, for every sandbox that has a shell: written once, over `backends.posix`."""

from __future__ import annotations

from backends import posix
from backends.spec import FileInfo, GrepMatch


class ShellFiles:
    """What a sandbox inherits; it sets `workdir`, where relative paths start, and `file_shell`, which runs commands."""

    workdir: str
    file_shell: posix.Execute

    async def read(self, path: str, *, max_bytes: int = 64 << 20) -> bytes:
        """See SandboxBackendProtocol."""
        return await posix.read(self.file_shell, self._place(path), max_bytes=max_bytes)

    async def write(self, path: str, data: bytes, *, mode: int | None = None) -> None:
        """See SandboxBackendProtocol."""
        await posix.write(self.file_shell, self._place(path), data, mode=mode)

    async def edit(self, path: str, old: str, new: str, *, replace_all: bool = False) -> int:
        """See SandboxBackendProtocol."""
        return await posix.edit(self.file_shell, self._place(path), old, new, replace_all=replace_all)

    async def ls(self, path: str = ".") -> list[FileInfo]:
        """See SandboxBackendProtocol."""
        return await posix.ls(self.file_shell, self._place(path))

    async def grep(
        self, pattern: str, path: str = ".", *, include: str | None = None, max_matches: int = 1000
    ) -> list[GrepMatch]:
        """See SandboxBackendProtocol."""
        where = self._place(path)
        return await posix.grep(self.file_shell, pattern, where, include=include, max_matches=max_matches)

    async def glob(self, pattern: str, path: str = ".", *, max_matches: int = 1000) -> list[FileInfo]:
        """See SandboxBackendProtocol."""
        return await posix.glob(self.file_shell, pattern, self._place(path), max_matches=max_matches)

    def _place(self, path: str) -> str:
        return posix.absolute(path, self.workdir)

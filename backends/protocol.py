"""The contract: what every sandbox can do, and what every provider of sandboxes can do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from backends.spec import (
    DEFAULT_MAX_OUTPUT,
    ExecuteResponse,
    FileInfo,
    GrepMatch,
    NetworkMode,
    SandboxInfo,
    SandboxSpec,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a backend can honour; callers ask these flags and never the backend's class.

    Attributes:
        networks: the network modes it can enforce.
        users: commands can run as a user other than the sandbox's own.
        images: ready images can be used.
        dockerfiles: "any" Dockerfile, a "subset" (FROM, WORKDIR, ENV, USER, COPY/ADD of local files), or "none".
        memory_limit: a memory limit is enforced and an OOM kill is told from an ordinary failure.
        gpus: GPUs can be attached.
        isolation: "container", "vm", "namespaces", or "none".
        layers: a spec's `layer` can be installed on its image, and is kept.
        max_sandboxes: how many may live at once; a start beyond that waits for another's stop. None: no such bound.
    """

    networks: frozenset[NetworkMode]
    users: bool
    images: bool
    dockerfiles: str
    memory_limit: bool
    gpus: bool
    isolation: str
    layers: bool = False
    max_sandboxes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """Whether a backend works here: `detail` in one line, and `fix`, the exact remedy where it does not."""

    works: bool
    isolation: str
    detail: str
    fix: str | None = None


@runtime_checkable
class SandboxBackendProtocol(Protocol):
    """One live sandbox.

    Paths are POSIX, absolute or relative to the sandbox's workdir. Every method raises SandboxError (by subclass, see
    `backends.errors`) when the sandbox or its engine fails, and is safe to cancel: what it started inside is killed.
    """

    @property
    def id(self) -> str:
        """The provider's identifier."""

    @property
    def backend(self) -> str:
        """The backend's name, e.g. "docker"."""

    @property
    def capabilities(self) -> Capabilities:
        """What this very sandbox honours, its isolation level included."""

    @property
    def workdir(self) -> str:
        """The absolute directory that relative paths start from."""

    @property
    def user(self) -> str:
        """The user that commands run as unless told otherwise, e.g. "root"."""

    @property
    def host_address(self) -> str | None:
        """The address under which commands inside reach what listens on it here; None where they reach nothing here."""

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
        """Run `command` with the sandbox's shell and wait for it, at most `timeout` seconds.

        A non-zero exit and a missed deadline are results. At the deadline, and on cancellation, every process that
        the command started is killed. Children left in the background do not hold the call and live on. stdin is
        empty unless given. `command` may be of any length. `user` overrides the sandbox's default user.
        """

    async def read(self, path: str, *, max_bytes: int = 64 << 20) -> bytes:
        """The bytes of a file, at most `max_bytes`. Raises FileNotFoundError, IsADirectoryError, PermissionError."""

    async def write(self, path: str, data: bytes, *, mode: int | None = None) -> None:
        """Create or replace a file, parents included. Raises IsADirectoryError, NotADirectoryError, PermissionError."""

    async def edit(self, path: str, old: str, new: str, *, replace_all: bool = False) -> int:
        """Replace `old` by `new` and return how often. Raises ValueError if `old` is absent, or not unique."""

    async def ls(self, path: str = ".") -> list[FileInfo]:
        """The entries of a directory, sorted by path. Raises FileNotFoundError, NotADirectoryError."""

    async def grep(
        self, pattern: str, path: str = ".", *, include: str | None = None, max_matches: int = 1000
    ) -> list[GrepMatch]:
        """Lines that match the extended regular expression, below `path`, in files whose name fits `include`."""

    async def glob(self, pattern: str, path: str = ".", *, max_matches: int = 1000) -> list[FileInfo]:
        """Files below `path` that fit a shell pattern in which `**` crosses directories, sorted by path."""

    async def upload(self, source: Path, target: str) -> None:
        """Copy a host file to the path `target`, or a folder's contents into the directory `target`.

        File modes are kept, owners are not. Raises ValueError for a link that leaves `source`.
        """

    async def download(self, source: str, target: Path, *, max_bytes: int = 1 << 30) -> list[str]:
        """Copy a sandbox file to `target`, or a directory's contents into it; what is inside is hostile.

        Devices, FIFOs and links that leave `source` are dropped; their names are returned. Files arrive owned and
        readable by the caller. Raises FileNotFoundError, and SandboxError beyond `max_bytes`.
        """

    async def kill_processes(self) -> None:
        """Kill every process that any command left behind, whoever owns it; the sandbox itself lives on."""

    async def is_alive(self) -> bool:
        """Whether commands can still run. Never raises SandboxUnavailable."""

    async def renew(self) -> None:
        """Restart the sandbox's time to live from now."""

    async def stop(self) -> None:
        """End the sandbox and everything in it. Idempotent."""


class SandboxProvider(Protocol):
    """Starts, lists and reaps the sandboxes of one backend. Made inside the event loop that uses it."""

    @property
    def name(self) -> str:
        """The backend's name."""

    @property
    def capabilities(self) -> Capabilities:
        """What its sandboxes can honour."""

    async def check(self) -> Readiness:
        """Whether the backend works here. Never raises."""

    async def start(self, spec: SandboxSpec) -> SandboxBackendProtocol:
        """Build the image if needed and start a sandbox. Cancelled or failed, it leaves nothing behind.

        Raises SandboxUnsupported before anything is created when the spec asks for what this backend lacks.
        """

    async def list(self, labels: Mapping[str, str] | None = None) -> list[SandboxInfo]:
        """The live sandboxes that carry the harness's labels, and also all of `labels`."""

    async def remove(self, sandbox_id: str) -> None:
        """End a sandbox by its id, whoever started it. Idempotent."""

    async def close(self) -> None:
        """Release connections. Sandboxes stay as they are."""

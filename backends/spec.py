"""The frozen values that cross the sandbox boundary: what is asked for, and what comes back."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

DEFAULT_MAX_OUTPUT = 1 << 20
"""Bytes of each output stream that a command may return; what exceeds it is counted and dropped."""


class NetworkMode(StrEnum):
    """What a sandbox can reach."""

    NONE = "none"
    FULL = "full"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """Limits of one sandbox; None leaves the backend's default."""

    cpus: float | None = None
    memory_mb: int | None = None
    disk_mb: int | None = None
    gpus: int | None = None
    pids: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """Software on top of an image: installed once, and the result is shared by all sandboxes of that image.

    The script is what tells two layers apart. `env` and `files` serve the installing only (proxies, indexes, the
    certificates of a company): they are no part of what is installed, and changing them installs nothing anew.

    Attributes:
        name: what it is, e.g. "qwen-code 0.24.4", for messages.
        script: run once by `/bin/sh -e` as root with the full network, in a folder of its own that is removed after it.
        env: variables of the script. Whoever has the image may find them: no place for secrets.
        files: host files by the name that they have in the script's folder.
        folders: where it lies. A backend without image layers carries these, and nothing else, into its sandboxes.
        timeout_sec: the deadline of installing.
    """

    name: str
    script: str
    folders: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)
    timeout_sec: float = 900.0

    @property
    def digest(self) -> str:
        """What is installed, as 64 hexadecimal digits."""
        return hashlib.sha256(f"layer-1\0{self.script}".encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSpec:
    """Everything needed to start one sandbox. Exactly one of `image` and `build_dir` is set.

    Attributes:
        image: a ready image's reference, used as it is.
        build_dir: a folder with a `Dockerfile`, built once per content digest.
        layer: what is installed on top of the image, by a backend with the capability `layers`.
        workdir: the directory that relative paths and commands start from; None takes the image's.
        env: variables that every command in the sandbox sees.
        user: default user of commands; None takes the image's.
        network: what the sandbox can reach. Nothing, unless asked.
        directories: absolute paths that must exist (and be writable by the default user) at start.
        ttl_sec: seconds after which the sandbox ends by itself, even if the harness was killed.
        build_timeout_sec, start_timeout_sec: deadlines of building and of starting.
        labels: marks by which the sandbox is listed and reaped (see `backends.lifecycle`).
        allow_unsafe: permits a backend that isolates nothing (the local one without namespaces).
    """

    image: str | None = None
    build_dir: Path | None = None
    layer: Layer | None = None
    workdir: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None
    resources: Resources = field(default_factory=Resources)
    network: NetworkMode = NetworkMode.NONE
    directories: tuple[str, ...] = ()
    ttl_sec: float = 3600.0
    build_timeout_sec: float = 600.0
    start_timeout_sec: float = 120.0
    labels: Mapping[str, str] = field(default_factory=dict)
    allow_unsafe: bool = False

    def __post_init__(self) -> None:
        if (self.image is None) == (self.build_dir is None):
            raise ValueError("a SandboxSpec names either an image or a build_dir")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecuteResponse:
    """How a command ended.

    Attributes:
        stdout, stderr: the first bytes of each stream, at most `max_output` each, never cut inside a UTF-8 character.
        stdout_size, stderr_size: bytes that the command really wrote.
        exit_code: None when the deadline killed the command; 128+n when signal n did.
        timed_out: the command's own deadline passed and its whole process tree was killed.
        oom: True or False where the kernel's counter or the engine's event tells; None where nothing can tell.
        duration_sec: wall time by the host's monotonic clock.
    """

    stdout: bytes = b""
    stderr: bytes = b""
    stdout_size: int = 0
    stderr_size: int = 0
    exit_code: int | None = 0
    timed_out: bool = False
    oom: bool | None = None
    duration_sec: float = 0.0

    @property
    def truncated(self) -> bool:
        """Whether either stream was cut."""
        return self.stdout_size > len(self.stdout) or self.stderr_size > len(self.stderr)

    @property
    def output(self) -> str:
        """Both streams as text, stdout first; invalid UTF-8 becomes U+FFFD."""
        parts = [self.stdout.decode("utf-8", "replace"), self.stderr.decode("utf-8", "replace")]
        return "\n".join(part.rstrip("\n") for part in parts if part)

    @property
    def agent_exit_code(self) -> int:
        """The code an agent is shown: 124 for a deadline, as timeout(1) has it."""
        return 124 if self.exit_code is None else self.exit_code


@dataclass(frozen=True, slots=True, kw_only=True)
class FileInfo:
    """One entry of a listing. `kind` is "file", "dir", "link" or "other"; `size` is in bytes."""

    path: str
    kind: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GrepMatch:
    """One matching line, numbered from 1."""

    path: str
    line: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxInfo:
    """One live sandbox as its provider lists it. `created_at` is seconds since the epoch."""

    id: str
    backend: str
    labels: Mapping[str, str]
    created_at: float


def cut_utf8(data: bytes, limit: int) -> bytes:
    """The first `limit` bytes of `data`, shortened so that the cut does not split a UTF-8 character.

    Bytes that were invalid before the cut stay as they are.
    """
    if len(data) <= limit:
        return data
    cut = data[:limit]
    for back in range(1, min(4, len(cut)) + 1):
        lead = cut[-back]
        if lead & 0xC0 == 0x80:
            continue
        width = 4 if lead >= 0xF0 else 3 if lead >= 0xE0 else 2 if lead >= 0xC0 else 1
        return cut[:-back] if width > back else cut
    return cut

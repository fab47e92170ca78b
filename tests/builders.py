"""One builder per noun, so that each test states only what matters; and a backend that lives in memory.

The memory backend is a double for tests of trials and jobs, whose subject is not the sandbox: its files are a dict,
and its commands are a function. It speaks the whole protocol, and the trial cannot tell.
"""

from __future__ import annotations

import asyncio
import io
import itertools
import re
import tarfile
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from backends.errors import SandboxError, SandboxUnavailable
from backends.protocol import Capabilities, Readiness
from backends.spec import ExecuteResponse, FileInfo, GrepMatch, NetworkMode, SandboxInfo, SandboxSpec
from harness.agents.protocol import AgentResult, AgentRun
from harness.trial.events import Event

CAPABILITIES = Capabilities(
    networks=frozenset(NetworkMode),
    users=True,
    images=True,
    dockerfiles="any",
    memory_limit=True,
    gpus=False,
    isolation="none",
)

Verdict = Callable[["MemorySandbox"], Mapping[str, bytes] | ExecuteResponse]
Command = Callable[["MemorySandbox", str], Awaitable[ExecuteResponse]]


def passes(sandbox: MemorySandbox) -> Mapping[str, bytes]:
    """A verifier that always gives full marks."""
    return {"reward.txt": b"1\n"}


async def succeeds(sandbox: MemorySandbox, command: str) -> ExecuteResponse:
    """A command that does nothing, well."""
    return ExecuteResponse()


@dataclass
class MemorySandbox:
    """A sandbox whose files are a dict."""

    id: str
    spec: SandboxSpec
    provider: MemoryProvider
    backend: str = "memory"
    capabilities: Capabilities = CAPABILITIES
    workdir: str = "/app"
    user: str = "root"
    files: dict[str, bytes] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    created_at: float = field(default_factory=time.time)
    max_download: int = 1 << 30

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
        self._require_alive()
        if "/tests/test.sh </dev/null" in command:
            if stdin is not None and self.provider.keeps_files:
                self._empty(command)
                self._unpack(stdin, "/tests")
            self.log.append("verify")
            return self._verify(command)
        if command == "sh -s" and b"gone()" in (stdin or b""):
            self.log.append("clean")
            return ExecuteResponse()
        if "could not be emptied" in command:
            self.log.append("empty")
            self._empty(command)
            return ExecuteResponse()
        self.log.append(f"execute {command}")
        return await self.provider.command(self, command)

    def _empty(self, command: str) -> None:
        emptied = tuple(f"{folder}/" for folder in re.findall(r"^for d in (.*); do$", command, re.M)[0].split())
        self.files = {name: data for name, data in self.files.items() if not name.startswith(emptied)}

    def _unpack(self, data: bytes, target: str) -> None:
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            for member in archive:
                if content := archive.extractfile(member):
                    self.files[f"{target}/{member.name}"] = content.read()

    def _verify(self, command: str) -> ExecuteResponse:
        found = re.search(r"^printf '%s exit %s\\n' ([0-9a-f]+)", command, re.MULTILINE)
        assert found, command
        verdict = self.provider.verdict(self)
        if isinstance(verdict, ExecuteResponse):
            return verdict
        mark = found[1].encode()
        parts = [mark + b" exit 0\n"]
        parts += [
            mark + b" file %s %d\n" % (name.encode(), len(data)) + data + b"\n" + mark + b" end\n"
            for name, data in verdict.items()
        ]
        more = any(name.startswith("/logs/") and not name.startswith("/logs/verifier/reward") for name in self.files)
        return ExecuteResponse(stdout=b"".join([*parts, mark + b" more %d\n" % more]))

    async def read(self, path: str, *, max_bytes: int = 64 << 20) -> bytes:
        self._require_alive()
        try:
            return self.files[path][:max_bytes]
        except KeyError:
            raise FileNotFoundError(path) from None

    async def write(self, path: str, data: bytes, *, mode: int | None = None) -> None:
        self._require_alive()
        self.files[path] = data

    async def edit(self, path: str, old: str, new: str, *, replace_all: bool = False) -> int:
        text = (await self.read(path)).decode()
        if old not in text:
            raise ValueError("absent")
        self.files[path] = text.replace(old, new).encode()
        return text.count(old)

    async def ls(self, path: str = ".") -> list[FileInfo]:
        return [FileInfo(path=name, kind="file", size=len(data)) for name, data in sorted(self.files.items())]

    async def grep(
        self, pattern: str, path: str = ".", *, include: str | None = None, max_matches: int = 1000
    ) -> list[GrepMatch]:
        return []

    async def glob(self, pattern: str, path: str = ".", *, max_matches: int = 1000) -> list[FileInfo]:
        return []

    async def upload(self, source: Path, target: str) -> None:
        self._require_alive()
        self.log.append(f"upload {target}")
        for path in [source] if source.is_file() else sorted(source.rglob("*")):
            if path.is_file():
                name = target if source.is_file() else f"{target}/{path.relative_to(source).as_posix()}"
                self.files[name] = path.read_bytes()

    async def download(self, source: str, target: Path, *, max_bytes: int = 1 << 30) -> list[str]:
        self._require_alive()
        self.log.append(f"download {source}")
        size = sum(len(data) for name, data in self.files.items() if name == source or name.startswith(source + "/"))
        if size > min(max_bytes, self.max_download):
            raise SandboxError("the download is too large", backend="memory", operation="download")
        if source in self.files:
            target.write_bytes(self.files[source])
        for name, data in self.files.items():
            if name.startswith(source + "/"):
                path = target / name[len(source) + 1 :]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
        return list(self.dropped)

    async def kill_processes(self) -> None:
        self._require_alive()
        self.log.append("kill")
        if self.provider.on_kill is not None:
            raise self.provider.on_kill

    async def is_alive(self) -> bool:
        return self.id in self.provider.live

    async def renew(self) -> None:
        self._require_alive()

    async def stop(self) -> None:
        self.log.append("stop")
        self.provider.live.pop(self.id, None)

    def _require_alive(self) -> None:
        if self.id not in self.provider.live:
            raise SandboxUnavailable("the sandbox is gone", backend="memory", sandbox_id=self.id)


@dataclass
class MemoryProvider:
    """Starts sandboxes in memory, at once."""

    verdict: Verdict = passes
    command: Command = succeeds
    on_start: Callable[[SandboxSpec], Awaitable[None]] | None = None
    on_kill: Exception | None = None
    user: str = "root"
    name: str = "memory"
    capabilities: Capabilities = CAPABILITIES
    live: dict[str, MemorySandbox] = field(default_factory=dict)
    started: list[MemorySandbox] = field(default_factory=list)
    keep_started: bool = True
    keeps_files: bool = True
    closed: bool = False
    _ids: Any = field(default_factory=itertools.count)

    async def check(self) -> Readiness:
        return Readiness(works=True, isolation="none", detail="in memory")

    async def start(self, spec: SandboxSpec) -> MemorySandbox:
        if self.on_start is not None:
            await self.on_start(spec)
        sandbox = MemorySandbox(id=f"m{next(self._ids)}", spec=spec, provider=self, user=self.user)
        self.live[sandbox.id] = sandbox
        if self.keep_started:
            self.started.append(sandbox)
        return sandbox

    async def list(self, labels: Mapping[str, str] | None = None) -> list[SandboxInfo]:
        return [
            SandboxInfo(id=each.id, backend="memory", labels=each.spec.labels, created_at=each.created_at)
            for each in self.live.values()
            if (labels or {}).items() <= each.spec.labels.items()
        ]

    async def remove(self, sandbox_id: str) -> None:
        self.live.pop(sandbox_id, None)

    async def close(self) -> None:
        self.closed = True


@dataclass
class FunctionAgent:
    """An agent that is a function of its run."""

    act: Callable[[AgentRun], Awaitable[AgentResult | None]]
    name: str = "function"
    version: str = "1"
    model_name: str | None = None
    runs: int = 0

    async def run(self, run: AgentRun) -> AgentResult:
        self.runs += 1
        return await self.act(run) or AgentResult()

    async def close(self) -> None:
        pass


async def _nothing(run: AgentRun) -> None:
    run.trajectory.user(run.step.instruction)


def idle_agent() -> FunctionAgent:
    """An agent that reads the instruction and finishes."""
    return FunctionAgent(_nothing)


def make_task(
    folder: Path,
    name: str = "greet",
    *,
    toml: str = "",
    instruction: str = "Say hello.",
    test: str = "#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n",
    solve: str | None = "#!/bin/sh\necho hello > /app/hello.txt\n",
    dockerfile: str = "FROM debian:bookworm-slim\nWORKDIR /app\n",
    files: Mapping[str, str] | None = None,
) -> Path:
    """A task's folder on disk."""
    root = folder / name
    contents = {
        "task.toml": toml or 'version = "1.0"\n',
        "instruction.md": instruction,
        "environment/Dockerfile": dockerfile,
        "tests/test.sh": test,
        **({"solution/solve.sh": solve} if solve is not None else {}),
        **(files or {}),
    }
    for relative, text in contents.items():
        path = root / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@dataclass
class Heard:
    """A subscriber that remembers."""

    events: list[Event] = field(default_factory=list)

    def __call__(self, event: Event) -> None:
        self.events.append(event)


async def never_answers(*_: object) -> Any:
    """Swallows its cancellation and does not return while a test waits for it, as broken SDKs do."""
    end = time.monotonic() + 1.5
    while time.monotonic() < end:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0.05)

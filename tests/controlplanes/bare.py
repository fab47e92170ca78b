"""The plain calls of each cloud's SDK, with nothing of ours around them: what the harness is measured against."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

IMAGE = "debian:bookworm-slim"
_LIFE_SEC = 600
_COMMAND_SEC = 60


@dataclass(frozen=True)
class BareSdk:
    """How its documentation says to make a sandbox, to run a command in it for its output, and to end it."""

    create: Callable[[], Awaitable[Any]]
    run: Callable[[Any, str], Awaitable[str]]
    end: Callable[[Any], Awaitable[Any]]


@asynccontextmanager
async def bare_sdk(name: str) -> AsyncIterator[BareSdk]:
    """The SDK called `name`, its image ready. Only that SDK is imported."""
    async with {"daytona": _daytona, "e2b": _e2b, "modal": _modal}[name]() as sdk:
        yield sdk


@asynccontextmanager
async def _daytona() -> AsyncIterator[BareSdk]:
    from daytona import AsyncDaytona, CreateSandboxFromSnapshotParams, CreateSnapshotParams, DaytonaConfig, Image

    async with AsyncDaytona(DaytonaConfig(connection_pool_maxsize=None)) as client:
        await client.snapshot.create(CreateSnapshotParams(name="bare", image=Image.base(IMAGE)))

        async def create() -> Any:
            return await client.create(CreateSandboxFromSnapshotParams(snapshot="bare"), timeout=_COMMAND_SEC)

        async def run(sandbox: Any, command: str) -> str:
            return str((await sandbox.process.exec(command, timeout=_COMMAND_SEC)).result)

        yield BareSdk(create, run, lambda sandbox: sandbox.delete())


@asynccontextmanager
async def _e2b() -> AsyncIterator[BareSdk]:
    from e2b import AsyncSandbox, AsyncTemplate

    await AsyncTemplate.build(AsyncTemplate().from_image(IMAGE), "bare")

    async def run(sandbox: Any, command: str) -> str:
        return str((await sandbox.commands.run(command, cwd="/", timeout=_COMMAND_SEC)).stdout)

    yield BareSdk(lambda: AsyncSandbox.create("bare", timeout=_LIFE_SEC), run, lambda sandbox: sandbox.kill())


@asynccontextmanager
async def _modal() -> AsyncIterator[BareSdk]:
    import modal

    app = await modal.App.lookup.aio("bare", create_if_missing=True)
    image = modal.Image.from_registry(IMAGE)

    async def create() -> Any:
        return await modal.Sandbox.create.aio("sleep", "infinity", app=app, image=image, timeout=_LIFE_SEC)

    async def run(sandbox: Any, command: str) -> str:
        process = await sandbox.exec.aio("sh", "-c", command, timeout=_COMMAND_SEC)
        said = await process.stdout.read.aio()
        await process.wait.aio()
        return str(said)

    async def end(sandbox: Any) -> None:
        await sandbox.terminate.aio()
        await sandbox.detach.aio()

    yield BareSdk(create, run, end)

"""Templates: built once per content digest and size, under an alias that says so, and found again by it."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from e2b import AsyncTemplate

from backends.e2b.dockerfile import Plan, plan
from backends.e2b.errors import NAME
from backends.errors import SandboxBuildError, SandboxTimeout
from backends.exclusive import cache_folder, exclusive
from backends.remote.failures import Translate, deadline
from backends.remote.once import Once, folder_digest
from backends.remote.retry import repeated
from backends.spec import SandboxSpec

_CALL_SEC = 30.0
_LOG_CHARS = 20_000


@dataclass(frozen=True, slots=True)
class Template:
    """What sandboxes are created from. `workdir` is None where only the sandbox itself can tell."""

    alias: str
    user: str
    workdir: str | None


class Templates:
    """The templates of one account. `options` are the SDK's connection options."""

    def __init__(self, options: Mapping[str, Any], translate: Translate) -> None:
        self._options = options
        self._translate = translate
        self._once: Once[Template] = Once()

    async def ensure(self, spec: SandboxSpec, *, stale: Template | None = None) -> Template:
        """The spec's template, built if the account lacks it, within `build_timeout_sec`.

        `stale` is one that no sandbox could be created from: an alias outlives a build that failed.
        Raises SandboxBuildError (with the log), SandboxUnsupported, SandboxTimeout, and what calls raise.
        """
        alias, read = await asyncio.to_thread(_identify, spec)
        if stale is not None:
            self._once.forget(alias, stale)
        try:
            async with asyncio.timeout(spec.build_timeout_sec) as limit:
                return await self._once.get(alias, lambda: self._make(alias, read, spec, anew=stale is not None))
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise SandboxTimeout(
                f"the template of {spec.image or spec.build_dir} was not ready after {spec.build_timeout_sec:g} s",
                backend=NAME,
                operation="build",
            ) from error

    async def _make(self, alias: str, text: str | None, spec: SandboxSpec, *, anew: bool) -> Template:
        async with self._deadline("build", _CALL_SEC):
            read = None if text is None else plan(text)
        if anew or not await self._known(alias):
            async with contextlib.AsyncExitStack() as stack:
                with contextlib.suppress(OSError, RuntimeError):  # no lock: at worst two build it
                    await stack.enter_async_context(exclusive(cache_folder(), alias))
                if anew or not await self._known(alias):  # else another process has built it meanwhile
                    await self._build(alias, read, spec)
        return Template(alias, user=read.user if read else "root", workdir=read.workdir if read else None)

    async def _known(self, alias: str) -> bool:
        async def ask() -> bool:
            async with self._deadline("build", _CALL_SEC):
                return await AsyncTemplate.exists(alias, **self._options)

        return await repeated(ask)

    async def _build(self, alias: str, read: Plan | None, spec: SandboxSpec) -> None:
        log: list[str] = []
        cpus, memory_mb = _size(spec)
        try:
            async with self._deadline("build", spec.build_timeout_sec + _CALL_SEC):
                with contextlib.redirect_stdout(io.StringIO()) as remarks:  # the SDK prints them
                    template = AsyncTemplate(file_context_path=spec.build_dir)
                    builder = (
                        template.from_image(str(spec.image)) if read is None else template.from_dockerfile(read.text)
                    )
                log.append(remarks.getvalue())
                await AsyncTemplate.build(
                    builder,
                    alias,
                    cpu_count=cpus,
                    memory_mb=memory_mb,
                    min_free_disk_mb=spec.resources.disk_mb,
                    on_build_logs=lambda entry: log.append(f"{entry.message}\n"),
                    **{**self._options, "request_timeout": spec.build_timeout_sec},
                )
        except SandboxBuildError as error:
            error.log = "".join(log)[-_LOG_CHARS:]
            raise

    def _deadline(self, operation: str, timeout: float) -> contextlib.AbstractAsyncContextManager[None]:
        return deadline(self._translate, operation, backend=NAME, timeout=timeout)


def _identify(spec: SandboxSpec) -> tuple[str, str | None]:
    """The alias that a spec's template has, and the text of its Dockerfile if it has one."""
    text = None
    if spec.build_dir is None:
        content = f"image\0{spec.image}"
    else:
        content = folder_digest(spec.build_dir)
        try:
            text = (spec.build_dir / "Dockerfile").read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SandboxBuildError(f"{spec.build_dir}/Dockerfile cannot be read: {error}", backend=NAME) from error
    cpus, memory_mb = _size(spec)
    key = f"1\0{content}\0{cpus}\0{memory_mb}\0{spec.resources.disk_mb}"
    return f"harness-{hashlib.sha256(key.encode()).hexdigest()[:40]}", text


def _size(spec: SandboxSpec) -> tuple[int | None, int | None]:
    """Whole CPUs and an even number of megabytes: what a template can have."""
    cpus, memory_mb = spec.resources.cpus, spec.resources.memory_mb
    return (
        None if cpus is None else max(1, math.ceil(cpus)),
        None if memory_mb is None else max(128, memory_mb + memory_mb % 2),
    )

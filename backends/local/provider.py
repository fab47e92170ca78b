"""Starts local sandboxes, and finds those of other harness processes, dead ones' leftovers included."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from backends.errors import SandboxBuildError, SandboxDiskFull, SandboxStartError, SandboxTimeout, SandboxUnsupported
from backends.lifecycle import OWNER, finish, process_start_ticks
from backends.local import unsafe
from backends.local.entry import DOORMAN, Entry, NotStarted, answered, told
from backends.local.home import STANDARD, Home, destroy, fill, find, homes, new_home
from backends.local.image import ImagePlan, read_dockerfile
from backends.local.init import Init, start_init
from backends.local.namespaces import OLD_KERNEL, Isolation, Limits, Probe, probe, start_argv
from backends.local.sandbox import LocalSandbox
from backends.protocol import Capabilities, Readiness, SandboxBackendProtocol
from backends.spec import NetworkMode, SandboxInfo, SandboxSpec

_CLEANUP_TIMEOUT_SEC = 60.0
_INSTALL = "install bubblewrap and util-linux (Debian: `apt-get install bubblewrap util-linux`)"
_ALLOW = (
    "allow unprivileged user namespaces (`sysctl -w user.max_user_namespaces=15000`; on Ubuntu also "
    "`sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`; in a container, run it with "
    "`--security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined`)"
)


class LocalProvider:
    """Sandboxes on this machine.

    `isolation` is "auto" (the best that works here), or one way to insist on: "bwrap", "unshare" or "none".
    """

    def __init__(self, *, isolation: str = "auto") -> None:
        self._wanted = None if isolation == "auto" else Isolation(isolation)
        self._live: dict[str, LocalSandbox] = {}

    @property
    def name(self) -> str:
        return "local"

    @property
    def capabilities(self) -> Capabilities:
        return _capabilities(self._probe().isolation)

    async def check(self) -> Readiness:
        found = await asyncio.to_thread(self._probe)
        if found.isolation is Isolation.NONE:
            return Readiness(works=False, isolation="none", detail="; ".join(found.reasons), fix=_fix(found))
        return Readiness(works=True, isolation="namespaces", detail=f"namespaces by {found.isolation}")

    async def start(self, spec: SandboxSpec) -> SandboxBackendProtocol:
        isolation = self._accept(spec)
        assert spec.build_dir is not None
        plan = read_dockerfile(spec.build_dir)
        workdir = spec.workdir or plan.workdir
        home = _home(spec)
        sandbox: LocalSandbox | None = None
        try:
            async with asyncio.timeout(spec.start_timeout_sec):
                sandbox = await self._open(spec, plan, workdir, home, isolation)
                await _copy(plan, sandbox)
        except TimeoutError as error:
            await self._discard(home, sandbox)
            raise SandboxTimeout(
                f"a local sandbox did not start within {spec.start_timeout_sec:g} s", backend="local", operation="start"
            ) from error
        except OSError as error:
            await self._discard(home, sandbox)
            raise _refused(error) from error
        except BaseException:
            await self._discard(home, sandbox)
            raise
        return sandbox

    async def list(self, labels: Mapping[str, str] | None = None) -> list[SandboxInfo]:
        asked = dict(labels or {})
        return [
            SandboxInfo(id=home.id, backend=self.name, labels=home.labels, created_at=home.created_at)
            for home in await asyncio.to_thread(lambda: list(homes()))
            if OWNER in home.labels and asked.items() <= home.labels.items()
        ]

    async def remove(self, sandbox_id: str) -> None:
        live = self._live.get(sandbox_id)
        if live is not None:
            await live.stop()
            return
        home = await asyncio.to_thread(find, sandbox_id)
        if home is not None:
            await asyncio.to_thread(destroy, home)

    async def close(self) -> None:
        """There is no connection to release."""

    def _probe(self) -> Probe:
        return probe(self._wanted)

    def _accept(self, spec: SandboxSpec) -> Isolation:
        """The isolation to start with. Raises before anything is made."""
        if spec.image is not None:
            raise SandboxUnsupported(
                f"the local backend cannot run the image {spec.image!r}; use `--backend docker`",
                backend=self.name,
                operation="start",
            )
        if spec.resources.gpus:
            raise SandboxUnsupported("the local backend attaches no GPUs", backend=self.name, operation="start")
        found = self._probe()
        if found.isolation is Isolation.NONE and not spec.allow_unsafe:
            raise SandboxUnsupported(
                f"commands cannot be isolated here ({'; '.join(found.reasons)}): {_fix(found)}, "
                "or use `--backend docker`",
                backend=self.name,
                operation="start",
            )
        return found.isolation

    async def _open(
        self, spec: SandboxSpec, plan: ImagePlan, workdir: str, home: Home, isolation: Isolation
    ) -> LocalSandbox:
        directories = [*spec.directories, *plan.directories, workdir]
        if isolation is Isolation.NONE:
            init, lock = None, await unsafe.take_lock()
        else:
            init, lock = await self._namespace(home, isolation, directories, spec.network), None
        try:
            if init is None:
                home = unsafe.make_directories(home, [*STANDARD[:4], *directories])
            else:
                home = dataclasses.replace(home, pid=init.pid, pid_ticks=process_start_ticks(init.pid))
                home.save()
        except BaseException:
            if init is not None:
                await init.kill()
            if lock is not None:
                lock.release()
            raise

        def forget(sandbox_id: str) -> None:
            self._live.pop(sandbox_id, None)
            if lock is not None:
                lock.release()

        sandbox = LocalSandbox(
            home,
            spec,
            isolation=isolation,
            capabilities=_capabilities(isolation),
            workdir=workdir,
            env={**plan.env, **spec.env},
            user=plan.user,
            init=init,
            forget=forget,
        )
        self._live[sandbox.id] = sandbox
        return sandbox

    async def _namespace(
        self, home: Home, isolation: Isolation, directories: Sequence[str], network: NetworkMode
    ) -> Init:
        sources = fill(home, directories)
        full = network is NetworkMode.FULL
        init = await start_init(
            lambda info_fd: start_argv(
                isolation, home.root, uid=home.uid, network=full, source_dir=sources, info_fd=info_fd
            )
        )
        try:
            await self._seal(init, home, network=full)
        except BaseException:
            await init.kill()
            raise
        return init

    async def _seal(self, init: Init, home: Home, *, network: bool) -> None:
        limits = Limits(processes=None, file_bytes=1 << 20)
        entry = Entry(pidfd=init.pidfd, uid=home.uid, network=network, tag=home.first_tag, limits=limits, seal=True)
        null = os.open(os.devnull, os.O_RDWR)
        try:
            answer = DOORMAN.ask(entry, {}, null, null, null, null)
        finally:
            os.close(null)
        try:
            try:
                await told(answer)
            except asyncio.CancelledError:
                with suppress(NotStarted):
                    answered(answer)
                raise
            answered(answer)
        except NotStarted as error:
            raise SandboxStartError(
                f"a namespace could not be entered and sealed: {error}", backend=self.name, operation="start"
            ) from error

    async def _discard(self, home: Home, sandbox: LocalSandbox | None) -> None:
        # A sandbox that was opened before the start failed is among the live ones.
        sandbox = sandbox or self._live.get(home.id)
        work = sandbox.stop() if sandbox is not None else asyncio.to_thread(destroy, home)
        await finish(work, timeout=_CLEANUP_TIMEOUT_SEC)


def _home(spec: SandboxSpec) -> Home:
    try:
        return new_home(spec.labels, created_at=time.time())
    except OSError as error:
        raise _refused(error) from error


def _refused(error: OSError) -> SandboxDiskFull | SandboxStartError:
    kind = SandboxDiskFull if error.errno in (errno.ENOSPC, errno.EDQUOT) else SandboxStartError
    return kind(f"a local sandbox did not start: {error}", backend="local", operation="start")


async def _copy(plan: ImagePlan, sandbox: LocalSandbox) -> None:
    for copy in plan.copies:
        try:
            await sandbox.upload(copy.source, copy.target)
        except (ValueError, OSError) as error:
            raise SandboxBuildError(
                f"cannot copy {copy.source} to {copy.target}: {error}", backend="local", operation="build"
            ) from error
        if copy.mode is not None:
            await sandbox.chmod(copy.target, copy.mode)


def _capabilities(isolation: Isolation) -> Capabilities:
    contained = isolation is not Isolation.NONE
    return Capabilities(
        networks=frozenset(NetworkMode) if contained else frozenset({NetworkMode.FULL}),
        users=False,
        images=False,
        dockerfiles="subset",
        memory_limit=False,
        gpus=False,
        isolation="namespaces" if contained else "none",
    )


def _fix(found: Probe) -> str:
    if OLD_KERNEL in found.reasons:
        return "run it on Linux 5.8 or newer"
    return _INSTALL if any("install" in reason or "found" in reason for reason in found.reasons) else _ALLOW

"""Starting a sandbox of a cloud so that every one is accounted for, whatever happens on the way.

Each attempt to create one carries a label of its own, known before the request is sent. A creation is never cancelled
half-way: it is waited for and its sandbox ended; and where its outcome stays unknown (no answer in time, a broken
connection), what carries the label is looked for and ended, at once and again a little later, since a provider may
succeed long after its client gave up. The provider's own time to live is the last line.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress

from backends.errors import (
    SandboxAuthError,
    SandboxError,
    SandboxImageNotFound,
    SandboxQuotaError,
    SandboxTimeout,
    SandboxUnsupported,
)
from backends.lifecycle import OWNER, finish, owner_label
from backends.posix import absolute
from backends.protocol import Capabilities
from backends.remote.channel import Channel
from backends.remote.lease import Lease
from backends.remote.limits import Slots, TokenBucket
from backends.remote.prepare import prepare
from backends.remote.retry import repeated, worth_repeating
from backends.remote.sandbox import RemoteSandbox
from backends.spec import SandboxInfo, SandboxSpec

ATTEMPT = "harness.attempt"
"""The label that is fresh for each attempt to create a sandbox."""

Create = Callable[[Mapping[str, str], float], Awaitable[Channel]]
"""(all labels, seconds to live) -> the channel to a sandbox that has them."""

_CREATES = 3
_PATIENCE_SEC = 20.0  # for a creation whose caller is gone
_CLEANUP_SEC = 60.0
_AGAIN_SEC = (2.0, 10.0, 30.0)
_NOTHING_MADE = (SandboxQuotaError, SandboxAuthError, SandboxUnsupported, SandboxImageNotFound)


class Launcher:
    """Starts the sandboxes of one provider.

    `longest` is the most seconds that the provider is asked to keep a sandbox alive at a time; `admin` is the user
    that prepares and transfers, None where the provider has one user only. `find` and `remove` are the provider's own.
    """

    def __init__(
        self,
        *,
        backend: str,
        capabilities: Capabilities,
        admin: str | None,
        longest: float,
        slots: Slots,
        bucket: TokenBucket,
        find: Callable[[Mapping[str, str]], Awaitable[list[SandboxInfo]]],
        remove: Callable[[str], Awaitable[None]],
        again: Sequence[float] = _AGAIN_SEC,
    ) -> None:
        self._backend = backend
        self._capabilities = capabilities
        self._admin = admin
        self._longest = longest
        self._slots = slots
        self._bucket = bucket
        self._find = find
        self._remove = remove
        self._again = again
        self._searches: dict[asyncio.Task[None], Mapping[str, str]] = {}

    async def start(
        self, spec: SandboxSpec, create: Create, *, workdir: str | None, user: str | None, env: Mapping[str, str]
    ) -> RemoteSandbox:
        """Wait for a free place, then create and prepare a sandbox within `start_timeout_sec`.

        `workdir` and `user` are what commands run in and as; None asks the sandbox. Raises SandboxError by subclass.
        """
        slot = await self._slots.take()
        channel: Channel | None = None
        try:
            async with asyncio.timeout(spec.start_timeout_sec) as limit:
                channel = await self._create(spec, create)
                return await self._open(spec, channel, slot.release, workdir=workdir, user=user, env=env)
        except BaseException as error:
            if channel is not None:
                await finish(channel.destroy(), timeout=_CLEANUP_SEC)
            slot.release()
            if isinstance(error, TimeoutError) and limit.expired():
                raise SandboxTimeout(
                    f"the sandbox had not started after {spec.start_timeout_sec:g} s",
                    backend=self._backend,
                    operation="start",
                ) from error
            raise

    async def close(self) -> None:
        """Look once more for what attempts of unknown outcome may have made."""
        searches, self._searches = self._searches, {}
        for task in searches:
            task.cancel()
        await asyncio.gather(*searches, return_exceptions=True)
        await asyncio.gather(*(self._sweep(labels) for labels in searches.values()))

    async def _open(
        self,
        spec: SandboxSpec,
        channel: Channel,
        stopped: Callable[[], None],
        *,
        workdir: str | None,
        user: str | None,
        env: Mapping[str, str],
    ) -> RemoteSandbox:
        named = [absolute(workdir, "/")] if workdir is not None else []
        shared = user not in (None, "root", "0")
        prepared = await prepare(channel, [*named, *spec.directories], admin=self._admin, shared=shared)
        lease = Lease(channel.extend, ttl=spec.ttl_sec, longest=self._longest)
        lease.start()
        return RemoteSandbox(
            channel,
            backend=self._backend,
            capabilities=self._capabilities,
            workdir=named[0] if named else prepared.directory,
            user=user or self._admin or prepared.user,
            env=env,
            admin=self._admin,
            spared=prepared.spared,
            lease=lease,
            stopped=stopped,
        )

    async def _create(self, spec: SandboxSpec, create: Create) -> Channel:
        async def attempt() -> Channel:
            await self._bucket.take()
            labels = {OWNER: owner_label(), **spec.labels, ATTEMPT: secrets.token_hex(8)}
            return await self._accounted(create, labels, min(spec.ttl_sec, self._longest))

        # An attempt that failed has been cleaned up after, so that another one makes no second sandbox.
        return await repeated(attempt, attempts=_CREATES, repeat=worth_repeating)

    async def _accounted(self, create: Create, labels: Mapping[str, str], ttl: float) -> Channel:
        task = asyncio.ensure_future(create(labels, ttl))
        try:
            return await asyncio.shield(task)
        except BaseException as error:
            if not (task.done() and isinstance(error, _NOTHING_MADE)):
                await finish(self._discard(task, labels), timeout=_CLEANUP_SEC)
            raise

    async def _discard(self, task: asyncio.Future[Channel], labels: Mapping[str, str]) -> None:
        await asyncio.wait({task}, timeout=_PATIENCE_SEC)
        if task.done() and not task.cancelled() and task.exception() is None:
            await task.result().destroy()
            return
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await self._sweep(labels)
        search = asyncio.create_task(self._search(labels))
        self._searches[search] = labels
        search.add_done_callback(lambda done: self._searches.pop(done, None))

    async def _search(self, labels: Mapping[str, str]) -> None:
        for wait in self._again:
            await asyncio.sleep(wait)
            await self._sweep(labels)

    async def _sweep(self, labels: Mapping[str, str]) -> None:
        with suppress(SandboxError):
            for info in await self._find({ATTEMPT: labels[ATTEMPT]}):
                await self._remove(info.id)

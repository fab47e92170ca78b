"""The SDK's client: made once from the environment, inside the loop, and called with a deadline only."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from daytona import AsyncDaytona, DaytonaConfig

from backends.daytona.errors import NAME, translate
from backends.errors import SandboxAuthError, SandboxError
from backends.remote.failures import deadline

CALL_TIMEOUT_SEC = 60.0
"""Deadline of a plain API call."""

_CLOSE_SEC = 10.0
_EVENTS = "AsyncEventDispatcher."
MISSING = "the environment has no credentials for Daytona"
CREDENTIALS = (
    "set DAYTONA_API_KEY (from https://app.daytona.io/dashboard/keys), or DAYTONA_JWT_TOKEN and DAYTONA_ORGANIZATION_ID"
)


class Client:
    """One connection pool to the service. It has no bound: the command that kills must not queue behind others."""

    def __init__(self) -> None:
        self._sdk: AsyncDaytona | None = None
        self._secret: str | None = None

    @property
    def address(self) -> str:
        """Where the service is."""
        return os.environ.get("DAYTONA_API_URL") or "https://app.daytona.io/api"

    @asynccontextmanager
    async def call(
        self, operation: str, *, timeout: float = CALL_TIMEOUT_SEC, sandbox_id: str | None = None
    ) -> AsyncIterator[AsyncDaytona]:
        """A block of SDK calls with one deadline, whose trouble leaves as SandboxError."""
        sdk = self._open()
        async with deadline(self._translate, operation, backend=NAME, timeout=timeout, sandbox_id=sandbox_id):
            yield sdk

    async def close(self) -> None:
        """Close the pool. A later call opens a new one."""
        sdk, self._sdk = self._sdk, None
        if sdk is not None:
            with suppress(SandboxError):
                async with deadline(self._translate, "close", backend=NAME, timeout=_CLOSE_SEC):
                    await _close(sdk)
            await _cancel_events()

    def _open(self) -> AsyncDaytona:
        if self._sdk is None:
            # Only the process's own environment: the SDK would also read a .env file that lies where we are started.
            key = os.environ.get("DAYTONA_API_KEY") or None
            token = os.environ.get("DAYTONA_JWT_TOKEN") or None
            organization = os.environ.get("DAYTONA_ORGANIZATION_ID") or None
            if key is None and (token is None or organization is None):
                raise SandboxAuthError(f"{MISSING}; {CREDENTIALS}", backend=NAME, operation="connect")
            self._secret = key or token
            self._sdk = AsyncDaytona(
                DaytonaConfig(
                    api_key=key,
                    jwt_token=None if key else token,
                    organization_id=organization,
                    api_url=self.address,
                    target=os.environ.get("DAYTONA_TARGET") or None,
                    connection_pool_maxsize=None,
                )
            )
        return self._sdk

    def _translate(self, error: Exception, operation: str, sandbox_id: str | None) -> SandboxError:
        return translate(error, operation, sandbox_id, secret=self._secret)


async def _close(sdk: AsyncDaytona) -> None:
    """Close the SDK, and its stream of events, which would otherwise try for ever to reach a service that is gone."""
    stream = getattr(getattr(sdk, "_event_dispatcher", None), "_sio", None)
    if stream is not None:
        stream.reconnection = False
        await stream.shutdown()
    await sdk.close()  # type: ignore[no-untyped-call]
    if stream is not None and stream.eio.http is not None:
        await stream.eio.http.close()


async def _cancel_events() -> None:
    """End the tasks that would disconnect an idle stream later, some of which the SDK forgets."""
    named = ((task, getattr(task.get_coro(), "__qualname__", "")) for task in asyncio.all_tasks())
    left = [task for task, name in named if name.startswith(_EVENTS)]
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)

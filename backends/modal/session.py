"""One authenticated connection to Modal, and the app that all our sandboxes belong to."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, suppress

import modal
from modal.config import config

from backends.errors import SandboxAuthError, SandboxError
from backends.modal.errors import CREDENTIALS_FIX, NAME, translate
from backends.remote.failures import deadline

CALL_TIMEOUT_SEC = 60.0
"""Deadline of one plain call. The SDK itself may retry a dead connection for longer than that."""


def credentials() -> tuple[str, str]:
    """The token's id and secret, from where the SDK reads them. Raises SandboxAuthError, in one line."""
    try:
        found = config.get("token_id"), config.get("token_secret")
    except modal.exception.Error as error:
        raise translate(error, "credentials") from error
    if not all(found):
        raise SandboxAuthError(f"modal: no credentials; {CREDENTIALS_FIX}", backend=NAME, operation="credentials")
    return found


def call(
    operation: str, *, timeout: float = CALL_TIMEOUT_SEC, sandbox_id: str | None = None
) -> AbstractAsyncContextManager[None]:
    """A block of SDK calls with one deadline, whose trouble leaves as SandboxError."""
    return deadline(translate, operation, backend=NAME, timeout=timeout, sandbox_id=sandbox_id)


class Session:
    """The client and the app, made at the first call.

    The client is this session's own, never the SDK's global one, which another user in the process could close.
    """

    def __init__(self, app_name: str) -> None:
        self.app_name = app_name
        self._client: modal.Client | None = None
        self._app: modal.App | None = None
        self._lock = asyncio.Lock()

    async def client(self) -> modal.Client:
        """The authenticated client. Raises SandboxAuthError."""
        async with self._lock:
            if self._client is None:
                token_id, token_secret = credentials()
                async with call("connect"):
                    self._client = await modal.Client.from_credentials.aio(token_id, token_secret)
            return self._client

    async def app(self) -> modal.App:
        """The app, created where the workspace lacks it."""
        if self._app is None:
            client = await self.client()
            async with call("app"):
                self._app = await modal.App.lookup.aio(self.app_name, client=client, create_if_missing=True)
        return self._app

    async def close(self) -> None:
        """Close the connection. A later call opens a new one."""
        client, self._client, self._app = self._client, None, None
        if client is not None:
            with suppress(SandboxError):
                async with call("close", timeout=10):
                    await client.close.aio()

"""One authenticated connection to Modal, and the app that all our sandboxes belong to."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AbstractAsyncContextManager, suppress

import modal
from modal.config import config

from backends.errors import SandboxAuthError, SandboxError
from backends.modal.errors import CREDENTIALS_FIX, NAME, translate
from backends.remote.failures import deadline

CALL_TIMEOUT_SEC = 60.0
"""Deadline of one plain call. The SDK itself may retry a dead connection for longer than that."""

_CLOSE_SEC = 10.0

# The SDK's HTTP/2 library writes every header at level DEBUG, and the token is one.
logging.getLogger("hpack").setLevel(logging.INFO)


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
    """The client and the app, made at the first call and shared by all.

    The client is this session's own, never the SDK's global one, which another user in the process could close.
    """

    def __init__(self, app_name: str) -> None:
        self.app_name = app_name
        self._connecting: asyncio.Task[tuple[modal.Client, modal.App]] | None = None

    async def connection(self) -> tuple[modal.Client, modal.App]:
        """The authenticated client, and the app, created where the workspace lacks it. Raises SandboxAuthError."""
        if self._connecting is None:
            self._connecting = asyncio.create_task(self._connect())
            self._connecting.add_done_callback(self._ended)
        return await asyncio.shield(self._connecting)

    async def close(self) -> None:
        """Close the connection. A later call opens a new one."""
        task, self._connecting = self._connecting, None
        if task is not None:
            with suppress(SandboxError):
                client, _ = await task
                await _close(client)

    def _ended(self, task: asyncio.Task[tuple[modal.Client, modal.App]]) -> None:
        if task.cancelled() or task.exception() is not None:
            self._connecting = None

    async def _connect(self) -> tuple[modal.Client, modal.App]:
        token_id, token_secret = credentials()
        async with call("connect"):
            client = await modal.Client.from_credentials.aio(token_id, token_secret)
        try:
            async with call("connect"):
                return client, await modal.App.lookup.aio(self.app_name, client=client, create_if_missing=True)
        except SandboxError:
            await _close(client)
            raise


async def _close(client: modal.Client) -> None:
    with suppress(SandboxError):
        async with call("close", timeout=_CLOSE_SEC):
            await client.close.aio()

"""The queue's two ends, tied to the life of one agent's run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from backends.protocol import SandboxBackendProtocol
from harness.proxy.lease import Lease


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """How the agent reaches the model from inside: the same words as a lease's."""

    anthropic_base_url: str
    openai_base_url: str
    key: str


@asynccontextmanager
async def relayed(lease: Lease, sandbox: SandboxBackendProtocol, *, user: str | None = None) -> AsyncIterator[Address]:
    """A relay in the sandbox, for as long as the context lasts.

    Raises AgentSetupError where the sandbox has no perl, and SandboxError where it fails.
    """
    raise NotImplementedError
    yield

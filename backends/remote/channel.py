"""One live sandbox as its SDK shows it: the few calls that differ from cloud to cloud."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO, Protocol

from backends.frame import Request


@dataclass(frozen=True, slots=True)
class Reply:
    """What a request wrote to stdout, and the exit code of its wrapper; None where the SDK does not tell."""

    data: bytes
    exit_code: int | None = None


class Channel(Protocol):
    """The SDK's sandbox. Every method has a deadline and raises SandboxError by subclass, whatever the SDK raises.

    A call that is cancelled need not end what runs inside: `RemoteSandbox` sweeps it.
    """

    @property
    def id(self) -> str:
        """The provider's identifier."""

    async def run(self, request: Request, *, user: str | None, timeout: float) -> Reply:
        """Run a framed request as `user` (None: the sandbox's own) and return its stdout, byte for byte.

        `timeout` is how long the SDK may take. stdin is the request's, else empty. Raises SandboxError for a reply
        beyond `request.limit`, SandboxTimeout at the deadline, and SandboxUnavailable if the sandbox is gone.
        """

    async def put(self, path: str, source: IO[bytes]) -> None:
        """Write a new file of any size, its folder existing, readable by the user that administers the sandbox."""

    async def get(self, path: str, target: IO[bytes], *, max_bytes: int) -> None:
        """Append a file to `target`, and stop soon after `max_bytes`."""

    async def alive(self) -> bool:
        """Whether the provider says that it runs."""

    async def extend(self, seconds: float) -> None:
        """Have the provider end it so many seconds from now, and not before."""

    async def destroy(self) -> None:
        """End it. Idempotent: one that is gone is fine."""

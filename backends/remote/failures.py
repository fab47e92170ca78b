"""From what an SDK raises to SandboxError: by class and status, in one table per backend, first match wins."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from backends.errors import SandboxError, SandboxTimeout

Translate = Callable[[Exception, str, str | None], SandboxError]
"""(what the SDK raised, operation, sandbox id) -> the error to raise in its place."""


@dataclass(frozen=True, slots=True)
class Row:
    """One rule.

    Attributes:
        raised: the SDK's exception class; subclasses fit too, so they stand above it in a table.
        result: what it becomes.
        statuses, operations: those that the rule holds for; None means all.
        retryable: overrides the result's own where the status tells more than the class.
        says: a sentence of the provider that the message must contain, only where class and status say nothing.
    """

    raised: type[Exception]
    result: type[SandboxError]
    statuses: frozenset[int] | None = None
    operations: frozenset[str] | None = None
    retryable: bool | None = None
    says: str | None = None

    def fits(self, error: Exception, status: int | None, operation: str) -> bool:
        """Whether this rule applies."""
        return (
            isinstance(error, self.raised)
            and (self.statuses is None or status in self.statuses)
            and (self.operations is None or operation in self.operations)
            and (self.says is None or self.says.lower() in str(error).lower())
        )


def translate(
    table: Sequence[Row],
    error: Exception,
    *,
    backend: str,
    operation: str,
    sandbox_id: str | None = None,
    status: int | None = None,
    retry_after: float | None = None,
    secret: str | None = None,
) -> SandboxError:
    """The SandboxError that `error` stands for; a SandboxError passes through. `secret` never gets into the text."""
    if isinstance(error, SandboxError):
        return error
    row = next((row for row in table if row.fits(error, status, operation)), None)
    kind = SandboxTimeout if row is None and isinstance(error, TimeoutError) else row.result if row else SandboxError
    text = " ".join(str(error).split()) or type(error).__name__
    if secret:
        text = text.replace(secret, "[redacted]")
    shown = f" (status {status})" if status is not None else ""
    result = kind(f"{backend} {operation}: {text[:500]}{shown}", backend=backend, operation=operation)
    result.sandbox_id = sandbox_id
    result.retry_after = retry_after
    if row is not None and row.retryable is not None:
        result.retryable = row.retryable
    return result


@asynccontextmanager
async def deadline(
    translate: Translate, operation: str, *, backend: str, timeout: float, sandbox_id: str | None = None
) -> AsyncIterator[None]:
    """A block of SDK calls with one deadline, whose trouble leaves as SandboxError."""
    try:
        async with asyncio.timeout(timeout) as limit:
            yield
    except Exception as error:
        if limit.expired():  # some SDKs turn the cancellation into an error of their own
            raise SandboxTimeout(
                f"{backend} {operation}: no answer within {timeout:g} s",
                backend=backend,
                operation=operation,
                sandbox_id=sandbox_id,
            ) from error
        raise translate(error, operation, sandbox_id) from error

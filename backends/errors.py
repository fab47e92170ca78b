"""What can go wrong with a sandbox, by class; callers decide by class, never by text.

    SandboxError
    ├── SandboxUnavailable      the sandbox is gone, dead or unreachable
    ├── SandboxUnusable         the sandbox lives, and no longer starts a shell
    ├── SandboxStartError       the engine or provider refused to start one
    ├── SandboxTimeout          an infrastructure operation missed its deadline (also a TimeoutError)
    ├── SandboxOutOfMemory      the sandbox itself was killed for memory
    ├── SandboxQuotaError       capacity, concurrency or rate limit of the provider
    ├── SandboxAuthError        credentials missing or refused
    ├── SandboxDiskFull         no space left on the host or in the engine
    ├── SandboxImageNotFound    the named image does not exist                     (the task's fault)
    ├── SandboxBuildError       the build of the image failed; carries the log      (the task's fault)
    └── SandboxUnsupported      the spec asks for what this backend cannot give     (the task's fault)

A command that exits non-zero or misses *its own* deadline is a result (`ExecuteResponse`), not an error. File
operations raise the builtin FileNotFoundError, IsADirectoryError, NotADirectoryError and PermissionError.

To add one: subclass here, set `retryable` (would the same request on a fresh sandbox be likely to work?), add it to
`backends.__all__`, and add its row to the table in `harness/failures.py`; a test fails until all three agree.
"""

from __future__ import annotations


class SandboxError(Exception):
    """Something other than the command itself failed.

    Attributes:
        backend: name of the backend that raised, e.g. "docker".
        operation: what was attempted, e.g. "start", "execute".
        sandbox_id: the sandbox, where one existed.
        retryable: whether the same request on a fresh sandbox is likely to work.
        retry_after: seconds after which the provider wants to be asked again; None where it does not say.
    """

    retryable: bool = True
    retry_after: float | None = None

    def __init__(self, message: str, *, backend: str = "", operation: str = "", sandbox_id: str | None = None) -> None:
        super().__init__(message)
        self.backend = backend
        self.operation = operation
        self.sandbox_id = sandbox_id

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), self.args, self.__dict__)


class SandboxUnavailable(SandboxError):
    """The sandbox is gone, dead or unreachable."""


class SandboxUnusable(SandboxError):
    """The sandbox lives, by its provider's word, and no longer starts a shell, which it did before."""


class SandboxStartError(SandboxError):
    """The engine or provider refused to start a sandbox."""


class SandboxTimeout(SandboxError, TimeoutError):
    """An infrastructure operation (build, start, upload, ...) missed its deadline."""


class SandboxOutOfMemory(SandboxError):
    """The sandbox itself was killed for memory: proven by the engine, never guessed from exit code 137."""


class SandboxQuotaError(SandboxError):
    """The provider has no capacity, or limits our rate or concurrency."""


class SandboxAuthError(SandboxError):
    """Credentials are missing or were refused."""

    retryable = False


class SandboxDiskFull(SandboxError):
    """No space left on the host or in the engine."""

    retryable = False


class SandboxImageNotFound(SandboxError):
    """The named image does not exist."""

    retryable = False


class SandboxBuildError(SandboxError):
    """The image's build failed. `log` holds the end of the build output."""

    retryable = False

    def __init__(
        self,
        message: str,
        *,
        log: str = "",
        backend: str = "",
        operation: str = "build",
        sandbox_id: str | None = None,
    ) -> None:
        super().__init__(message, backend=backend, operation=operation, sandbox_id=sandbox_id)
        self.log = log


class SandboxUnsupported(SandboxError):
    """The spec asks for something that this backend cannot give; the message names it and what to do."""

    retryable = False

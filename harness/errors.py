"""Errors by the boundary that was crossed; the class says whose fault it is, the message says what to do.

    HarnessError
    ├── UsageError                  what the user asked for cannot be: one line, exit code 2
    ├── TaskError                   the task is broken, or asks for what nobody here can honour
    │   ├── TaskInvalid             task.toml or the folder is malformed
    │   ├── TaskUnsupported         well-formed, but beyond this harness or this backend
    │   └── TaskChanged             its tests changed while the job ran
    ├── HealthcheckFailed           the environment never became ready
    ├── AgentError                  the agent itself
    │   ├── AgentSetupError         it could not be installed or started
    │   └── AgentExited             its program ended with an error
    ├── ModelError                  the model's endpoint
    │   ├── ModelRateLimited        429 or overload, after the retries
    │   ├── ModelQuotaExhausted     out of credit: waiting does not help
    │   ├── ModelUnavailable        refused, reset, 5xx, or a stream cut
    │   ├── ModelTimeout            no answer within the deadline (also a TimeoutError)
    │   ├── ModelAuthError          401 or 403
    │   └── ModelRejected           any other 4xx: our request, or no such model
    └── VerifierError               no verdict
        ├── VerifierTimeout         test.sh missed its deadline (also a TimeoutError)
        ├── VerifierUnrunnable      test.sh could not be started (126, 127, CRLF)
        ├── VerifierKilled          a signal ended it after it had written a reward
        ├── VerifierUnavailable     the verifier says of itself that it could not grade
        ├── RewardMissing           it ended without writing a reward
        └── RewardInvalid           what it wrote is not a reward

To add one: subclass here and give it a row in `harness/failures.py`; a test fails until both agree.
"""

from __future__ import annotations


def first_line(error: BaseException) -> str:
    """What an error says, in one line; its class's name where it says nothing."""
    return (str(error).splitlines() or [type(error).__name__])[0]


class HarnessError(Exception):
    """Base of everything this package raises on purpose."""


class UsageError(HarnessError):
    """What the user asked for cannot be. The message is one line that says what, where, and what to do."""


class TaskError(HarnessError):
    """The task is broken or cannot be honoured."""


class TaskInvalid(TaskError):
    """task.toml or the task's folder is malformed."""


class TaskUnsupported(TaskError):
    """The task is well-formed, but asks for something that cannot be honoured here."""


class TaskChanged(TaskError):
    """The task's files changed after the job had started."""


class HealthcheckFailed(HarnessError):
    """The environment's health check did not pass in time."""


class AgentError(HarnessError):
    """The agent failed by itself."""


class AgentSetupError(AgentError):
    """The agent could not be installed or started."""


class AgentExited(AgentError):
    """The agent's program ended with an error."""


class ModelError(HarnessError):
    """The model's endpoint failed."""


class ModelRateLimited(ModelError):
    """The endpoint limits our rate or is overloaded, and still did after the retries."""


class ModelQuotaExhausted(ModelError):
    """The account is out of credit or quota; waiting does not help."""


class ModelUnavailable(ModelError):
    """The endpoint refused or reset the connection, answered 5xx, or cut the stream."""


class ModelTimeout(ModelError, TimeoutError):
    """The endpoint did not answer within the deadline."""


class ModelAuthError(ModelError):
    """The endpoint refused the credentials."""


class ModelRejected(ModelError):
    """The endpoint rejected the request: a malformed request, or no such model."""


class VerifierError(HarnessError):
    """The verifier gave no verdict."""


class VerifierTimeout(VerifierError, TimeoutError):
    """test.sh missed its deadline."""


class VerifierUnrunnable(VerifierError):
    """test.sh could not be started."""


class VerifierKilled(VerifierError):
    """A signal ended test.sh after it had written a reward, or the shell that would have read it."""


class VerifierUnavailable(VerifierError):
    """The verifier says of itself that it could not grade."""


class RewardMissing(VerifierError):
    """test.sh ended without writing a reward."""


class RewardInvalid(VerifierError):
    """What test.sh wrote is not a reward."""

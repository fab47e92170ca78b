"""One build or pull: docker-py in a thread, that ends when it is told to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, TextIO

import docker
import requests
from docker.errors import APIError, DockerException
from docker.tls import TLSConfig
from docker.utils import kwargs_from_env

from backends.docker.errors import STREAMED, from_status, translate
from backends.errors import SandboxBuildError

_TAIL_CHARS = 20_000


class Transfer:
    """A streamed request to the engine. `abort` closes its connection, at which the engine kills what it was doing."""

    def __init__(
        self, operation: str, url: str, request: Callable[[docker.APIClient], Iterator[dict[str, Any]]]
    ) -> None:
        self.operation = operation
        self._url = url
        self._request = request
        self._response: requests.Response | None = None
        self._aborted = False
        self._lock = threading.Lock()

    def run(self, log: TextIO, timeout: float) -> None:
        """Carry the request out, writing its output to `log`. Blocks; raises SandboxError subclasses.

        `timeout` bounds a silent engine only: whoever waits for this thread aborts it at the real deadline.
        """
        tail = ""
        try:
            client = docker.APIClient(base_url=self._url, tls=_tls(), timeout=int(timeout) + 1)
            try:
                client.hooks["response"].append(self._opened)
                for event in self._request(client):
                    text = str(event.get("stream") or _progress(event))
                    log.write(text)
                    tail = (tail + text)[-_TAIL_CHARS:]
                    if "error" in event:
                        message = str(event["error"])
                        log.write(message + "\n")
                        raise self._failure(event.get("errorDetail") or {}, message, tail + message)
            finally:
                log.flush()
                if self._response is not None:
                    self._response.close()
                client.close()
        except APIError as error:
            raise from_status(
                error.status_code or STREAMED, str(error.explanation or error), operation=self.operation, log=tail
            ) from error
        except (TypeError, UnicodeError) as error:
            raise SandboxBuildError(f"docker {self.operation}: {error}", log=tail, backend="docker") from error
        except (DockerException, requests.RequestException, OSError) as error:
            if str(error).startswith("Can not read file in context"):
                raise SandboxBuildError(f"docker build: {error}", backend="docker") from error
            raise translate(error, operation=self.operation) from error

    def abort(self) -> None:
        """End the request from another thread. Idempotent."""
        with self._lock:
            self._aborted = True
            if self._response is not None:
                with suppress(OSError, ValueError, RuntimeError):
                    self._response.raw.shutdown()

    def _opened(self, response: requests.Response, *_: Any, **__: Any) -> None:
        with self._lock:
            self._response = response
            if self._aborted:
                response.close()

    def _failure(self, detail: dict[str, Any], message: str, log: str) -> Exception:
        # A step's exit code proves that the Dockerfile failed, whatever words its command chose to print.
        if detail.get("code"):
            return SandboxBuildError(f"docker build: {message}", log=log, backend="docker")
        return from_status(STREAMED, message, operation=self.operation, log=log)


def _progress(event: dict[str, Any]) -> str:
    """A pull's status line, without its bars."""
    if "status" not in event or event.get("progressDetail"):
        return ""
    return f"{event['id']}: {event['status']}\n" if "id" in event else f"{event['status']}\n"


def _tls() -> TLSConfig | bool:
    found = kwargs_from_env().get("tls")
    return found if isinstance(found, TLSConfig) else False

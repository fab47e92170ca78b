"""How new weights get into a server that goes on serving: one interface, for our server, vLLM and SGLang.

All three read a folder that transformers loads, from a disk that they share with the trainer.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol
from urllib.parse import urlsplit

from harness.errors import UsageError

OnUpdate = Literal["finish", "continue"]
"""What answers under way do when new weights come: finish on the old ones, or continue on the new."""


class UpdateFailed(Exception):
    """The server did not take the weights; it serves the ones that it had, unless `unknown`."""

    def __init__(self, message: str, *, unknown: bool = False) -> None:
        super().__init__(message)
        self.unknown = unknown


class WeightUpdate(Protocol):
    """A server of the policy, as the trainer sees it."""

    async def load(self, folder: Path, version: str) -> None:
        """Sample with the weights in `folder` from now on, and call them `version`. Raises UpdateFailed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAddress:
    """Attributes:
    url: as agents are given it, with or without the `/v1`.
    key: stays out of every repr.
    timeout_sec: for the whole update.
    """

    url: str
    key: str = field(default="", repr=False)
    timeout_sec: float = 600.0


class HarnessServer:
    """`harness serve`. What answers under way do is the server's own setting."""

    def __init__(self, address: ServerAddress) -> None:
        self._server = _Server(address)

    async def load(self, folder: Path, version: str) -> None:
        await self._server.post("/v1/weights", {"path": str(folder), "version": version})


class Vllm:
    """vLLM with VLLM_SERVER_DEV_MODE=1: paused, its workers read the folder, and it goes on.

    An engine that knows no versions is told none: let the proxy or the agent's record say them.
    """

    def __init__(self, address: ServerAddress, *, on_update: OnUpdate = "finish") -> None:
        self._server = _Server(address)
        self._mode = "wait" if on_update == "finish" else "keep"

    async def load(self, folder: Path, version: str) -> None:
        await self._server.post(f"/pause?mode={self._mode}", None)
        try:
            await self._server.post(
                "/collective_rpc", {"method": "reload_weights", "kwargs": {"weights_path": str(folder)}}
            )
            await self._server.post("/reset_prefix_cache", None)
            await self._server.post("/update_weight_version", {"new_version": version}, optional=True)
        finally:
            await self._server.post("/resume", None)


class Sglang:
    """SGLang. Without a pause it lets answers under way finish before it reads the folder."""

    def __init__(self, address: ServerAddress, *, on_update: OnUpdate = "finish") -> None:
        self._server = _Server(address)
        self._pauses = on_update == "continue"

    async def load(self, folder: Path, version: str) -> None:
        if self._pauses:
            await self._server.post("/pause_generation", {"mode": "retract"})
        try:
            told = {"model_path": str(folder), "weight_version": version, "flush_cache": True}
            answer = await self._server.post("/update_weights_from_disk", told)
            if answer.get("success") is not True:
                raise UpdateFailed(f"SGLang did not take {folder}: {answer.get('message') or 'no reason given'}")
        finally:
            if self._pauses:
                await self._server.post("/continue_generation", {})


class _Server:
    """One exchange after the other, all within the time that an update may take."""

    def __init__(self, address: ServerAddress) -> None:
        parts = urlsplit(address.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"{address.url}: an address begins with http:// or https://, e.g. http://gpu:8000/v1")
        self._root = address.url.rstrip("/").removesuffix("/v1")
        self._address = address

    async def post(self, path: str, body: dict[str, Any] | None, *, optional: bool = False) -> dict[str, Any]:
        """The answer's body, {} if that is no object. `optional` is what not every version of the server has."""
        import aiohttp

        url = self._root + path
        headers = {"authorization": f"Bearer {self._address.key}"} if self._address.key else {}
        limit = aiohttp.ClientTimeout(total=self._address.timeout_sec)
        try:
            async with (
                aiohttp.ClientSession(timeout=limit, headers=headers) as session,
                session.post(url, json=body) as response,
            ):
                answer = await response.read()
        except TimeoutError as error:
            raise UpdateFailed(f"{url} did not answer within {self._address.timeout_sec:g} s", unknown=True) from error
        except (aiohttp.ClientError, OSError) as error:
            raise UpdateFailed(f"{url} cannot be reached: {error}") from error
        if response.status == 404 and optional:
            return {}
        if response.status >= 400:
            raise UpdateFailed(f"{url} answered {response.status}: {_told(answer)}")
        try:
            parsed = json.loads(answer) if answer else {}
        except ValueError:
            return {}
        return parsed if isinstance(parsed, dict) else {}


def _told(body: bytes) -> str:
    """What an error's body says: OpenAI's form, SGLang's, FastAPI's, or its text."""
    try:
        parsed: Any = json.loads(body)
    except ValueError:
        return body.decode("utf-8", "replace").strip()[:200]
    if isinstance(parsed, dict):
        inner = parsed.get("error") or parsed.get("message") or parsed.get("detail")
        parsed = inner.get("message") if isinstance(inner, dict) else inner
    return str(parsed)[:200]

"""E2B on 127.0.0.1: the REST control plane, and the proxy to the daemons of its sandboxes, on one port.

The unmodified SDK talks to it. What it answers follows the published API and the source of the real servers; what runs
in its sandboxes are real processes in boxes of this machine.
"""

from __future__ import annotations

import asyncio
import secrets
import time
import urllib.parse
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from aiohttp import web
from controlplanes.e2b_build import Template, build, make_box
from controlplanes.e2b_envd import Envd
from controlplanes.faults import Fault, Faults, wait
from controlplanes.listener import end, listen

KEY = "e2b_0123456789abcdef0123456789abcdef01234567"


@dataclass
class Sandbox:
    """One live sandbox as the control plane knows it."""

    id: str
    template: Template
    metadata: dict[str, str]
    envd: Envd
    network: bool
    born: float = field(default_factory=time.time)
    end: float = 0.0
    timer: asyncio.TimerHandle | None = None


class E2BPlane:
    """`env` is what the SDK needs in its environment.

    `calls` are all requests, by method and path; `created` the bodies of those that made a sandbox, `limits` the
    deadlines of commands, in milliseconds. `latency` is added to every call, in seconds. With `early_aliases`, an alias
    is known as soon as its build is requested, however that ends.
    """

    def __init__(self) -> None:
        self.faults = Faults()
        self.calls: list[str] = []
        self.sandboxes: dict[str, Sandbox] = {}
        self.templates: dict[str, Template] = {}
        self.created: list[dict[str, Any]] = []
        self.limits: list[int] = []
        self.most_alive = 0
        self.latency = 0.0
        self.page = 50
        self.early_aliases = False
        self.url = ""
        self._uploads: dict[str, bytes] = {}
        self._work: set[asyncio.Task[Any]] = set()
        self._envds: list[Envd] = []
        self._answered: dict[str, dict[str, Any]] = {}

    @property
    def env(self) -> dict[str, str]:
        return {"E2B_API_KEY": KEY, "E2B_API_URL": self.url, "E2B_SANDBOX_URL": self.url}

    def app(self) -> web.Application:
        app = web.Application(client_max_size=1 << 30)
        app.router.add_route("*", "/{path:.*}", self._handle)
        return app

    async def kill(self, sandbox_id: str) -> bool:
        sandbox = self.sandboxes.pop(sandbox_id, None)
        if sandbox is None:
            return False
        if sandbox.timer is not None:
            sandbox.timer.cancel()
        await sandbox.envd.close()
        return True

    async def close(self) -> None:
        for task in self._work:
            task.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)
        for sandbox_id in list(self.sandboxes):
            await self.kill(sandbox_id)
        for envd in self._envds:
            await envd.close()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        call = f"{request.method} {request.path}"
        self.calls.append(call)
        handler = asyncio.current_task()
        assert handler is not None
        self._work.add(handler)
        handler.add_done_callback(self._work.discard)
        if request.content_type == "application/json":
            await request.read()  # now, since the client may be gone later
        if self.latency:
            await asyncio.sleep(self.latency)
        fault = self.faults.take(call)
        if fault is not None and fault.status is not None:
            return await _refuse(request, fault)
        if fault is not None and not fault.cut and not fault.kill:
            await wait(fault)
        if fault is not None and fault.reset and not fault.work:
            return _reset(request)
        if "E2b-Sandbox-Id" in request.headers:
            return await self._daemon(request, fault)
        if not request.path.startswith("/upload/") and request.headers.get("X-API-KEY") != KEY:
            return _error(401, "Invalid API key")
        response = await self._control(request)
        return _reset(request) if fault is not None and fault.reset else response

    async def _daemon(self, request: web.Request, fault: Fault | None) -> web.StreamResponse:
        sandbox = self.sandboxes.get(request.headers["E2b-Sandbox-Id"])
        if sandbox is None:
            return _error(502, "The sandbox was not found")
        if fault is not None and fault.kill:
            self.sandboxes.pop(sandbox.id)
            if sandbox.timer is not None:
                sandbox.timer.cancel()
        envd = sandbox.envd
        match request.method, request.path:
            case "POST", "/process.Process/Start":
                self.limits.append(int(request.headers.get("Connect-Timeout-Ms", 0)))
                return await envd.start(request, fault)
            case "POST", "/process.Process/Connect":
                return await envd.connect(request, fault)
            case "POST", "/process.Process/SendSignal":
                return await envd.signal(request)
            case "GET", "/files":
                return await envd.read(request)
            case "POST", "/files":
                return await envd.write(request)
            case "GET", "/health":
                return web.Response(status=204)
        return _error(404, "not found")

    async def _control(self, request: web.Request) -> web.StreamResponse:
        match (
            request.method,
            [urllib.parse.unquote(part) for part in request.raw_path.partition("?")[0].split("/")[1:]],
        ):
            case "POST", ["v2", "sandboxes"]:
                return await self._create(await request.json(), request.headers.get("Idempotency-Key"))
            case "GET", ["v2", "sandboxes"]:
                return self._list(request)
            case "DELETE", ["sandboxes", sandbox_id]:
                return web.Response(status=204) if await self.kill(sandbox_id) else _error(404, "no such sandbox")
            case "POST", ["sandboxes", sandbox_id, "timeout"]:
                if sandbox_id not in self.sandboxes:
                    return _error(404, "no such sandbox")
                self._end_after(self.sandboxes[sandbox_id], (await request.json())["timeout"])
                return web.Response(status=204)
            case "POST", ["v3", "templates"]:
                return self._request_template(await request.json())
            case "GET", ["templates", "aliases", alias]:
                template = self.templates.get(alias)
                if template is None or (template.status != "ready" and not self.early_aliases):
                    return _error(404, "no such alias")
                return web.json_response({"templateID": template.id, "public": False})
            case "GET", ["templates", _, "files", digest]:
                url = f"{self.url}/upload/{digest}"
                return web.json_response({"present": digest in self._uploads, "url": url}, status=201)
            case "PUT", ["upload", digest]:
                self._uploads[digest] = await request.read()
                return web.Response()
            case "POST", ["v2", "templates", template_id, "builds", _]:
                return self._build(template_id, await request.json())
            case "GET", ["templates", template_id, "builds", _, "status"]:
                return self._status(self._by_id(template_id), int(request.query.get("logsOffset", 0)))
        return _error(404, f"no such route: {request.method} {request.path}")

    async def _create(self, body: dict[str, Any], key: str | None) -> web.StreamResponse:
        if key is not None and key in self._answered:
            return web.json_response(self._answered[key], status=201)
        template = self.templates.get(body["templateID"])
        if template is None or template.status != "ready":
            return _error(404, f"template '{body['templateID']}' not found")
        network = body.get("allow_internet_access", True)
        box = await make_box(template, self._uploads, network=network)
        envd = Envd(box, user=template.user, workdir=template.workdir, env={**template.env, **body.get("envVars", {})})
        self._envds.append(envd)
        sandbox = Sandbox(f"i{secrets.token_hex(10)}", template, body.get("metadata", {}), envd, network)
        self.sandboxes[sandbox.id] = sandbox
        self.most_alive = max(self.most_alive, len(self.sandboxes))
        self.created.append(body)
        self._end_after(sandbox, body.get("timeout", 300))
        answer = {
            "templateID": template.id,
            "sandboxID": sandbox.id,
            "clientID": "loopback",
            "envdVersion": "0.6.4",
            "envdAccessToken": secrets.token_hex(8),
            "domain": None,
        }
        if key is not None:
            self._answered[key] = answer
        return web.json_response(answer, status=201)

    def _end_after(self, sandbox: Sandbox, seconds: float) -> None:
        if sandbox.timer is not None:
            sandbox.timer.cancel()
        sandbox.end = time.time() + seconds
        sandbox.timer = asyncio.get_running_loop().call_later(seconds, self._spawn, self._expire, sandbox.id)

    async def _expire(self, sandbox_id: str) -> None:
        await self.kill(sandbox_id)

    def _spawn(self, work: Any, *arguments: Any) -> None:
        task = asyncio.create_task(work(*arguments))
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    def _list(self, request: web.Request) -> web.StreamResponse:
        wanted = {
            urllib.parse.unquote(name): urllib.parse.unquote(value)
            for name, value in urllib.parse.parse_qsl(request.query.get("metadata", ""))
        }
        found = [each for each in self.sandboxes.values() if wanted.items() <= each.metadata.items()]
        start = int(request.query.get("nextToken", 0))
        size = int(request.query.get("limit", self.page))
        headers = {"X-Next-Token": str(start + size)} if start + size < len(found) else {}
        return web.json_response([_shown(each) for each in found[start : start + size]], headers=headers)

    def _request_template(self, body: dict[str, Any]) -> web.StreamResponse:
        template = Template(id=secrets.token_hex(10), alias=body["name"], request=body)
        self.templates[template.alias] = template
        return web.json_response(
            {
                "templateID": template.id,
                "buildID": template.build_id,
                "public": False,
                "names": [template.alias],
                "tags": [],
                "aliases": [template.alias],
            },
            status=202,
        )

    def _build(self, template_id: str, body: dict[str, Any]) -> web.StreamResponse:
        template = self._by_id(template_id)
        template.image, template.steps = body.get("fromImage", ""), body.get("steps", [])
        template.request |= {key: body[key] for key in ("startCmd", "readyCmd") if key in body}
        self._spawn(build, template, self._uploads)
        return web.Response(status=202)

    def _status(self, template: Template, offset: int) -> web.StreamResponse:
        answer: dict[str, Any] = {
            "templateID": template.id,
            "buildID": template.build_id,
            "status": template.status,
            "logs": [],
            "logEntries": template.log[offset : offset + 100],
        }
        if template.reason is not None:
            answer["reason"] = {"message": template.reason}
        return web.json_response(answer)

    def _by_id(self, template_id: str) -> Template:
        return next(each for each in self.templates.values() if each.id == template_id)


@asynccontextmanager
async def e2b_plane() -> AsyncIterator[E2BPlane]:
    """A running control plane on a port of its own; everything in it is gone at the end."""
    plane = E2BPlane()
    runner, plane.url = await listen(plane.app(), shutdown_sec=0.1)
    try:
        yield plane
    finally:
        await plane.close()
        await end(runner)


def _shown(sandbox: Sandbox) -> dict[str, Any]:
    return {
        "templateID": sandbox.template.id,
        "sandboxID": sandbox.id,
        "clientID": "loopback",
        "startedAt": datetime.fromtimestamp(sandbox.born, UTC).isoformat(),
        "endAt": datetime.fromtimestamp(sandbox.end, UTC).isoformat(),
        "cpuCount": sandbox.template.request.get("cpuCount") or 2,
        "memoryMB": sandbox.template.request.get("memoryMB") or 512,
        "diskSizeMB": 1024,
        "state": "running",
        "envdVersion": "0.6.4",
        "metadata": sandbox.metadata,
    }


def _error(status: int, message: str) -> web.Response:
    return web.json_response({"code": status, "message": message}, status=status)


async def _refuse(request: web.Request, fault: Fault) -> web.Response:
    await wait(fault)
    assert fault.status is not None
    if fault.body is None:
        response = _error(fault.status, "a fault, as ordered")
        response.headers.update(fault.headers)
        return response
    return web.Response(status=fault.status, body=fault.body, headers=fault.headers)


def _reset(request: web.Request) -> web.Response:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()

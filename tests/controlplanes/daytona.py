"""Daytona's API and toolbox on loopback: the HTTP that the unmodified SDK speaks, over real boxes.

One aiohttp application on one port is the API, the toolbox proxy, the event gateway (Socket.IO, as the SDK's own
dependency serves it) and the object storage of build contexts. Every sandbox is a box, every command a real process
in it. `Fault`s break single calls in the ways that the real service does.
"""

from __future__ import annotations

import asyncio
import io
import json
import tarfile
import tempfile
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import socketio
from aiohttp import MultipartWriter, web
from controlplanes.faults import Fault, Faults, wait
from controlplanes.listener import end, listen
from controlplanes.localbox import Box

from backends.errors import SandboxError
from backends.local.image import ImagePlan, read_dockerfile

API_KEY = "dtn_loopback_secret"
ORGANIZATION = "org-1"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
State = dict[str, Any]


class Refused(Exception):
    """An answer in the service's own error envelope."""

    def __init__(self, status: int, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


@dataclass(slots=True, kw_only=True)
class _Sandbox:
    dto: State
    image: ImagePlan
    box: Box | None = None
    end: asyncio.TimerHandle | None = None
    task: asyncio.Task[None] | None = None


class DaytonaPlane:
    """The service. `faults` are what goes wrong with calls, by their name in `_ROUTES`; `calls` counts those.

    `minute` is how long the service's minute lasts, `start_seconds` and `build_seconds` how long things take;
    `start_failure` is (state, reason) that new sandboxes end in, `build_failure` a reason that builds fail with.
    """

    def __init__(self, *, minute: float = 2.0, latency: float = 0.0) -> None:
        self.minute = minute
        self.latency = latency
        self.start_seconds = 0.0
        self.build_seconds = 0.0
        self.start_failure: tuple[str, str] | None = None
        self.build_failure: str | None = None
        self.faults = Faults()
        self.calls: Counter[str] = Counter()
        self.created: list[State] = []
        self.sandboxes: dict[str, _Sandbox] = {}
        self.snapshots: dict[str, State] = {}
        self.peak = 0
        self.page = 100
        self.url = ""
        self._files: dict[str, bytes] = {}
        self._parts: dict[str, dict[int, bytes]] = {}
        self._plans: dict[str, ImagePlan] = {}
        self._folder = tempfile.TemporaryDirectory(prefix="daytona-plane-")
        self._tasks: set[asyncio.Task[Any]] = set()
        self._endings: set[asyncio.Task[Any]] = set()
        self._events = socketio.AsyncServer(
            async_mode="aiohttp", ping_interval=0.5
        )  # its task outlives a client so long
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Listen, on a port of the system's choice."""
        app = web.Application(client_max_size=1 << 30, middlewares=[self._middleware])
        self._events.attach(app, socketio_path="/api/socket.io")
        for method, path, name in _ROUTES:
            app.router.add_route(method, path, getattr(self, f"_{name}"), name=name)
        self._runner, self.url = await listen(app, shutdown_sec=0.5)

    async def close(self) -> None:
        """End everything. Idempotent."""
        runner, self._runner = self._runner, None
        if runner is None:
            return
        for task in list(self._tasks - self._endings):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for sandbox_id in list(self.sandboxes):
            await self.die(sandbox_id)
        await self._events.shutdown()
        await end(runner)
        self._folder.cleanup()

    @property
    def env(self) -> dict[str, str]:
        """What the SDK needs to find this server and nothing else."""
        return {"DAYTONA_API_URL": f"{self.url}/api", "DAYTONA_API_KEY": API_KEY, "DAYTONA_TARGET": "us"}

    @property
    def live(self) -> list[str]:
        """The sandboxes that have not been ended."""
        return list(self.sandboxes)

    async def die(self, sandbox_id: str, *, state: str | None = None) -> None:
        """End a sandbox's machine; it stays listed in `state` where one is given."""
        sandbox = self.sandboxes[sandbox_id]
        if state is None:
            del self.sandboxes[sandbox_id]
        else:
            sandbox.dto["state"] = state
        if sandbox.end is not None:
            sandbox.end.cancel()
        box, sandbox.box = sandbox.box, None
        if box is not None:
            await box.stop()

    # Faults

    @web.middleware
    async def _middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        name = request.match_info.route.name
        if name is None:
            return await handler(request)
        self.calls[name] += 1
        if not name.startswith("object_") and request.headers.get("Authorization") != f"Bearer {API_KEY}":
            return _refusal(401, "Invalid credentials")
        await asyncio.sleep(self.latency)
        fault = self.faults.take(name)
        if request.content_type == "application/json":
            await request.read()  # a client that gives up meanwhile has said all
        try:
            await self._spawn(wait(fault))
            broken = None if fault is None else await self._break(fault, request, handler)
            return await handler(request) if broken is None else broken
        except Refused as refusal:
            return _refusal(refusal.status, str(refusal), refusal.code)

    async def _break(self, fault: Fault, request: web.Request, handler: Handler) -> web.StreamResponse | None:
        if fault.work:
            await handler(request)
        if fault.kill:
            self._expire(request.match_info["id"])
        if fault.reset:
            _abort(request)
            return web.Response()
        if fault.cut:
            response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": "5000"})
            await response.prepare(request)
            await response.write(b'{"exitCode": 0, "result": "aGFsZiBhIH')
            _abort(request)
            return response
        if fault.body is not None:
            headers = {"Content-Type": "application/json", **fault.headers}
            return web.Response(status=fault.status or 200, body=fault.body, headers=headers)
        if fault.status is not None:
            return _refusal(fault.status, "injected", None, fault.headers)
        return None

    # The API

    async def _create(self, request: web.Request) -> web.StreamResponse:
        body: State = await request.json()
        self.created.append(body)
        if "snapshot" in body:
            snapshot = next((each for each in self.snapshots.values() if each["name"] == body["snapshot"]), None)
            if snapshot is None or snapshot["state"] != "active":
                raise Refused(400, f"Snapshot {body['snapshot']} not found. Did you add it through the dashboard?")
            plan = self._plans[snapshot["name"]]
        else:
            plan = await self._plan(body["buildInfo"])
        sandbox_id = str(uuid.uuid4())
        dto = {
            "id": sandbox_id,
            "organizationId": ORGANIZATION,
            "name": body.get("name") or sandbox_id,
            "user": body.get("user") or "daytona",
            "env": body.get("env") or {},
            "labels": body.get("labels") or {},
            "public": False,
            "kvm": False,
            "networkBlockAll": bool(body.get("networkBlockAll")),
            "target": body.get("target") or "us",
            "cpu": body.get("cpu") or 1,
            "gpu": body.get("gpu") or 0,
            "memory": body.get("memory") or 1,
            "disk": body.get("disk") or 3,
            "state": "creating",
            "createdAt": _now(),
            "toolboxProxyUrl": f"{self.url}/toolbox",
        }
        sandbox = self.sandboxes[sandbox_id] = _Sandbox(dto=dto, image=plan)
        self.peak = max(self.peak, len(self.sandboxes))
        self._arm(sandbox, body.get("ttlMinutes") or 0)
        starting = self._spawn(self._boot(sandbox, self.start_seconds))
        if not self.start_seconds:
            await asyncio.shield(starting)
        return web.json_response(dto)

    async def _boot(self, sandbox: _Sandbox, seconds: float) -> None:
        await asyncio.sleep(seconds)
        if self.start_failure is not None:
            sandbox.dto["state"], sandbox.dto["errorReason"] = self.start_failure
        else:
            box = await Box.start(
                directories=[sandbox.image.workdir, *sandbox.image.directories],
                network=not sandbox.dto["networkBlockAll"],
            )
            for copy in sandbox.image.copies:
                await box.files.upload(copy.source, copy.target)
            if sandbox.dto["id"] not in self.sandboxes:
                await box.stop()
                return
            sandbox.box = box
            sandbox.dto["state"] = "started"
        await self._events.emit(
            "sandbox.state.updated", {"sandbox": sandbox.dto, "newState": sandbox.dto["state"], "oldState": "creating"}
        )

    async def _get(self, request: web.Request) -> web.StreamResponse:
        return web.json_response(self._found(request).dto)

    async def _list(self, request: web.Request) -> web.StreamResponse:
        wanted = json.loads(request.query.get("labels") or "{}").items()
        found = [each.dto for each in self.sandboxes.values() if wanted <= each.dto["labels"].items()]
        start = int(request.query.get("cursor") or 0)
        end = start + self.page
        cursor = str(end) if end < len(found) else None
        return web.json_response({"items": found[start:end], "nextCursor": cursor})

    async def _delete(self, request: web.Request) -> web.StreamResponse:
        sandbox = self._found(request)
        await self.die(sandbox.dto["id"])
        return web.json_response({**sandbox.dto, "state": "destroying"})

    async def _set_ttl(self, request: web.Request) -> web.StreamResponse:
        sandbox = self._found(request)
        self._arm(sandbox, int(request.match_info["minutes"]))
        return web.json_response(sandbox.dto)

    def _arm(self, sandbox: _Sandbox, minutes: int) -> None:
        if sandbox.end is not None:
            sandbox.end.cancel()
        if minutes:
            end = self.minute * minutes
            loop = asyncio.get_running_loop()
            sandbox.end = loop.call_later(end, lambda: self._expire(sandbox.dto["id"]))

    def _expire(self, sandbox_id: str) -> None:
        task = self._spawn(self.die(sandbox_id))
        self._endings.add(task)
        task.add_done_callback(self._endings.discard)

    # Snapshots and their contexts

    async def _create_snapshot(self, request: web.Request) -> web.StreamResponse:
        body: State = await request.json()
        plan = await self._plan(body["buildInfo"])
        if any(each["name"] == body["name"] for each in self.snapshots.values()):
            raise Refused(409, f'Snapshot with name "{body["name"]}" already exists')
        dto = {
            "id": str(uuid.uuid4()),
            "organizationId": ORGANIZATION,
            "general": False,
            "name": body["name"],
            "imageName": "",
            "state": "building",
            "size": None,
            "entrypoint": None,
            "cpu": body.get("cpu") or 1,
            "gpu": body.get("gpu") or 0,
            "mem": body.get("memory") or 1,
            "disk": body.get("disk") or 3,
            "errorReason": None,
            "createdAt": _now(),
            "updatedAt": _now(),
            "lastUsedAt": None,
            "sourceSandboxId": None,
        }
        self.snapshots[dto["id"]] = dto
        self._plans[dto["name"]] = plan
        building = self._spawn(self._build(dto))
        if not self.build_seconds:
            await asyncio.shield(building)
        return web.json_response(dto)

    async def _build(self, dto: State) -> None:
        await asyncio.sleep(self.build_seconds)
        dto["state"] = "active" if self.build_failure is None else "build_failed"
        dto["errorReason"] = self.build_failure

    async def _get_snapshot(self, request: web.Request) -> web.StreamResponse:
        return web.json_response(self._snapshot(request))

    async def _activate_snapshot(self, request: web.Request) -> web.StreamResponse:
        dto = self._snapshot(request)
        dto["state"] = "pending"
        self._spawn(self._build(dto))
        return web.json_response(dto)

    async def _remove_snapshot(self, request: web.Request) -> web.StreamResponse:
        dto = self._snapshot(request)
        del self.snapshots[dto["id"]]
        return web.Response()

    def _snapshot(self, request: web.Request) -> State:
        name = request.match_info["id"]
        for dto in self.snapshots.values():
            if name in (dto["id"], dto["name"]):
                return dto
        raise Refused(404, f"Snapshot with ID {name} not found", "SNAPSHOT_NOT_FOUND")

    async def _plan(self, build: State) -> ImagePlan:
        """The context that the client sent, unpacked, and what its Dockerfile comes to."""
        folder = Path(tempfile.mkdtemp(dir=self._folder.name))
        for key in build.get("contextHashes") or []:
            data = self._files[f"{ORGANIZATION}/{key}/context.tar"]
            with tarfile.open(fileobj=io.BytesIO(data)) as tar:
                tar.extractall(folder, filter="data")
        (folder / "Dockerfile").write_text(build["dockerfileContent"])
        try:
            return await asyncio.to_thread(read_dockerfile, folder)
        except SandboxError as error:
            raise Refused(400, str(error)) from error

    async def _push_access(self, request: web.Request) -> web.StreamResponse:
        return web.json_response(
            {
                "accessKey": "access",
                "secret": "storage-secret",
                "sessionToken": "session",
                "storageUrl": self.url + "/storage",
                "organizationId": ORGANIZATION,
                "bucket": "builds",
                "region": "us-east-1",
            }
        )

    async def _object_head(self, request: web.Request) -> web.StreamResponse:
        data = self._files.get(request.match_info["key"])
        if data is None:
            return web.Response(status=404)
        return web.Response(headers={"Content-Length": str(len(data)), "Last-Modified": _HTTP_DATE, "ETag": '"1"'})

    async def _object_put(self, request: web.Request) -> web.StreamResponse:
        data = await request.read()
        upload = request.query.get("uploadId")
        if upload is not None:
            self._parts[upload][int(request.query["partNumber"])] = data
        else:
            self._files[request.match_info["key"]] = data
        return web.Response(headers={"ETag": '"1"'})

    async def _object_post(self, request: web.Request) -> web.StreamResponse:
        key = request.match_info["key"]
        upload = request.query.get("uploadId")
        if upload is None:
            upload = uuid.uuid4().hex
            self._parts[upload] = {}
            return _xml("InitiateMultipartUploadResult", Bucket="builds", Key=key, UploadId=upload)
        parts = self._parts.pop(upload)
        self._files[key] = b"".join(parts[number] for number in sorted(parts))
        return _xml("CompleteMultipartUploadResult", Bucket="builds", Key=key, ETag='"1"', Location=key)

    # The toolbox

    async def _execute(self, request: web.Request) -> web.StreamResponse:
        sandbox, box = self._running(request)
        body: State = await request.json()
        env = {**sandbox.image.env, **sandbox.dto["env"], **(body.get("envs") or {})}
        process = box.run(["/bin/sh", "-c", body["command"]], env=env, cwd=body.get("cwd") or sandbox.image.workdir)
        try:
            async with asyncio.timeout(body.get("timeout") or 10):
                code, out, err = await process.communicate()
        except TimeoutError:
            process.kill()
            raise Refused(408, "command execution timeout", "PROCESS_EXECUTION_TIMEOUT") from None
        if sandbox.box is None:
            raise Refused(502, "connection to the sandbox was lost")
        text = (out + err).decode("utf-8", "replace")
        return web.json_response({"exitCode": code if code >= 0 else 128 - code, "result": text})

    async def _upload(self, request: web.Request) -> web.StreamResponse:
        _, box = self._running(request)
        path = ""
        async for part in await request.multipart():
            if (part.name or "").endswith(".path"):
                path = await part.text()
            else:
                await box.files.write(path, bytes(await part.read()))
        return web.json_response({})

    async def _download(self, request: web.Request) -> web.StreamResponse:
        _, box = self._running(request)
        with MultipartWriter("form-data") as writer:
            for path in (await request.json())["paths"]:
                try:
                    part = writer.append(await box.files.read(path, max_bytes=1 << 30))
                    name = "file"
                except OSError as error:
                    text = json.dumps({"message": str(error), "statusCode": 404, "code": "FILE_NOT_FOUND"})
                    part = writer.append(text, {"Content-Type": "application/json"})
                    name = "error"
                part.set_content_disposition("form-data", name=name, filename=path, quote_fields=False)
        return web.Response(body=writer, content_type="multipart/form-data")

    def _found(self, request: web.Request) -> _Sandbox:
        sandbox = self.sandboxes.get(request.match_info["id"])
        if sandbox is None:
            raise Refused(404, f"Sandbox with ID or name {request.match_info['id']} not found", "SANDBOX_NOT_FOUND")
        return sandbox

    def _running(self, request: web.Request) -> tuple[_Sandbox, Box]:
        sandbox = self._found(request)
        if sandbox.box is None:
            raise Refused(400, "no IP address found. Is the Sandbox started?", "SANDBOX_NOT_RUNNING")
        return sandbox, sandbox.box

    def _spawn(self, work: Any) -> asyncio.Task[Any]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


_HTTP_DATE = "Thu, 01 Jan 2026 00:00:00 GMT"
_ROUTES = (
    ("POST", "/api/sandbox", "create"),
    ("GET", "/api/sandbox", "list"),
    ("GET", "/api/sandbox/{id}", "get"),
    ("DELETE", "/api/sandbox/{id}", "delete"),
    ("POST", "/api/sandbox/{id}/ttl/{minutes}", "set_ttl"),
    ("POST", "/api/snapshots", "create_snapshot"),
    ("GET", "/api/snapshots/{id}", "get_snapshot"),
    ("POST", "/api/snapshots/{id}/activate", "activate_snapshot"),
    ("DELETE", "/api/snapshots/{id}", "remove_snapshot"),
    ("GET", "/api/object-storage/push-access", "push_access"),
    ("POST", "/toolbox/{id}/process/execute", "execute"),
    ("POST", "/toolbox/{id}/files/bulk-upload", "upload"),
    ("POST", "/toolbox/{id}/files/bulk-download", "download"),
    ("HEAD", "/storage/builds/{key:.*}", "object_head"),
    ("PUT", "/storage/builds/{key:.*}", "object_put"),
    ("POST", "/storage/builds/{key:.*}", "object_post"),
)


@asynccontextmanager
async def daytona_plane(**options: Any) -> AsyncIterator[DaytonaPlane]:
    """A running plane, with all its boxes ended on the way out."""
    plane = DaytonaPlane(**options)
    await plane.start()
    try:
        yield plane
    finally:
        await plane.close()


def _abort(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _refusal(status: int, message: str, code: str | None = None, headers: dict[str, str] | None = None) -> web.Response:
    body = {
        "statusCode": status,
        "message": message,
        "code": code,
        "source": "DAYTONA_API",
        "path": "",
        "timestamp": _now(),
    }
    if code == "PROCESS_EXECUTION_TIMEOUT":
        body["source"] = "DAYTONA_DAEMON"
    return web.json_response(body, status=status, headers=headers)


def _xml(root: str, **fields: str) -> web.Response:
    inside = "".join(f"<{name}>{value}</{name}>" for name, value in fields.items())
    return web.Response(text=f"<{root}>{inside}</{root}>", content_type="application/xml")

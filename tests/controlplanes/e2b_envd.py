"""The daemon inside a loopback E2B sandbox: processes over Connect streams, files over HTTP."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
from typing import Any

from aiohttp import web
from controlplanes.faults import Fault
from controlplanes.localbox import Box, Process

USERS = {"root": "/root", "user": "/home/user", "nobody": "/nonexistent"}
_END = 2


class Running:
    """A process and who listens to it. What comes while nobody listens is lost, as with the real one."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.listeners: set[asyncio.Queue[dict[str, Any] | None]] = set()

    async def pump(self) -> None:
        async for stream, data in self.process.output():
            self._tell({"data": {stream: base64.b64encode(data).decode()}})
        code = await self.process.exit_code()
        end: dict[str, Any] = {"exitCode": code if code >= 0 else -1, "exited": code >= 0, "status": f"exit {code}"}
        if code < 0:
            end["error"] = "signal: killed"
        self._tell({"end": end})
        for listener in self.listeners:
            listener.put_nowait(None)

    def _tell(self, event: dict[str, Any]) -> None:
        for listener in self.listeners:
            listener.put_nowait(event)


class Envd:
    """The daemon of one sandbox."""

    def __init__(self, box: Box, *, user: str, workdir: str, env: dict[str, str]) -> None:
        self.box = box
        self.transports: set[Any] = set()
        self.users: list[str] = []
        self._user = user
        self._workdir = workdir
        self._env = env
        self._running: dict[int, Running] = {}
        self._pumps: set[asyncio.Task[None]] = set()
        self._ending: asyncio.Task[None] | None = None

    async def close(self) -> None:
        """Die as a machine does that loses its power: connections break, nothing says goodbye. Idempotent."""
        if self._ending is None:
            self._ending = asyncio.create_task(self._end())
        await asyncio.shield(self._ending)

    async def _end(self) -> None:
        for transport in self.transports:
            transport.abort()
        await self.box.stop()
        await asyncio.gather(*self._pumps, return_exceptions=True)

    async def start(self, request: web.Request, fault: Fault | None) -> web.StreamResponse:
        asked = _unwrap(await request.read())
        user = _user_of(request) or self._user
        if user not in USERS:
            return web.json_response({"code": "unauthenticated", "message": f"invalid username: {user!r}"}, status=401)
        self.users.append(user)
        config = asked["process"]
        cwd = config.get("cwd") or self._workdir or USERS[user]
        if not (self.box.root / cwd.strip("/")).is_dir():
            return await _stream_error(request, "invalid_argument", f"cwd '{cwd}' does not exist")
        env = {"HOME": USERS[user], "USER": user, **self._env, **config.get("envs", {})}
        process = self.box.run([config["cmd"], *config.get("args", [])], env=env, cwd=cwd)
        running = self._running[process.pid] = Running(process)
        pump = asyncio.create_task(running.pump())
        self._pumps.add(pump)
        pump.add_done_callback(lambda _: (self._pumps.discard(pump), self._running.pop(process.pid, None)))
        return await self._follow(request, running, fault)

    async def connect(self, request: web.Request, fault: Fault | None) -> web.StreamResponse:
        pid = _unwrap(await request.read())["process"]["pid"]
        running = self._running.get(pid)
        if running is None:
            return await _stream_error(request, "not_found", f"process with pid {pid} not found")
        return await self._follow(request, running, fault)

    async def signal(self, request: web.Request) -> web.StreamResponse:
        pid = (await request.json())["process"]["pid"]
        if pid not in self._running:
            return web.json_response({"code": "not_found", "message": "no such process"}, status=404)
        self._running[pid].process.kill()
        return web.json_response({})

    async def read(self, request: web.Request) -> web.StreamResponse:
        path = request.query["path"]
        try:
            return web.Response(body=await self.box.files.read(path, max_bytes=1 << 30))
        except FileNotFoundError:
            return web.json_response({"code": 404, "message": f"path '{path}' does not exist"}, status=404)

    async def write(self, request: web.Request) -> web.StreamResponse:
        path = request.query.get("path", "")
        if request.content_type == "application/octet-stream":
            data = await request.read()
        else:
            part: Any = await (await request.multipart()).next()
            path, data = path or part.filename, bytes(await part.read())
        await self.box.files.write(path, data)
        return web.json_response([{"name": path.rpartition("/")[2], "type": "file", "path": path}])

    async def _follow(self, request: web.Request, running: Running, fault: Fault | None) -> web.StreamResponse:
        queue: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        running.listeners.add(queue)
        milliseconds = int(request.headers.get("Connect-Timeout-Ms", 0))
        response = web.StreamResponse(headers={"Content-Type": "application/connect+json"})
        await response.prepare(request)
        self.transports.add(request.transport)
        try:
            await response.write(_wrap({"event": {"start": {"pid": running.process.pid}}}))
            if fault is not None and (fault.cut or fault.kill):
                await asyncio.sleep(fault.delay)
                if fault.kill:
                    await self.close()
                elif request.transport is not None:
                    request.transport.abort()
                return response
            async with asyncio.timeout(milliseconds / 1000 if milliseconds else None):
                while (event := await queue.get()) is not None:
                    await response.write(_wrap({"event": event}))
            await response.write(_wrap({}, _END))
        except TimeoutError:
            error = {"code": "deadline_exceeded", "message": "context deadline exceeded"}
            await response.write(_wrap({"error": error}, _END))
        except ConnectionError:
            pass  # the client is gone; the process stays
        finally:
            running.listeners.discard(queue)
            self.transports.discard(request.transport)
        return response


def _wrap(message: dict[str, Any], flags: int = 0) -> bytes:
    body = json.dumps(message).encode()
    return struct.pack(">BI", flags, len(body)) + body


def _unwrap(body: bytes) -> Any:
    _, size = struct.unpack(">BI", body[:5])
    return json.loads(body[5 : 5 + size])


def _user_of(request: web.Request) -> str | None:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return base64.b64decode(token).decode().partition(":")[0] if scheme == "Basic" else None


async def _stream_error(request: web.Request, code: str, message: str) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/connect+json"})
    await response.prepare(request)
    await response.write(_wrap({"error": {"code": code, "message": message}}, _END))
    return response
